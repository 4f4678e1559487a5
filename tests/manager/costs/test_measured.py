"""Measured costs: measurements between two moments, calibration from samples, and what is kept of both."""

from collections.abc import Iterator
from dataclasses import astuple, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Kind
from engine.plan import Bridged, Ingress, Plan, Slot, SlotState, Subscribed
from manager.costs.choice import WRITE_EVERY, Chooser
from manager.costs.measured import (
    ASSUMED,
    ASSUMED_DISRUPTIONS,
    FEWEST_DISRUPTIONS,
    FEWEST_SAMPLES,
    SHORTEST_SAMPLE,
    Calibration,
    Disruptions,
    HostSample,
    LearntCosts,
    LearntCostStore,
    MeasuredDisruption,
    Moment,
    Prices,
    batch_range,
    batch_seconds,
    batches,
    busy,
    costs,
    disruptions,
    moment,
    prices,
    sample,
)
from manager.kernel.transitions import Ended, Phase
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured
from manager.store.tables import LearntRow
from merge import ASSUMED_BUSY, Instance, JobId
from tests.manager.managers import Manager, leading
from tests.merge.floor import Floor

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RAW = Subscribed(topic="t", fields={"n": Kind.INTEGER})


def reported(at: float, batch: int, cpu: dict[int, float], *, run: int = 1, p50: float | None = None) -> Measured:
    """Return a job's report at a moment: its batches, and the CPU seconds of its instances."""
    instances = {each: InstanceMeasured(cpu_ns=round(seconds * 1e9), taken=1) for each, seconds in cpu.items()}
    return Measured(at=at, run=run, batch=batch, instances=instances, batch_seconds={} if p50 is None else {"p50": p50})


def job(name: str, *measured: Measured) -> JobSeen:
    return JobSeen(job=name, host="h", state="running", measured=measured, seen=NOW)


def plan(name: str, *, host: str = "h", paused: int = 0, bridges: int = 0) -> Plan:
    return Plan(
        job=name,
        host=host,
        version=1,
        slots=(
            Slot(instance=2, type="map", inputs=()),
            *(Slot(instance=10 + each, type="map", inputs=(), state=SlotState.PAUSED) for each in range(paused)),
        ),
        ingress=(
            Ingress(stream="s", instance=1, supply=RAW),
            *(Ingress(stream=f"b{each}", instance=20 + each, supply=Bridged()) for each in range(bridges)),
        ),
    )


def host(**cpu: float) -> HostSeen:
    return HostSeen(host="h", alive=True, cpu=cpu, seen=NOW)


def test_a_moment_has_only_the_host_s_own_jobs() -> None:
    """Plans of other hosts do not count, nor do jobs without reports."""
    plans = [plan("1", paused=2, bridges=1), plan("2", bridges=2), plan("3", host="other", paused=9, bridges=9)]
    seen = {
        "1": job("1", reported(1.0, 4, {}), reported(2.0, 5, {2: 1.0})),
        "2": job("2"),
        "3": job("3", reported(1.0, 7, {})),
    }
    expected = Moment(at=9.0, cpu={"jvm": 3.0}, jobs={"1": reported(2.0, 5, {2: 1.0})}, bridges=3, paused=2)
    assert expected == moment(host(jvm=3.0), [], plans, seen, 9.0)


BEFORE = Moment(
    at=100.0,
    cpu={"jvm": 10.0, "driver": 5.0},
    jobs={"1": reported(1.0, 40, {2: 1.0}), "2": reported(1.0, 50, {3: 2.0})},
    bridges=2,
    paused=5,
)
AFTER = Moment(
    at=160.0,
    cpu={"jvm": 14.0, "driver": 6.0, "worker": 1.0},
    jobs={"1": reported(2.0, 100, {2: 1.5, 4: 0.25}), "2": reported(2.0, 110, {3: 2.25})},
    bridges=3,
    paused=5,
)


def test_a_sample_leaves_out_the_tasks() -> None:
    """It has the CPU of the processes without that of instances, including new ones."""
    expected = HostSample(seconds=60.0, cpu=5.0, batches=120, bridges=2.5, paused=5.0)
    assert (AFTER, expected) == sample(BEFORE, AFTER)


@pytest.mark.parametrize(
    "after",
    [
        replace(AFTER, cpu={}),
        replace(AFTER, cpu={"jvm": 1.0, "driver": 6.0}),
        replace(AFTER, cpu={"jvm": 40.0}),
        replace(AFTER, jobs={"1": AFTER.jobs["1"]}),
        replace(AFTER, jobs={**AFTER.jobs, "3": reported(2.0, 1, {})}),
        replace(AFTER, jobs={**AFTER.jobs, "2": reported(2.0, 110, {}, run=2)}),
    ],
    ids=["no report", "restarted", "a part ended", "a job ended", "a job began", "a job restarted"],
)
def test_a_start_or_an_end_prevents_a_sample(after: Moment) -> None:
    """The next sample starts there."""
    assert (after, None) == sample(BEFORE, after)


