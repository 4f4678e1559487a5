"""Results made by hand: rows, and a trace of four steps, with the cores that a test says."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workloads.report.runs import Run, Runs, grouped
from workloads.results import ReplayManifest, Results, StepRow, TenantCoresRow, UsersRow, WindowRow
from workloads.traces import Way


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


STEPS = (("submit", "a", "fill"), ("submit", "b", "fill"), ("remove", "a", "drain"), ("remove", "b", "drain"))
DEFAULT_TASKS, SHARED_TASKS = (4, 10, 6, 0), (4, 6, 4, 0)


def manifest(way: Way, *, dry: bool = True, trace: Mapping[str, Any] | None = None, **other: Any) -> ReplayManifest:
    steps = [{"action": action, "dataflow": dataflow, "phase": phase} for action, dataflow, phase in STEPS]
    usual: dict[str, Any] = {
        "mode": way.mode,
        "placement": way.placement,
        "defragment": way.defragment,
        "dry": dry,
        "complete": True,
        "trace": trace or {"version": 1, "name": "SEQ", "workload": "toy", "seed": 1, "steps": steps},
        "workload": {"name": "toy"},
        "settings": {},
        "versions": {},
        "machine": {},
        "begun": "2026-01-01T00:00:00+00:00",
        "ended": "2026-01-01T01:00:00+00:00",
    }
    return ReplayManifest(**(usual | other))


def results(  # noqa: PLR0913 - what tests differ in
    way: Way,
    *,
    tasks: Sequence[int] = SHARED_TASKS,
    jobs: Sequence[int] = (1, 2, 1, 0),
    work: Sequence[float] = (2.0, 5.0, 4.0, 0.0),
    windows: Sequence[WindowRow] = (),
    tenants: Sequence[TenantCoresRow] = (),
    **other: Any,
) -> Results:
    rows = tuple(
        step_row(
            step,
            action=action,
            dataflow=dataflow,
            phase=phase,
            dataflows=(1, 2, 1, 0)[step],
            submitted_tasks=(4, 9, 5, 0)[step],
            submitted_sources=(1, 2, 1, 0)[step],
            submitted_outputs=(1, 2, 1, 0)[step],
            running_tasks=tasks[step],
            running_sources=(1, 1, 1, 0)[step],
            running_outputs=(1, 2, 1, 0)[step],
            work_alone=(2.0, 6.0, 4.0, 0.0)[step],
            work_running=work[step],
            jobs=jobs[step],
            bridges=step,
        )
        for step, (action, dataflow, phase) in enumerate(STEPS)
    )
    users = (UsersRow(step=0, users=1, tasks=4), UsersRow(step=1, users=1, tasks=2), UsersRow(step=1, users=2, tasks=4))
    return Results(
        manifest=manifest(way, dry=not windows, **other),
        steps=rows,
        windows=tuple(windows),
        users=users,
        tenants=tuple(tenants),
    )


def runs(*every: Results) -> Runs:
    """The runs of one trace."""
    (found,) = grouped([Run(folder=Path(f"results/{number}"), results=each) for number, each in enumerate(every)])
    return found
