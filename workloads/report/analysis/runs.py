"""The runs of a report: results by workload, trace and way, with dry and live runs apart."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean

from pydantic import TypeAdapter, ValidationError

from workloads.report.analysis.savings import IntervalEstimate, Pair, means, weights
from workloads.results import StepRow, WindowRow
from workloads.results_tables import Results, WrongResults, read_results
from workloads.way import Way

_WAY = TypeAdapter(Way)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One results folder."""

    folder: Path
    results: Results

    @property
    def way(self) -> Way:
        """The way of the replay."""
        manifest = self.results.manifest
        names = (manifest.mode, manifest.placement, manifest.defragment)
        try:
            return _WAY.validate_python(names)
        except ValidationError:
            raise WrongResults(
                f"{self.folder}: was replayed in an unknown way: {', '.join(names)}; replay it again"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The runs of one workload and trace; made by `grouped`."""

    workload: str
    trace: str
    dry: Mapping[Way, Run]
    live: Mapping[Way, Run]

    @property
    def every(self) -> Iterator[Run]:
        """All runs, dry ones first."""
        return chain(self.dry.values(), self.live.values())

    @property
    def ways(self) -> tuple[Way, ...]:
        """All ways; those without sharing are first."""
        return tuple(sorted(self.dry.keys() | self.live.keys()))

    @property
    def step_weights(self) -> tuple[float, ...]:
        """The weight of each step."""
        return weights(next(self.every).results.manifest.trace)

    def counts(self, way: Way) -> tuple[StepRow, ...]:
        """The steps of a way, from the dry run if there is one; empty if there is no run."""
        run = self.dry.get(way) or self.live.get(way)
        return run.results.steps if run else ()

    def windows(self, way: Way) -> Mapping[int, tuple[WindowRow, ...]]:
        """The valid windows of a way, by step."""
        found: defaultdict[int, list[WindowRow]] = defaultdict(list)
        for row in self._windows(way):
            if not row.behind:
                found[row.step].append(row)
        return {step: tuple(rows) for step, rows in sorted(found.items())}

    def discarded_windows(self, way: Way) -> tuple[WindowRow, ...]:
        """The windows in which the service was behind."""
        return tuple(row for row in self._windows(way) if row.behind)

    def both(self, way: Way) -> Iterator[tuple[WindowRow, WindowRow]]:
        """Pairs of the same window in a way's baseline and in the way itself, if both are valid."""
        without = {(row.step, row.window): row for row in self._windows(way.baseline) if not row.behind}
        for rows in self.windows(way).values():
            for row in rows:
                if (row.step, row.window) in without:
                    yield without[row.step, row.window], row

    def pairs(self, way: Way) -> tuple[Pair, ...]:
        """The cores of a way and of its baseline in the same windows."""
        return tuple(Pair(step=other.step, without=one.cores, shared=other.cores) for one, other in self.both(way))

    def estimates(self, way: Way) -> Mapping[int, IntervalEstimate]:
        """The mean cores at each measured step, with intervals."""
        return means({step: [row.cores for row in rows] for step, rows in self.windows(way).items()})

    def cores(self, way: Way) -> Mapping[int, float]:
        """The mean cores at each measured step."""
        return {step: fmean(row.cores for row in rows) for step, rows in self.windows(way).items()}

    def _windows(self, way: Way) -> tuple[WindowRow, ...]:
        run = self.live.get(way)
        return run.results.windows if run else ()


def read_runs(folders: Sequence[Path]) -> tuple[Runs, ...]:
    """Read the runs in these folders, by workload and trace."""
    return grouped([Run(folder=folder, results=read_results(folder)) for folder in folders])


def grouped(runs: Sequence[Run]) -> tuple[Runs, ...]:
    """Runs by workload and trace, in the order of their names; raises if they cannot be compared."""
    if not runs:
        raise WrongResults("there are no results to report on; choose folders written by `braid replay`")
    groups: defaultdict[tuple[str, str, int], list[Run]] = defaultdict(list)
    for run in runs:
        trace = run.results.manifest.trace
        try:
            groups[str(trace["workload"]), str(trace["name"]), int(trace["seed"])].append(run)
            weights(trace)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise WrongResults(
                f"{run.folder}: its manifest has no valid trace: {error!r}; replay the trace again with `braid replay`"
            ) from None
    seeds: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for workload, name, seed in groups:
        seeds[workload, name].add(seed)
    return tuple(
        _together(workload, f"{name} (seed {seed})" if len(seeds[workload, name]) > 1 else name, those)
        for (workload, name, seed), those in sorted(groups.items(), key=lambda item: _order(*item[0]))
    )


def _order(workload: str, trace: str, seed: int) -> tuple[str, bool, str, int]:
    """The paper's order: the sequential trace first."""
    return workload, not trace.startswith("SEQ"), trace, seed


def _together(workload: str, trace: str, runs: Sequence[Run]) -> Runs:
    first = runs[0]
    found: dict[bool, dict[Way, Run]] = {True: {}, False: {}}
    for run in runs:
        steps = [(row.step, row.action, row.dataflow) for row in run.results.steps]
        if steps != [(row.step, row.action, row.dataflow) for row in first.results.steps] or not steps:
            raise WrongResults(
                f"{run.folder}: has other steps of the trace {trace!r} than {first.folder}; report on one of them"
            )
        if len(steps) != len(run.results.manifest.trace["steps"]):
            raise WrongResults(f"{run.folder}: lacks steps of its trace; replay it again with `braid replay`")
        if any(not 0 <= row.step < len(steps) for row in run.results.windows):
            raise WrongResults(f"{run.folder}: has windows of unknown steps; replay it again with `braid replay`")
        known = found[run.results.manifest.dry].setdefault(run.way, run)
        if known is not run:
            raise WrongResults(f"{run.folder}: is the same replay as {known.folder}; report on one of them")
    return Runs(workload=workload, trace=trace, dry=found[True], live=found[False])