def test_no_sample_starts_before_the_first_batch() -> None:
    """The number of the first batch is not known before it."""
    before = replace(BEFORE, jobs={**BEFORE.jobs, "1": reported(1.0, -1, {})})
    assert (AFTER, None) == sample(before, AFTER)


def test_no_sample_is_short() -> None:
    """The first moment is kept until the sample is long enough. A host without reports has none."""
    soon = replace(AFTER, at=100.0 + SHORTEST_SAMPLE - 1)
    assert (soon, None) == sample(None, soon)
    assert (BEFORE, None) == sample(BEFORE, soon)
    assert (AFTER, None) == sample(replace(BEFORE, cpu={}), AFTER)


def test_the_load_of_a_task_is_that_of_the_last_minute() -> None:
    """Sources have none, nor have tasks that a job does not report; without figures it is assumed."""
    floor = Floor(strategy="launch")
    floor.submit("s!:source > a:map > k:sink", "x")
    floor.submit("s!:source > a:map > k:sink", "y")
    seen = {
        "1": job("1", reported(100.0, 5, {2: 1.0}), reported(110.0, 15, {2: 3.5})),
        "2": job("2", reported(110.0, 5, {5: 3.0})),
    }
    expected = {1: 0.0, 2: 0.25, 3: 0.0, 4: 0.0, 5: ASSUMED_BUSY, 6: ASSUMED_BUSY}
    assert expected == busy(floor.running, floor.jobs, seen, 110.0)
    forgotten = {"1": job("1", reported(100.0, 5, {2: 1.0}), reported(110.0, 15, {}))}
    assert {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.0, 5: ASSUMED_BUSY, 6: ASSUMED_BUSY} == busy(
        floor.running, floor.jobs, forgotten, 110.0
    )


def test_batch_rates_are_given_if_known() -> None:
    """A restarted job has no batch number before its first batch."""
    floor = Floor(strategy="launch")
    for name in ("x", "y", "z", "w"):
        floor.submit("s!:source > k:sink", name)
    seen = {
        "1": job("1", reported(100.0, 5, {}), reported(110.0, 10, {}, p50=0.25)),
        "2": job("2", reported(100.0, -1, {}), reported(110.0, 900, {}, p50=0.75)),
        "3": job("3"),
    }
    assert {JobId(1): 0.5} == batches(floor.jobs, seen, 110.0)
    assert {JobId(1): 0.25, JobId(2): 0.75} == batch_seconds(floor.jobs, seen, 110.0)
    assert {} == batch_seconds(floor.jobs, seen, 999.0)


TIMES = st.sampled_from((0.0, 0.3, 0.7, 1.0, 2.0, 4.0))
PLANTED = st.builds(
    lambda host, batch, bridge, paused: Prices(
        host=host * ASSUMED.host,
        batch=batch * ASSUMED.batch,
        bridge=bridge * ASSUMED.bridge,
        paused=paused * ASSUMED.paused,
    ),
    *(TIMES,) * 4,
)
CHANCE = st.randoms(use_true_random=True)


def sampled(planted: Prices, chance: Random, jobs: int, bridges: int, paused: int) -> HostSample:
    """Return a sample of a minute of a host with these amounts, at these prices with noise."""
    batches = 60 * jobs
    cores = planted.host + planted.batch * jobs + planted.bridge * bridges + planted.paused * paused
    return HostSample(
        seconds=60.0,
        cpu=max(0.0, 60 * (cores + chance.gauss(0.0, 0.01))),
        batches=batches,
        bridges=float(bridges),
        paused=float(paused),
    )


def learnt(*samples: HostSample) -> Calibration:
    calibration = Calibration()
    for each in samples:
        calibration = calibration.learn(each)
    return calibration


def many(planted: Prices, chance: Random, samples: int = 200) -> list[HostSample]:
    """Return samples in which all amounts vary."""
    return [
        sampled(planted, chance, chance.randrange(1, 12), chance.randrange(20), chance.randrange(500))
        for _ in range(samples)
    ]


@given(planted=PLANTED, chance=CHANCE)
def test_planted_prices_are_recovered(planted: Prices, chance: Random) -> None:
    """Noisy samples in which the prices can be separated give them to a small part of the assumed ones."""
    found = prices(learnt(*many(planted, chance)))
    for one, other, unit in zip(astuple(planted), astuple(found), astuple(ASSUMED), strict=True):
        assert one == pytest.approx(other, rel=0.15, abs=0.7 * unit)


