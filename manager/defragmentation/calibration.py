"""Calibrating: what batches, bridges, paused tasks and disruptions cost, by what hosts measured of themselves.

A host tells what CPU its processes took, and of it what its tasks did. The rest went into batches, bridges, paused
tasks and the host itself; over many samples, of all hosts, it shows how much into which. Every price is drawn to the
one that is assumed, the less the more there was to measure: so it stays where nothing tells of it, and where two prices
cannot be told from each other both change a little.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from manager.defragmentation.measurement import HostSample
from merge import BATCH_SECONDS, Costs, Instance

FEWEST = 10
"""Samples before any price is learnt."""
FADING = 0.98
"""How much of its weight an older sample keeps with each new one: at one a minute, half of it after half an hour."""
NOISE = 0.02
"""Cores by which what is measured is taken to differ from what the prices account for: garbage, clocks, other work."""
SETTLED = 1e-6
"""Prices that change by less from one pass to the next, as a part of what was assumed, are found."""
PASSES = 2_000
"""Passes at most: as many are needed only where two prices can hardly be told from each other."""
REMEMBERED = 9
"""The latest defragmentations, of which the middle one counts: one odd one changes nothing."""
FEWEST_DISRUPTIONS = 3
"""Of so many the middle one is not an odd one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What things cost on a host; assumed, or made by `prices`."""

    host: float = 0.03
    """Cores that it takes without jobs."""
    batch: float = BATCH_SECONDS
    """Seconds of CPU for a batch, whatever it holds."""
    bridge: float = 0.01
    """Cores for a bridge: what is sent, received and spooled with every batch."""
    paused: float = 0.0001
    """Cores for a paused task: its line in each plan, and its state in each image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruptions:
    """What defragmentations cost; assumed, or made by `disruptions` of what they did."""

    start: float = 3.0
    """Seconds of CPU to start and warm a job."""
    interruption: float = 2.0
    """Seconds for which what moves stands still."""
    moving: float = 2e-8
    """Seconds of CPU to move a byte of state: to read it, to write it and to sync it once."""


