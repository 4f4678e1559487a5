"""The simulator, and what the algorithms do in it."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioning import horizon
from provisioning.algorithms import genetic, greedy, look_ahead, reaction
from provisioning.algorithms.reaction import BASELINES
from provisioning.deployment import Adaptation, Outlook, unchanged
from provisioning.figures import DataflowFigures
from provisioning.simulator import (
    FASTEST,
    SLOWEST,
    Oracle,
    Series,
    SimulatedRun,
    World,
    constant,
    performance,
    random_walk,
    simulate,
    spike,
    wave,
)
from tests.provisioning.scenes import CHAIN, CLASSES, GPU, dataflows, goal, problems, rates_of, task

ADAPTATIONS: dict[str, Adaptation] = {
    "none": unchanged,
    "SH": reaction.sharded,
    **BASELINES,
    "PLAStiCC": look_ahead.adapted,
    "GA": lambda outlook: genetic.adapted(outlook, genetic.Evolution(population=8, generations=3)),
    "own": horizon.adapted,
}
every = pytest.mark.parametrize("name", ADAPTATIONS)
seeds = st.integers(0, 1000)


def world(dataflow: DataflowFigures, series: Series, *, machines: int | None, error: float = 0.0) -> World:
    return World(
        dataflow=dataflow,
        goal=goal(10.0),
        classes=CLASSES,
        rates=dict.fromkeys(rates_of(dataflow, 1.0), series),
        machines=machines,
        oracle=Oracle(horizon=4, error=error),
    )


def run(one: World, adaptation: Adaptation) -> SimulatedRun:
    first = {name: series[0] for name, series in one.rates.items()}
    return simulate(one, greedy.deployed(one.dataflow, first, one.classes, one.goal, central=True), adaptation)


@cache
def outcome(name: str) -> SimulatedRun:
    """A walk of rates over machines that vary, for six hours."""
    return run(world(CHAIN, random_walk(40.0, 72, seed=2), machines=2), ADAPTATIONS[name])


@every
@settings(max_examples=8)
@given(dataflow=dataflows(4), seed=seeds, error=st.sampled_from([0.0, 0.5]))
def test_every_algorithm_ends_with_what_is_possible(
    name: str, dataflow: DataflowFigures, seed: int, error: float
) -> None:
    """At each interval, whatever varies and however wrong the predictions are."""
    looked = 0

    def checked(outlook: Outlook) -> object:
        nonlocal looked
        looked += 1
        made = ADAPTATIONS[name](outlook)
        assert [] == list(problems(made, dataflow))
        return made

    run(world(dataflow, random_walk(10.0, 8, seed=seed), machines=seed, error=error), checked)  # type: ignore[arg-type]
    assert looked == 7


@every
@settings(max_examples=8)
@given(seed=seeds)
def test_events_are_conserved(name: str, seed: int) -> None:
    """With a selectivity of 1, what came in has left or waits somewhere on its way."""
    series = random_walk(30.0, 10, seed=seed)
    done = run(world(CHAIN, series, machines=seed), ADAPTATIONS[name])
    came = sum(series) * 300
    assert came == pytest.approx(done.arrived["read"])
    assert came == pytest.approx(done.done["write"] + sum(done.queued.values()))
    assert all(0 <= one.omega <= 1 for one in done.intervals)


@every
def test_the_same_seeds_give_the_same_history(name: str) -> None:
    """To the last digit."""
    one = world(CHAIN, random_walk(20.0, 12, seed=1), machines=1, error=0.1)
    assert run(one, ADAPTATIONS[name]) == run(one, ADAPTATIONS[name])


@pytest.mark.parametrize("name", ["SH", "CAF", "PLAStiCC", "own"])
def test_adapting_keeps_the_throughput_that_a_static_deployment_loses(name: str) -> None:
    """On average, while rates and machines vary."""
    assert outcome("none").omega < 0.8
    assert outcome(name).omega >= 0.8


def test_the_horizon_keeps_the_tolerance_at_a_better_profit() -> None:
    """In nine of ten intervals, with more profit than each algorithm of the thesis that keeps it in eight."""
    own = outcome("own")
    assert own.kept >= 0.9
    others = [outcome(name) for name in ADAPTATIONS if name not in {"none", "own", "GA"}]
    assert own.theta > max(one.theta for one in others if one.kept >= 0.8)


def test_tags_are_respected_while_adapting() -> None:
    """The task that needs a special machine keeps to such, the cheap ones serve the others."""
    tasks = [CHAIN.tasks[0], task("score", (1.0, 0.2, 1.0), after=("read",)), CHAIN.tasks[2]]
    special = type(tasks[1])(name="score", alternates=tasks[1].alternates, inputs=("read",), tags=GPU.tags)
    dataflow = DataflowFigures(tasks=(tasks[0], special, tasks[2]))
    one = World(
        dataflow=dataflow,
        goal=goal(10.0),
        classes=(*CLASSES, GPU),
        rates={"read": wave((5.0, 40.0), 24, period=12)},
        machines=1,
    )

    def checked(outlook: Outlook) -> object:
        made = horizon.adapted(outlook)
        assert [] == list(problems(made, dataflow))
        return made

    assert run(one, checked).omega >= 0.8  # type: ignore[arg-type]


def test_look_ahead_begins_before_a_spike() -> None:
    """Who foresees a spike has machines ready when it comes; who reacts has not."""
    series = spike(20.0, 12, at=6, length=4, factor=4.0)
    ahead, after = (run(world(CHAIN, series, machines=None), ADAPTATIONS[name]) for name in ("PLAStiCC", "CAF"))
    assert ahead.intervals[6].omega > after.intervals[6].omega


@given(seeds, st.integers(0, 5))
def test_machines_vary_within_bounds(seed: int, number: int) -> None:
    """They are slower than rated on the whole, and never stand still."""
    found = performance(seed, number, 200)
    assert all(SLOWEST <= one <= FASTEST for one in found)
    assert len(set(found)) > 1


@given(seeds, st.sampled_from([0.0, 0.1, 0.5, 2.0]), st.sampled_from([-0.5, 0.0, 0.05]))
def test_predictions_are_clamped_and_right_for_what_comes_next(seed: int, error: float, bias: float) -> None:
    """No error makes a rate negative; without a bias the next interval is as predicted."""
    truth = wave((1.0, 9.0), 20, period=7)
    found = Oracle(error=error, bias=bias, seed=seed).predicted("rate", truth, 5)
    assert all(one > 0 for one in found)
    if not bias:
        assert truth[5] == pytest.approx(found[0])


def test_rates_have_the_shape_that_is_asked_for() -> None:
    """A walk stays within half of its mean; a spike is where it should be."""
    walk = random_walk(50.0, 500, seed=1)
    assert all(25 <= rate <= 75 for rate in walk)
    assert sum(walk) / 500 == pytest.approx(50, rel=0.05)
    assert (1.0, 1.0, 3.0, 1.0) == spike(1.0, 4, at=2, length=1, factor=3.0)
    assert (2.0, 2.0) == constant(2.0, 2)
