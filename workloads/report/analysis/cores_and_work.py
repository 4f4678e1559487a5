"""Following: how near the cores saved come to the work saved, at the same steps. Pure."""

from collections.abc import Iterator, Sequence

from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import Summary, part

NEAR = 3.0
"""Points within which cores are said to follow the work."""


def following(every: Sequence[Runs], summary: Summary) -> Iterator[str]:
    """For each way that was measured beside its baseline how far the two are apart, and what that one takes most."""
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
                f" {way.baseline.name} takes {most:.2f} cores at the most."
            )
