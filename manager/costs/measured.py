"""Costs as measured: samples of hosts and tasks, the prices fitted to them, and what is kept of both.

Calibration: the prices of batches, bridges, paused tasks and disruptions, fitted to the hosts' measurements. A
host reports the CPU that its processes took, and the part that its tasks took. The rest went into batches,
bridges, paused tasks and the host itself; many samples of all hosts show in which proportions. This is a ridge
regression: every price is drawn towards the assumed one, the less the more data there is. So a price without
data stays as assumed, and two prices that always occur together both change a little.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from statistics import median

import numpy as np
from pydantic import TypeAdapter, ValidationError

from engine.plan import Bridged, Plan, SlotState
from manager.observations.figures import figures_of, per_second, stretch
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured
from manager.store.database import Store
from manager.store.tables import Leadership, LearntRow
from merge import ASSUMED_BUSY, BATCH_SECONDS, Costs, Instance, JobId, Jobs, RunningGraph
from merge.placement.planned import ASSUMED_BRIDGE

SHORTEST_SAMPLE = 60.0
"""The least seconds that a sample covers: a host measures its CPU every five, at a time that it does not report."""
_NOTHING = InstanceMeasured()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The counters of a host and its jobs at one moment."""

    at: float
    """The time in seconds of a monotonic clock."""
    cpu: Mapping[str, float]
    """Seconds of CPU of each of its processes since their start."""
    jobs: Mapping[str, Measured]
    bridges: int
    """Bridges into its jobs."""
    paused: int
    """Paused tasks in its jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """The work of a host between two moments."""

    seconds: float
    cpu: float
    """Seconds of CPU that its processes took, without its tasks."""
    batches: int
    bridges: float
    """The mean number."""
    paused: float
    """The mean number."""


def moment(
    host: HostSeen, hosts: Iterable[HostSeen], plans: Iterable[Plan], seen: Mapping[str, JobSeen], at: float
) -> Moment:
    """Return the counters of a host at the time of its status, with these plans in its jobs.

    Its processes run the jobs of all `hosts` of its machine.
    """
    together = {host.host, *(other.host for other in hosts if other.machine and other.machine == host.machine)}
    there = [plan for plan in plans if plan.host in together]
    return Moment(
        at=at,
        cpu=host.cpu,
        jobs={plan.job: job.measured[-1] for plan in there if (job := seen.get(plan.job)) is not None and job.measured},
        bridges=sum(isinstance(ingress.supply, Bridged) for plan in there for ingress in plan.ingress),
        paused=sum(slot.state is SlotState.PAUSED for plan in there for slot in plan.slots),
    )


def sample(before: Moment | None, after: Moment) -> tuple[Moment, HostSample | None]:
    """Return the moment to compare with next time, and the sample between the two moments, if there is one.

    There is none yet if they are too close together. There is none at all if something was started or stopped in
    between: that takes CPU of its own, and counters start again.
    """
    if before is None or not before.cpu:
        return after, None
    runs = {job: measured.run for job, measured in before.jobs.items()}
    if (
        runs != {job: measured.run for job, measured in after.jobs.items()}
        # Before its first batch, a job's batch number is not known.
        or any(measured.batch < 0 for measured in before.jobs.values())
        or any(after.cpu.get(part, 0.0) < taken for part, taken in before.cpu.items())
    ):
        return after, None
    if after.at - before.at < SHORTEST_SAMPLE:
        return before, None
    cpu = sum(after.cpu.values()) - sum(before.cpu.values())
    tasks = sum(
        _cpu(before.jobs[job], measured, instance)
        for job, measured in after.jobs.items()
        for instance in measured.instances
    )
    return after, HostSample(
        seconds=after.at - before.at,
        cpu=max(0.0, cpu - tasks / 1e9),
        batches=sum(measured.batch - before.jobs[job].batch for job, measured in after.jobs.items()),
        bridges=(before.bridges + after.bridges) / 2,
        paused=(before.paused + after.paused) / 2,
    )


def busy(running: RunningGraph, jobs: Jobs, seen: Mapping[str, JobSeen], now: float) -> dict[Instance, float]:
    """Return the load of each running task in cores, from the CPU that it took in the last minute.

    A source does no work. The load is assumed, as when tasks are placed, if a job has not reported enough yet.
    """
    # Once for each job, because there are many more tasks.
    over = {
        job: stretch(report.measured, now)
        for job in jobs.jobs
        if (report := seen.get(str(job))) is not None and len(report.measured) > 1
    }
    loads: dict[Instance, float] = {}
    for instance, task in running.tasks.items():
        if not task.inputs:
            loads[instance] = 0.0
        elif (known := over.get(jobs.homes[instance].job)) is None:
            loads[instance] = ASSUMED_BUSY
        else:
            loads[instance] = _cpu(known.base, known.last, instance) / known.seconds / 1e9
    return loads


def batches(jobs: Jobs, seen: Mapping[str, JobSeen], now: float) -> dict[JobId, float]:
    """Return the batches per second of each job, as far as they are known."""
    rates = {
        job: per_second(report.measured, lambda base, last: last.batch - base.batch, now)
        for job in jobs.jobs
        # The first report after a restart has no batch number.
        if (report := seen.get(str(job))) is not None and all(sample.batch >= 0 for sample in report.measured)
    }
    return {job: rate for job, rate in rates.items() if rate is not None}


def batch_seconds(jobs: Jobs, seen: Mapping[str, JobSeen], now: float) -> dict[JobId, float]:
    """Return the median duration of the latest batches of each job, as far as it is known."""
    medians = {
        job: figures_of(report.measured, now).batch_seconds_p50
        for job in jobs.jobs
        if (report := seen.get(str(job))) is not None
    }
    return {job: seconds for job, seconds in medians.items() if seconds is not None}


def _cpu(base: Measured, last: Measured, instance: int) -> int:
    """Return the nanoseconds of CPU that an instance took between two moments."""
    after, before = last.instances.get(instance, _NOTHING), base.instances.get(instance, _NOTHING)
    return max(0, after.cpu_ns - before.cpu_ns)


FEWEST_SAMPLES = 10
"""Samples needed before any price is fitted."""
_FADING = 0.98
"""The part of its weight that a sample keeps with each new one: at one per minute, half remains after half an hour."""
_NOISE = 0.02
"""The assumed error of a measurement in cores: garbage collection, clocks, other work."""
_CONVERGED = 1e-6
"""The fit has converged when no price changes by more in a pass, as a part of the assumed price."""
_MOST_PASSES = 2_000
"""The limit of passes; so many are needed only if two prices are hard to separate."""
DISRUPTIONS_KEPT = 9
"""The number of latest defragmentations that are kept. Their median counts, so an outlier changes nothing."""
FEWEST_DISRUPTIONS = 3
"""Defragmentations needed before their median counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The prices on a host, without its tasks."""

    host: float = 0.03
    """Cores of a host without jobs."""
    batch: float = BATCH_SECONDS
    """Seconds of CPU per batch, independent of its events."""
    bridge: float = ASSUMED_BRIDGE
    """Cores per bridge, for sending, receiving and spooling with every batch."""
    paused: float = 0.0001
    """Cores per paused task, for its line in each plan and its state in each image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruptions:
    """The costs of a defragmentation."""

    start: float = 3.0
    """Seconds of CPU to start and warm a job."""
    interruption: float = 2.0
    """Seconds for which the moving tasks stand still."""
    moving: float = 2e-8
    """Seconds of CPU to read, write and sync a byte of state."""