def test_old_samples_are_forgotten() -> None:
    """When prices change, the new ones are found, whatever they were before."""
    chance = Random(7)
    dear = Prices(host=0.1, batch=0.2, bridge=0.04, paused=0.0004)
    found = prices(learnt(*many(dear, chance), *many(ASSUMED, chance, 300)))
    assert astuple(ASSUMED) == pytest.approx(astuple(found), rel=0.3)


@given(
    samples=st.lists(
        st.builds(
            HostSample,
            seconds=st.floats(30.0, 1e5),
            cpu=st.floats(0.0, 1e6),
            batches=st.integers(0, 10**6),
            bridges=st.floats(0.0, 1e4),
            paused=st.floats(0.0, 1e5),
        ),
        max_size=30,
    )
)
def test_no_price_is_negative(samples: list[HostSample]) -> None:
    """Any samples give finite prices of at least zero."""
    assert all(0.0 <= price < float("inf") for price in astuple(prices(learnt(*samples))))


@given(planted=PLANTED, chance=CHANCE, count=st.integers(0, FEWEST_SAMPLES - 1))
def test_few_samples_leave_the_assumed_prices(planted: Prices, chance: Random, count: int) -> None:
    """Nothing is fitted before there are enough samples."""
    assert ASSUMED == prices(learnt(*many(planted, chance, count)))


@given(planted=PLANTED, chance=CHANCE)
def test_an_absent_amount_keeps_its_price(planted: Prices, chance: Random) -> None:
    """Without bridges and paused tasks, their prices stay as assumed."""
    found = prices(learnt(*(sampled(planted, chance, chance.randrange(1, 12), 0, 0) for _ in range(100))))
    assert (ASSUMED.bridge, ASSUMED.paused) == pytest.approx((found.bridge, found.paused))
    assert planted.batch == pytest.approx(found.batch, abs=0.35 * ASSUMED.batch)


@given(planted=PLANTED, chance=CHANCE, jobs=st.integers(1, 12), bridges=st.integers(0, 20))
def test_inseparable_prices_still_add_up(planted: Prices, chance: Random, jobs: int, bridges: int) -> None:
    """If nothing ever changes, the prices together account for the measured CPU."""
    found = prices(learnt(*(sampled(planted, chance, jobs, bridges, 0) for _ in range(200))))
    taken = planted.host + planted.batch * jobs + planted.bridge * bridges
    assert taken == pytest.approx(found.host + found.batch * jobs + found.bridge * bridges, abs=0.02)


def test_one_odd_sample_changes_little() -> None:
    """A minute in which other work ran on the host hardly changes the prices."""
    chance = Random(7)
    usual = many(ASSUMED, chance)
    odd = HostSample(seconds=60.0, cpu=30.0, batches=300, bridges=5.0, paused=10.0)
    before, after = prices(learnt(*usual)), prices(learnt(*usual, odd))
    assert before.batch == pytest.approx(after.batch, abs=0.25 * ASSUMED.batch)


def disrupted(interruption: float, *, starting: float | None = 4.0, state: int = 0) -> MeasuredDisruption:
    return MeasuredDisruption(jobs=2, starting=starting, interruption=interruption, state=state, moving=state * 1e-6)


def test_disruptions_are_medians_of_the_latest() -> None:
    """A very long one counts like any other."""
    past = [disrupted(99.0)] * 20 + [disrupted(0.5 + 0.125 * number, state=1_000_000) for number in range(8)]
    expected = Disruptions(start=2.0, interruption=1.0, moving=1e-6)
    assert expected == disruptions([*past, disrupted(500.0, starting=900.0, state=1_000_000)])


@given(past=st.lists(st.builds(disrupted, st.floats(0.0, 99.0)), max_size=FEWEST_DISRUPTIONS - 1))
def test_few_disruptions_leave_the_assumed_costs(past: list[MeasuredDisruption]) -> None:
    """The median does not count before there are enough."""
    assert ASSUMED_DISRUPTIONS == disruptions(past)


def test_unmeasured_costs_of_disruptions_stay_assumed() -> None:
    """If no state moved, or the start was not measured, only the interruption counts."""
    found = disruptions([disrupted(0.25, starting=None)] * 5)
    expected = Disruptions(start=ASSUMED_DISRUPTIONS.start, interruption=0.25, moving=ASSUMED_DISRUPTIONS.moving)
    assert expected == found


def test_costs_combine_prices_disruptions_and_loads() -> None:
    """Placement takes all of them in one record."""
    found = costs(2.0, Prices(host=1.0, batch=2.0, bridge=3.0, paused=4.0), Disruptions(start=5.0), {Instance(1): 0.5})
    assert (2.0, 2.0, 3.0, 4.0, 5.0) == (found.pace, found.batch, found.bridge, found.paused, found.start)
    assert {Instance(1): 0.5} == found.busy
    assert (ASSUMED_DISRUPTIONS.interruption, ASSUMED_DISRUPTIONS.moving) == (found.interruption, found.moving)


