"""Calibration: prices from samples, and the expected costs of disruptions."""

from dataclasses import astuple
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.costs.measured import (
    ASSUMED,
    ASSUMED_DISRUPTIONS,
    FEWEST_DISRUPTIONS,
    FEWEST_SAMPLES,
    Calibration,
    Disruptions,
    HostSample,
    MeasuredDisruption,
    Prices,
    costs,
    disruptions,
    prices,
)
from merge import Instance

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
