"""The runs of a report, by workload, trace and way, with dry and live runs apart; and the arithmetic of savings.

A saving is cumulative: the sum over all steps of the use with sharing, compared with the sum of the use without. Steps
are weighted by their duration if the trace has times, else equally.

The interval comes from pairs of windows, measured at the same step with and without sharing. The deviations of the
pairs from the saving are pooled over all steps, and Student's t gives the interval. It says how much a repeated
measurement would vary, not what other traces would give.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

from pydantic import TypeAdapter, ValidationError

from workloads.results import Results, StepRow, WindowRow, WrongResults, read_results
from workloads.traces import DEFAULT, DEFAULT_PACKED, REUSE, REUSE_PACKED, Way

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalEstimate:
    """A number with its interval; without an interval if no measurement was repeated."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A window that was measured both without and with sharing."""

    step: int
    without: float
    """The use without sharing."""
    shared: float
    """The use with sharing."""


def weights(trace: Mapping[str, Any]) -> tuple[float, ...]:
    """The duration of each step of a trace in a manifest; 1 each if the trace has no times.

    >>> weights({"steps": [{"at": 0.0}, {"at": 2.0}, {"at": 5.0}]})
    (2.0, 3.0, 0.0)
    >>> weights({"steps": [{}, {}]})
    (1.0, 1.0)
    """
    times = [step.get("at") for step in trace["steps"]]
    if None in times:
        return (1.0,) * len(times)
    durations = [after - before for before, after in pairwise(times)]
    # Nothing follows the last step; if no other step has a duration either, all have the same weight.
    return (*durations, 0.0) if sum(durations) else (1.0,) * len(times)


def saved(without: Sequence[float], shared: Sequence[float], durations: Sequence[float]) -> float | None:
    """The saved part of the use without sharing; None if there was no use.

    >>> saved([2, 4], [2, 1], [1, 1])
    0.5
    """
    whole = math.fsum(weight * use for weight, use in zip(durations, without, strict=True))
    used = math.fsum(weight * use for weight, use in zip(durations, shared, strict=True))
    return 1 - used / whole if whole else None


def saved_at_peak(without: Sequence[float], shared: Sequence[float]) -> float | None:
    """The saved part at the first step with the highest use without sharing."""
    if not without or not max(without):
        return None
    peak = without.index(max(without))
    return 1 - shared[peak] / without[peak]


def means(steps: Mapping[int, Sequence[float]]) -> dict[int, IntervalEstimate]:
    """The mean of each step's windows; the variance is pooled over all steps, since each has few windows."""
    middles = {step: fmean(values) for step, values in steps.items()}
    freedom = sum(len(values) - 1 for values in steps.values())
    if not freedom:
        return {step: IntervalEstimate(value=middle) for step, middle in middles.items()}
    scatter = math.fsum((value - middles[step]) ** 2 for step, values in steps.items() for value in values) / freedom
    return {step: _around(middles[step], math.sqrt(scatter / len(values)), freedom) for step, values in steps.items()}


def saving_of(pairs: Iterable[Pair], durations: Mapping[int, float]) -> IntervalEstimate | None:
    """The weighted saving by pairs of windows; None if nothing was measured."""
    steps: defaultdict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        steps[pair.step].append(pair)
    whole = math.fsum(durations[step] * fmean(pair.without for pair in those) for step, those in steps.items())
    if not whole > 0:
        return None
    used = math.fsum(durations[step] * fmean(pair.shared for pair in those) for step, those in steps.items())
    ratio = used / whole
    freedom = sum(len(those) - 1 for those in steps.values())
    if not freedom:
        return IntervalEstimate(value=1 - ratio)
    scatter = math.fsum(_scatter(those, ratio) for those in steps.values()) / freedom
    error = math.sqrt(math.fsum(durations[step] ** 2 * scatter / len(those) for step, those in steps.items())) / whole
    return _around(1 - ratio, error, freedom)


def quantile(freedom: int) -> float:
    """Student's t for a two-sided interval, with a relative error of at most 0.002.

    >>> [round(quantile(freedom), 2) for freedom in (1, 2, 3, 5, 10, 30)]
    [12.71, 4.3, 3.18, 2.57, 2.23, 2.04]
    """
    if freedom == 1:
        return math.tan(math.pi * CONFIDENCE / 2)
    if freedom == 2:  # noqa: PLR2004 - this one has a formula too
        return CONFIDENCE * math.sqrt(2 / (1 - CONFIDENCE**2))
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    # The expansion of Cornish and Fisher in 1 / freedom.
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def _scatter(pairs: Sequence[Pair], ratio: float) -> float:
    """The sum of squared deviations of a step's pairs from the common ratio."""
    left = [pair.shared - ratio * pair.without for pair in pairs]
    middle = fmean(left)
    return math.fsum((deviation - middle) ** 2 for deviation in left)


