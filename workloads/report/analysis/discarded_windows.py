"""The windows that were discarded because a service was behind, in sentences. Pure."""

from collections.abc import Iterator, Sequence

from workloads.report.analysis.runs import Runs


def discarded_windows(every: Sequence[Runs]) -> Iterator[str]:
    """A sentence for each way with discarded windows: their number, and the reason of the first."""
    for runs in every:
        for way in runs.ways:
            discarded = runs.discarded_windows(way)
            if not discarded:
                continue
            many = len(discarded) + sum(map(len, runs.windows(way).values()))
            first = discarded[0]
            yield (
                f"{runs.workload}, {runs.trace}, {way.name}: {len(discarded)} of {many} windows were discarded because"
                f" the service was behind, first at step {first.step + 1}: {first.behind}."
            )
