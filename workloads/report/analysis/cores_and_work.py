"""The saved cores compared with the saved work at the same steps, in sentences. Pure."""

from collections.abc import Iterator, Sequence

from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import Summary, part

NEAR = 3.0
"""Percentage points within which cores follow the work."""


def cores_against_work(every: Sequence[Runs], summary: Summary) -> Iterator[str]:
    """A sentence for each way that was measured together with its baseline."""
    for runs in every:
        of = summary.workloads[runs.workload][runs.trace]
        for way in runs.ways:
            each = of[way.name]
            if way == way.baseline or each.cores_saved is None or each.work_saved_where_measured is None:
                continue
            points = 100 * (each.cores_saved - each.work_saved_where_measured)
            most = max(runs.cores(way.baseline).values())
            yield (
                f"{runs.workload}, {runs.trace}, {way.name}: {part(each.cores_saved)} of the cores are saved, and"
                f" {part(each.work_saved_where_measured)} of the work at the same steps:"
                f" {'within' if abs(points) <= NEAR else 'not within'} {NEAR:g} points ({points:+.1f})."
                f" {way.baseline.name} takes at most {most:.2f} cores."
            )
