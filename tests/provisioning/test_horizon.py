"""The simulator, and plans on a fixed number of cores beside the algorithms of the thesis."""

from functools import cache
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.adaptation.dataflows import CYBERSHAKE, HEFT, Graph
from benchmarks.adaptation.look_ahead_figures import published_run
from provisioning import horizon
from provisioning.algorithms import genetic, greedy, look_ahead, reaction
from provisioning.algorithms.greedy import causes
from provisioning.algorithms.reaction import BASELINES, WPP
from provisioning.deployment import Adaptation, Outlook, unchanged
from provisioning.figures import Active, DataflowFigures, ProfitGoal, needs, omega, union
from provisioning.horizon import plan
from provisioning.horizon.mixes import mixes
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

forecasts = st.lists(st.floats(0, 100), min_size=1, max_size=4)


@given(dataflows(), st.floats(0.1, 20), forecasts)
def test_throughput_comes_first_and_then_value(dataflow: DataflowFigures, cores: float, forecast: list[float]) -> None:
    """Without a cost of switching, no other alternates fit that are worth more."""
    rates = [rates_of(dataflow, rate) for rate in forecast]
    found = plan(dataflow, rates, cores=cores, switch_cost=0.0)
    for step, at in zip(found.steps, rates, strict=True):
        fitting = [
            dataflow.gamma(active)
            for active in product(*(range(len(one.alternates)) for one in dataflow.tasks))
            if sum(needs(dataflow, active, at)) * 0.8 <= cores * (1 - 1e-9)
        ]
        if fitting:
            assert step.omega >= 0.8 - 1e-9
        if len(forecast) == 1 and fitting:
            assert step.gamma >= max(fitting) - 0.002


@given(dataflows(), st.floats(0, 100))
def test_causes_are_what_an_event_needs_there_and_below(dataflow: DataflowFigures, rate: float) -> None:
    """The work of all tasks is what the events at the sources cause."""
    active = dataflow.best()
    below = causes(dataflow, active)
    caused = sum(rate * below[dataflow.number[name]] for name in rates_of(dataflow, rate))
    assert caused == pytest.approx(sum(needs(dataflow, active, rates_of(dataflow, rate))))


def test_a_step_reaches_what_it_says() -> None:
    """Cores that are divided by need serve each task alike."""
    step = plan(CHAIN, [{"read": 100.0}], cores=5.0).now
    shares = [need / step.cores * 5.0 for need in needs(CHAIN, step.active, {"read": 100.0})]
    assert omega(CHAIN, step.active, {"read": 100.0}, shares) == pytest.approx(step.omega)


def test_a_short_lull_switches_nothing() -> None:
    """A better alternate for one interval is not worth going to it and back."""
    busy, calm = {"read": 60.0}, {"read": 10.0}
    lull = plan(CHAIN, [busy, calm, busy], cores=4.0, running=(0, 1, 0), switch_cost=0.4)
    assert [(0, 1, 0)] * 3 == [step.active for step in lull.steps]
    calmed = plan(CHAIN, [busy, calm, calm, calm], cores=4.0, running=(0, 1, 0), switch_cost=0.4)
    assert [(0, 1, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0)] == [step.active for step in calmed.steps]


def test_what_must_be_is_switched_at_any_cost() -> None:
    """Throughput is worth more than any switch."""
    found = plan(CHAIN, [{"read": 60.0}], cores=4.0, running=(0, 0, 0), switch_cost=10.0)
    assert (0, 1, 0) == found.now.active


def test_sharing_leaves_room_for_better_alternates() -> None:
    """Two tenants who share a task afford together what each alone, with half of the cores, does not."""
    other = DataflowFigures(tasks=(*CHAIN.tasks[:2], task("alert", (1.0, 0.01, 1.0), after=("score",))))
    together = plan(union([CHAIN, other]), [{"read": 20.0}], cores=4.0)
    alone = plan(CHAIN, [{"read": 20.0}], cores=2.0)
    assert together.now.gamma == 1.0 > alone.now.gamma
    assert together.now.cores < 2 * plan(CHAIN, [{"read": 20.0}], cores=4.0).now.cores


def test_a_forecast_is_needed() -> None:
    """There is no plan for nothing, and rates below nothing count as none."""
    with pytest.raises(ValueError, match="forecast"):
        plan(CHAIN, [], cores=1.0)
    assert plan(CHAIN, [{"read": -5.0}], cores=1.0).now.cores == 0.0


