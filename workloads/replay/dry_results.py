"""The results of a dry replay, written to a folder."""

from pathlib import Path
from typing import Any

from merge import each_step
from workloads.replay.dry_replay import NotReplayed, dry_rows
from workloads.replay.results_folder import ResultsFolder, StepResult, manifest_of
from workloads.traces.trace_file import Trace, trace_json
from workloads.way import Way
from workloads.workload import Workload


def replay_dry(  # noqa: PLR0913 - a replay has these settings
    workload: Workload,
    trace: Trace,
    way: Way,
    *,
    pace: float,
    into: Path,
    rate: float = 1.0,
) -> None:
    """Replay a trace dry and write the results to a folder; replace those of the same replay."""
    if way.defragment == "itself":
        raise NotReplayed(
            "--defragment itself: a dry replay has no measurements to decide by; use off or step, or leave out --dry"
        )
    settings: dict[str, Any] = {"pace": pace, "rate": rate, "cost": each_step.__name__}
    manifest = manifest_of(
        mode=way.mode,
        placement=way.placement,
        defragment=way.defragment,
        dry=True,
        trace=trace_json(trace),
        workload={"name": workload.name, **workload.about},
        settings=settings,
    )
    counted = dry_rows(
        workload,
        trace,
        mode=way.mode,
        placement=way.placement,
        defragment="step" if way.defragment == "step" else "off",
        pace=pace,
        rate=rate,
    )
    results = ResultsFolder(into, manifest)
    results.found = [StepResult(step=row, users=tuple(users)) for row, users in counted]
    results.finish()