TRUE = 0.8 * ASSUMED.batch


def calibrated(samples: int, *, batch: float, noise: float, rates: tuple[float, ...] = (0.0, 1.0, 3.0)) -> Calibration:
    """Return the calibration for a host with batches of this price, at several rates in turn."""
    draw = Random(samples)
    found = Calibration()
    for number in range(samples):
        rate = rates[number % len(rates)]
        cores = ASSUMED.host + batch * rate + draw.gauss(0.0, noise)
        found = found.learn(HostSample(seconds=60.0, cpu=cores * 60, batches=round(rate * 60), bridges=0.0, paused=0.0))
    return found


def test_an_unmeasured_price_lies_between_half_and_double() -> None:
    """That is so before any fit, and if all samples are alike, so that batches cannot be separated from the host."""
    assert (ASSUMED.batch / 2, ASSUMED.batch * 2) == batch_range(Calibration())
    assert (ASSUMED.batch / 2, ASSUMED.batch * 2) == batch_range(calibrated(FEWEST_SAMPLES - 1, batch=TRUE, noise=0.0))
    low, high = batch_range(calibrated(200, batch=TRUE, noise=0.0003, rates=(1.0,)))
    assert high - low > ASSUMED.batch / 4


def test_measuring_narrows_the_range_around_the_truth() -> None:
    """More samples with less scatter give a narrower range, which contains the true price."""
    found = [
        calibrated(FEWEST_SAMPLES, batch=TRUE, noise=0.0015),
        calibrated(100, batch=TRUE, noise=0.0015),
    ]
    widths = []
    for each in found:
        low, high = batch_range(each)
        assert low <= TRUE <= high
        assert low <= prices(each).batch <= high
        widths.append(high - low)
    assert ASSUMED.batch * 1.5 > widths[0] > widths[1] > 0
    scattered = batch_range(calibrated(100, batch=TRUE, noise=0.03))
    assert scattered[1] - scattered[0] > widths[1]


NAME = "one"
LEARNT_AT = datetime(2024, 3, 1, tzinfo=UTC)


class Learning:
    """A manager that looks at a host without jobs that takes a third of a core."""

    def __init__(self, manager: Manager, name: str = NAME) -> None:
        self.now = 0.0
        self._manager = manager
        self.chooser = Chooser(manager.seen, LearntCostStore(manager.store, name), clock=lambda: self.now)
        self.chooser.recall()

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += SHORTEST_SAMPLE
            host = HostSeen(host="north", alive=True, cpu={"driver": self.now / 3}, seen=LEARNT_AT)
            self._manager.seen.every_host = (host,)
            self.chooser.learn({})


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, name=NAME)


def written(manager: Manager) -> LearntCosts:
    return LearntCostStore(manager.store, NAME).read()


def test_prices_and_disruptions_are_known_after_a_restart(manager: Manager) -> None:
    """A restarted manager uses the costs that the one before it had measured."""
    learning = Learning(manager)
    learning.look(FEWEST_SAMPLES + 1)
    for move in range(FEWEST_DISRUPTIONS):
        learning.chooser.remember(Ended(move=move, phase=Phase.DONE, opened=1, interruption=7.0))
    learning.look()
    again = Learning(manager)
    assert learning.chooser.paid() == again.chooser.paid()
    assert ASSUMED != again.chooser.paid()[0]
    with manager.committer.looking() as state:
        picture = again.chooser.snapshot(state, manager.committer.ground)
    assert 7.0 == picture.costs.interruption


def test_samples_are_stored_regularly(manager: Manager) -> None:
    """They are not stored at each look."""
    learning = Learning(manager)
    learning.look(2)
    assert 1 == written(manager).calibration.samples
    looks = int(WRITE_EVERY / SHORTEST_SAMPLE)
    learning.look(looks - 1)
    assert 1 == written(manager).calibration.samples
    learning.look()
    assert 1 + looks == written(manager).calibration.samples


def test_a_manager_that_does_not_lead_stores_nothing(manager: Manager) -> None:
    """The leading manager has newer costs."""
    Learning(manager, "another").look(2)
    assert LearntCosts() == written(manager)


@pytest.mark.parametrize(
    "costs",
    [{"calibration": {"samples": "many"}}, {"calibration": {"samples": 50, "taken": [1.0], "products": [[1.0]]}}],
)
def test_costs_of_another_release_are_learnt_anew(manager: Manager, costs: dict[str, Any]) -> None:
    """They cause no error."""
    with manager.store.write() as session:
        session.add(LearntRow(at=0.0, costs=costs))
    assert LearntCosts() == written(manager)
