"""Rows of results made by hand: what every test may need, and what this one says."""

from typing import Any

from workloads.results import StepRow, WindowRow


def step_row(step: int, **other: Any) -> StepRow:
    """A dataflow of three tasks was submitted."""
    usual: dict[str, Any] = {
        "action": "submit",
        "dataflow": "a",
        "phase": "fill",
        "dataflows": 1,
        "submitted_tasks": 3,
        "submitted_sources": 1,
        "submitted_outputs": 1,
        "running_tasks": 3,
        "running_sources": 1,
        "running_outputs": 1,
        "work_alone": 2.0,
        "work_running": 2.0,
        "paused_tasks": 0,
        "jobs": 1,
        "bridges": 0,
        "measured": False,
        "seconds": 0.0,
    }
    return StepRow(step=step, **(usual | other))


def window_row(step: int, number: int, cores: float, **other: Any) -> WindowRow:
    usual: dict[str, Any] = {
        "seconds": 10.0,
        **dict.fromkeys(("cores_broker", "cores_driver", "cores_jvm", "cores_workers", "cores_manager"), 0.0),
        "latency_p50": None,
        "latency_p99": None,
        "lag_events": 0,
        "events_out": 1.0,
        "alone_launched": None,
        "alone_packed": None,
        "behind": "",
    }
    return WindowRow(step=step, window=number, cores=cores, **(usual | other))
