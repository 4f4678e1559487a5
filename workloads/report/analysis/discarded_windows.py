"""Validity: which windows were thrown away because a service was behind, in sentences. Pure."""

from collections.abc import Iterator, Sequence

from workloads.report.analysis.runs import Runs


def thrown_away(every: Sequence[Runs]) -> Iterator[str]:
    """For each way of each trace how many windows count for nothing, and why the first of them does."""
    for runs in every:
        for way in runs.ways:
            thrown = runs.thrown_away(way)
            if not thrown:
                continue
            many = len(thrown) + sum(map(len, runs.windows(way).values()))
            first = thrown[0]
            yield (
                f"{runs.workload}, {runs.trace}, {way.name}: {len(thrown)} of {many} windows thrown away: the service"
                f" was behind, first at step {first.step + 1}: {first.behind}."
            )