def _around(value: float, error: float, freedom: int) -> IntervalEstimate:
    width = quantile(freedom) * error
    return IntervalEstimate(value=value, low=value - width, high=value + width)


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
    def name(self) -> str:
        """The name in sentences and tables."""
        return f"{self.workload}, {self.trace}"

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
        valid: defaultdict[int, list[WindowRow]] = defaultdict(list)
        for row in self._windows(way):
            if not row.behind:
                valid[row.step].append(row)
        return {step: tuple(rows) for step, rows in sorted(valid.items())}

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
    # The paper's order: the sequential trace first.
    ordered = sorted(groups, key=lambda group: (group[0], not group[1].startswith("SEQ"), *group[1:]))
    return tuple(
        _together(
            workload, f"{name} (seed {seed})" if len(seeds[workload, name]) > 1 else name, groups[workload, name, seed]
        )
        for workload, name, seed in ordered
    )


def _together(workload: str, trace: str, runs: Sequence[Run]) -> Runs:
    first = runs[0]
    by_kind: dict[bool, dict[Way, Run]] = {True: {}, False: {}}
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
        known = by_kind[run.results.manifest.dry].setdefault(run.way, run)
        if known is not run:
            raise WrongResults(f"{run.folder}: is the same replay as {known.folder}; report on one of them")
    return Runs(workload=workload, trace=trace, dry=by_kind[True], live=by_kind[False])


MANY = 10
"""So many dataflows or more are one class."""


def shares_by_users(runs: Runs) -> dict[int, float]:
    """The part of the running tasks that two, three, and more dataflows use, weighted by time."""
    # The users of a task are the same in any placement.
    run = next(
        (
            candidate
            for way in (REUSE, REUSE_PACKED)
            for candidate in (runs.dry.get(way), runs.live.get(way))
            if candidate
        ),
        None,
    )
    if run is None:
        return {}
    step_weights = runs.step_weights
    by_users: dict[int, float] = {}
    for row in run.results.users:
        users = min(row.users, MANY)
        by_users[users] = by_users.get(users, 0.0) + step_weights[row.step] * row.tasks
    whole = sum(by_users.values())
    return {users: by_users[users] / whole for users in sorted(by_users) if users > 1} if whole else {}


def latencies(runs: Runs) -> dict[Way, tuple[float, float]]:
    """The mean p50 and p99 of each way with measurements."""
    by_way: dict[Way, tuple[float, float]] = {}
    for way in runs.ways:
        rows = [row for those in runs.windows(way).values() for row in those]
        p50 = [row.latency_p50 for row in rows if row.latency_p50 is not None]
        p99 = [row.latency_p99 for row in rows if row.latency_p99 is not None]
        if p50 and p99:
            by_way[way] = fmean(p50), fmean(p99)
    return by_way


def cores_by_packing_and_sharing(runs: Runs) -> dict[Way, float]:
    """The mean cores of each measured one of the four ways, over their common steps."""
    four = (DEFAULT, REUSE, DEFAULT_PACKED, REUSE_PACKED)
    by_way = {way: cores for way in four if (cores := runs.cores(way))}
    common = set.intersection(*map(set, by_way.values())) if by_way else set()
    if not common:
        return {}
    return {way: fmean(cores[step] for step in common) for way, cores in by_way.items()}


def tenant_cores(runs: Runs, way: Way) -> dict[str | None, float]:
    """Each tenant's mean share over the measured steps; the operator's overhead has no tenant."""
    run = runs.live.get(way)
    valid = runs.windows(way)
    rows = [row for row in run.results.tenants if row.step in valid] if run else []
    steps = {row.step for row in rows}
    shares: dict[str | None, float] = {}
    for row in rows:
        shares[row.tenant] = shares.get(row.tenant, 0.0) + row.cores / len(steps)
    return shares


def job_cores(runs: Runs) -> tuple[float, float] | None:
    """The fixed cores of a job, and the part of default's cores that all jobs take; None if unknown."""
    launched, packed = runs.cores(DEFAULT), runs.cores(DEFAULT_PACKED)
    common = sorted(launched.keys() & packed.keys())
    if not common:
        return None
    jobs = {way: {row.step: row.jobs for row in runs.counts(way)} for way in (DEFAULT, DEFAULT_PACKED)}
    more_jobs = fmean(jobs[DEFAULT][step] - jobs[DEFAULT_PACKED][step] for step in common)
    more_cores = fmean(launched[step] - packed[step] for step in common)
    if more_jobs <= 0 or more_cores <= 0:
        return None
    job = more_cores / more_jobs
    return job, job * fmean(jobs[DEFAULT][step] for step in common) / fmean(launched[step] for step in common)
