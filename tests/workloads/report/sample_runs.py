"""Results made by hand: a trace of four steps, in any way, with the cores that a test says."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.workloads.rows import step_row
from workloads.report.runs import Run, Runs, grouped
from workloads.results import ReplayManifest, Results, TenantCoresRow, UsersRow, WindowRow
from workloads.traces import Way

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