ASSUMED = Prices()
ASSUMED_DISRUPTIONS = Disruptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Weighted sums over all samples, in which old samples fade. Start with the empty one."""

    samples: int = 0
    products: tuple[tuple[float, ...], ...] = ((0.0,) * 4,) * 4
    """Sums of the products of each two amounts."""
    taken: tuple[float, ...] = (0.0,) * 4
    """Sums of the products of each amount and the cores taken."""
    squares: float = 0.0
    """The sum of the squared cores taken."""

    def learn(self, sample: HostSample) -> "Calibration":
        """Return the calibration with a further sample."""
        amounts = np.array([1.0, sample.batches / sample.seconds, sample.bridges, sample.paused])
        cores = sample.cpu / sample.seconds
        products = _FADING * np.array(self.products) + np.outer(amounts, amounts)
        taken = _FADING * np.array(self.taken) + cores * amounts
        return Calibration(
            samples=self.samples + 1,
            products=tuple(map(tuple, products.tolist())),
            taken=tuple(taken.tolist()),
            squares=_FADING * self.squares + cores**2,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDisruption:
    """The costs of one past defragmentation. None means not measured."""

    jobs: int
    """Jobs that it started."""
    starting: float | None = None
    """Seconds of CPU to start them."""
    interruption: float
    """Seconds for which the moving tasks stood still."""
    state: int = 0
    """Bytes of state that were moved."""
    moving: float | None = None
    """Seconds of CPU to move them."""


_NAMES = ("host", "batch", "bridge", "paused")
"""The prices in the order of the amounts of a sample."""


def prices(calibration: Calibration) -> Prices:
    """Return the prices that fit the samples best; the assumed ones if there are too few samples."""
    if calibration.samples < FEWEST_SAMPLES:
        return ASSUMED
    # Coordinate descent: prices are multiples of the assumed ones, so that all have the same scale. Each in turn is set
    # to its optimum given the others, but never below zero, until none changes.
    units = np.array(astuple(ASSUMED))
    products = (np.array(calibration.products) * np.outer(units, units)).tolist()
    taken = (np.array(calibration.taken) * units).tolist()
    shares = [1.0] * len(units)
    for _ in range(_MOST_PASSES):
        before = tuple(shares)
        for place, row in enumerate(products):
            others = sum(product * shares[other] for other, product in enumerate(row) if other != place)
            shares[place] = max(0.0, (taken[place] - others + _NOISE**2) / (row[place] + _NOISE**2))
        if max(abs(one - other) for one, other in zip(before, shares, strict=True)) < _CONVERGED:
            break
    return Prices(**dict(zip(_NAMES, (units * shares).tolist(), strict=True)))


def batch_range(calibration: Calibration) -> tuple[float, float]:
    """Return the range in which the price of a batch lies: two standard deviations to each side.

    The deviation follows from the distance between the samples and the fit. Without samples, and at most, the range is
    from half to double the assumed price.
    """
    fitted = prices(calibration)
    least, most = min(ASSUMED.batch / 2, fitted.batch), max(ASSUMED.batch * 2, fitted.batch)
    if calibration.samples < FEWEST_SAMPLES:
        return least, most
    units, paid, products = np.array(astuple(ASSUMED)), np.array(astuple(fitted)), np.array(calibration.products)
    accounted = paid @ products @ paid - 2 * paid @ np.array(calibration.taken)
    # The first amount is always one, so its product with itself is the total weight of the samples.
    variance = max(0.0, calibration.squares + float(accounted)) / calibration.products[0][0]
    known = products * np.outer(units, units) + _NOISE**2 * np.eye(len(units))
    deviation = (max(_NOISE**2, variance) * float(np.linalg.inv(known)[1, 1])) ** 0.5 * ASSUMED.batch
    return max(least, fitted.batch - 2 * deviation), min(most, fitted.batch + 2 * deviation)


def disruptions(past: Sequence[MeasuredDisruption]) -> Disruptions:
    """Return the expected costs of a defragmentation: medians of the latest ones, or as assumed if these are few."""
    latest = past[-DISRUPTIONS_KEPT:]
    starts = [
        disruption.starting / disruption.jobs
        for disruption in latest
        if disruption.jobs and disruption.starting is not None
    ]
    moves = [
        disruption.moving / disruption.state
        for disruption in latest
        if disruption.state and disruption.moving is not None
    ]
    return Disruptions(
        start=_middle(starts, ASSUMED_DISRUPTIONS.start),
        interruption=_middle([disruption.interruption for disruption in latest], ASSUMED_DISRUPTIONS.interruption),
        moving=_middle(moves, ASSUMED_DISRUPTIONS.moving),
    )


def costs(pace: float, paid: Prices, disruption: Disruptions, busy: Mapping[Instance, float]) -> Costs:
    """Combine prices and disruptions into the costs that placement and defragmentation take."""
    return Costs(
        pace=pace,
        batch=paid.batch,
        busy=busy,
        bridge=paid.bridge,
        paused=paid.paused,
        start=disruption.start,
        interruption=disruption.interruption,
        moving=disruption.moving,
    )


def _middle(values: Sequence[float], assumed: float) -> float:
    return max(0.0, median(values)) if len(values) >= FEWEST_DISRUPTIONS else assumed


log = logging.getLogger("braid.defragmenting")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntCosts:
    """The calibration and the latest disruptions."""

    calibration: Calibration = field(default_factory=Calibration)
    past: tuple[MeasuredDisruption, ...] = ()
    """The costs of the latest defragmentations."""


_LEARNT = TypeAdapter(LearntCosts)


class LearntCostStore:
    """Reads and writes learnt costs for one manager, which writes only while it leads."""

    def __init__(self, store: Store, name: str) -> None:
        """`name` is the manager's name as a candidate for the lead."""
        self._store = store
        self._name = name

    def read(self) -> LearntCosts:
        """Return the costs written last; empty ones if there are none, or if they cannot be read."""
        with self._store.read() as session:
            row = session.get(LearntRow, 1)
        if row is None:
            return LearntCosts()
        try:
            learnt = _LEARNT.validate_python(row.costs)
        except ValidationError as error:
            log.warning("costs are learnt from the start: another release of Braid has stored other costs (%s)", error)
            return LearntCosts()
        amounts = len(Calibration().taken)
        if {len(learnt.calibration.taken), *map(len, learnt.calibration.products)} != {amounts}:
            log.warning("costs are learnt from the start: another release of Braid has stored more or fewer prices")
            return LearntCosts()
        return learnt

    def write(self, learnt: LearntCosts) -> None:
        """Write the costs, unless another manager leads by now."""
        with self._store.write() as session:
            if session.get_one(Leadership, 1).leader == self._name:
                session.merge(LearntRow(at=self._store.now(session), costs=_LEARNT.dump_python(learnt, mode="json")))