@settings(max_examples=5)
@given(st.integers(0, 1000))
def test_many_dynamic_tasks_have_few_mixes(seed: int) -> None:
    """Of too many to enumerate, prices find some from the best value to the least work."""
    tasks = [task("t0", (1.0, 0.1, 1.0), (0.5, 0.01, 1.0))]
    for at in range(1, 40):
        cheap = 0.01 + (seed * at % 7) / 100
        tasks.append(task(f"t{at}", (1.0, 0.1, 1.0), (0.4 + at / 100, cheap, 1.0), after=(f"t{at - 1}",)))
    found = mixes(DataflowFigures(tasks=tuple(tasks)), {"t0": 10.0})
    assert 5 < len(found) <= 25
    assert found[0].gamma == 1.0
    assert all(one.gamma > other.gamma and one.cores > other.cores for one, other in pairwise(found))


@settings(max_examples=25)
@given(dataflows(3), st.floats(0.1, 10), st.lists(st.floats(0, 60), min_size=2, max_size=3), st.data())
def test_no_other_path_is_better(
    dataflow: DataflowFigures, cores: float, forecast: list[float], data: st.DataObject
) -> None:
    """Of all sequences of mixes, switches and all, the plan has the best score."""
    running = tuple(data.draw(st.integers(0, len(one.alternates) - 1)) for one in dataflow.tasks)
    rates = [rates_of(dataflow, rate) for rate in forecast]

    def score(path: tuple[Active, ...]) -> float:
        total = 0.0
        for before, active, at in zip((running, *path), path, rates, strict=False):
            needed = sum(needs(dataflow, active, at))
            short = max(0.0, 0.8 - (min(1.0, cores / needed) if needed else 1.0))
            switched = sum(before[one] != active[one] for one in dataflow.dynamic) / max(1, len(dataflow.dynamic))
            total += dataflow.gamma(active) - 1000 * short - 0.001 * needed / cores - 0.05 * switched
        return total

    most = {name: max(each[name] for each in rates) for name in rates[0]}
    options = [mix.active for mix in mixes(dataflow, most, running)]
    found = plan(dataflow, rates, cores=cores, running=running)
    best = max(score(path) for path in product(options, repeat=len(rates)))
    assert score(tuple(step.active for step in found.steps)) == pytest.approx(best)


@pytest.mark.parametrize(
    ("graph", "cores", "shape", "seed"),
    [
        (HEFT, 0.3, "walk", 1),
        (HEFT, 0.3, "wave", 2),
        (HEFT, 2.0, "walk", 2),
        (CYBERSHAKE, 0.3, "walk", 1),
    ],
)
def test_the_horizon_has_the_most_profit(graph: Graph, cores: float, shape: str, seed: int) -> None:
    """At the same tolerance, also where a task needs less than a core, so that cores are short and not power."""
    own, ahead, pessimist = (
        published_run(graph, cores, adaptation, shape=shape, seed=seed)
        for adaptation in (horizon.adapted, look_ahead.adapted, WPP)
    )
    assert own.kept >= 0.95
    assert own.theta >= max(ahead.theta, pessimist.theta) - 1e-9


STEPS = 144


def runs(adaptation: Adaptation, rate: float) -> list[SimulatedRun]:
    goal = ProfitGoal(best_cost=1.2 * rate, least_cost=0.6 * rate)
    found = []
    for seed in range(1, 6):
        kinds: tuple[Series, ...] = (
            random_walk(rate, STEPS, seed=seed),
            wave((0.5 * rate, 1.5 * rate), STEPS, period=STEPS / 3, noise=0.1, seed=seed),
            spike(rate, STEPS, at=STEPS // 2, length=6, factor=2.0),
        )
        for series in kinds:
            world = World(
                dataflow=CHAIN,
                goal=goal,
                classes=CLASSES,
                rates={"read": series},
                machines=seed,
                oracle=Oracle(horizon=6, error=0.1, seed=seed),
            )
            first = greedy.deployed(CHAIN, {"read": series[0]}, CLASSES, goal, central=True)
            found.append(simulate(world, first, adaptation))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("rate", [20.0, 50.0, 200.0])
def test_the_horizon_is_kept_and_pays(rate: float) -> None:
    """Nine of ten intervals are in tolerance, and no algorithm of the thesis that keeps eight has more profit."""
    own = runs(horizon.adapted, rate)
    assert mean(own, "kept") >= 0.9
    for adaptation in (reaction.sharded, look_ahead.adapted, *BASELINES.values()):
        other = runs(adaptation, rate)
        assert mean(other, "kept") < 0.8 or mean(own, "theta") >= mean(other, "theta")


def mean(found: list[SimulatedRun], figure: str) -> float:
    return sum(float(getattr(one, figure)) for one in found) / len(found)


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