ASSUMED = Prices()
ASSUMED_DISRUPTIONS = Disruptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What is kept of all samples: sums, in which those of long ago have faded. Begin with the empty one."""

    samples: int = 0
    products: tuple[tuple[float, ...], ...] = ((0.0,) * 4,) * 4
    """Of each two amounts."""
    taken: tuple[float, ...] = (0.0,) * 4
    """Of each amount and the cores that were taken."""
    squares: float = 0.0
    """Of the cores that were taken."""

    def learn(self, sample: HostSample) -> "Calibration":
        """The next calibration."""
        amounts = (1.0, sample.batches / sample.seconds, sample.bridges, sample.paused)
        cores = sample.cpu / sample.seconds
        return Calibration(
            samples=self.samples + 1,
            products=tuple(
                tuple(FADING * kept + one * other for kept, other in zip(row, amounts, strict=True))
                for row, one in zip(self.products, amounts, strict=True)
            ),
            taken=tuple(FADING * kept + one * cores for kept, one in zip(self.taken, amounts, strict=True)),
            squares=FADING * self.squares + cores**2,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Disrupted:
    """What one defragmentation did; made by whoever carried it out. What was not measured is None."""

    jobs: int
    """How many it started."""
    starting: float | None = None
    """Seconds of CPU that took."""
    interruption: float
    """Seconds for which what moved stood still."""
    state: int = 0
    """Bytes of state that moved."""
    moving: float | None = None
    """Seconds of CPU that took."""


def prices(calibration: Calibration, assumed: Prices = ASSUMED) -> Prices:
    """The prices that account best for what was measured; the assumed ones while that is little."""
    if calibration.samples < FEWEST:
        return assumed
    units = (assumed.host, assumed.batch, assumed.bridge, assumed.paused)
    # Each is found as a multiple of what is assumed, which makes them alike. One after the other is set to what is best
    # as long as the others stay, and never below nothing, until none changes any more.
    products = [
        [each * one * other for each, other in zip(row, units, strict=True)]
        for row, one in zip(calibration.products, units, strict=True)
    ]
    taken = [each * unit for each, unit in zip(calibration.taken, units, strict=True)]
    found = [1.0] * len(units)
    for _ in range(PASSES):
        before = tuple(found)
        for place, row in enumerate(products):
            others = sum(each * found[other] for other, each in enumerate(row) if other != place)
            found[place] = max(0.0, (taken[place] - others + NOISE**2) / (row[place] + NOISE**2))
        if max(abs(one - other) for one, other in zip(before, found, strict=True)) < SETTLED:
            break
    host, batch, bridge, paused = (unit * multiple for unit, multiple in zip(units, found, strict=True))
    return Prices(host=host, batch=batch, bridge=bridge, paused=paused)


def batch_range(calibration: Calibration, assumed: Prices = ASSUMED) -> tuple[float, float]:
    """Between which seconds of CPU a batch costs what `prices` says: two deviations to each side.

    A deviation is what the samples leave open, by how far they lie from what the prices account for. Where they tell
    nothing it is taken to lie between half and double of what is assumed, and never farther from it than that.
    """
    units = (assumed.host, assumed.batch, assumed.bridge, assumed.paused)
    found = prices(calibration, assumed)
    least, most = min(assumed.batch / 2, found.batch), max(assumed.batch * 2, found.batch)
    if calibration.samples < FEWEST:
        return least, most
    paid = (found.host, found.batch, found.bridge, found.paused)
    accounted = sum(
        one * other * kept
        for one, row in zip(paid, calibration.products, strict=True)
        for other, kept in zip(paid, row, strict=True)
    )
    crossed = sum(one * kept for one, kept in zip(paid, calibration.taken, strict=True))
    # The first amount is always one, so its product with itself is the weight of all samples.
    missed = max(0.0, calibration.squares - 2 * crossed + accounted) / calibration.products[0][0]
    known = [
        [
            each * one * other + (NOISE**2 if at == to else 0.0)
            for to, (each, other) in enumerate(zip(row, units, strict=True))
        ]
        for at, (row, one) in enumerate(zip(calibration.products, units, strict=True))
    ]
    deviation = (max(NOISE**2, missed) * _inverse(known, 1)) ** 0.5 * assumed.batch
    return max(least, found.batch - 2 * deviation), min(most, found.batch + 2 * deviation)


def disruptions(past: Sequence[Disrupted], assumed: Disruptions = ASSUMED_DISRUPTIONS) -> Disruptions:
    """What a defragmentation is to cost by the latest ones; what was assumed where these are few."""
    latest = past[-REMEMBERED:]
    starts = [each.starting / each.jobs for each in latest if each.jobs and each.starting is not None]
    moves = [each.moving / each.state for each in latest if each.state and each.moving is not None]
    return Disruptions(
        start=_middle(starts, assumed.start),
        interruption=_middle([each.interruption for each in latest], assumed.interruption),
        moving=_middle(moves, assumed.moving),
    )


def costs(pace: float, paid: Prices, disruption: Disruptions, busy: Mapping[Instance, float]) -> Costs:
    """All of it, as placement and defragmentation take it."""
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


def _inverse(matrix: list[list[float]], place: int) -> float:
    """What stands in a place of the diagonal of a positive matrix's inverse."""
    rows = [[*row, 1.0 if at == place else 0.0] for at, row in enumerate(matrix)]
    for at, pivot in enumerate(rows):
        for other in rows:
            if other is not pivot:
                part = other[at] / pivot[at]
                other[:] = [one - part * two for one, two in zip(other, pivot, strict=True)]
    return rows[place][-1] / rows[place][place]


def _middle(values: Sequence[float], assumed: float) -> float:
    return max(0.0, median(values)) if len(values) >= FEWEST_DISRUPTIONS else assumed
