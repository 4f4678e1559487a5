"""Laws of deployments: figures, profit, throughput, and the algorithms that make them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from provisioning import horizon
from provisioning.algorithms import brute_force, genetic, greedy
from provisioning.algorithms.repack import cheapest
from provisioning.deployment import Deployment
from provisioning.figures import (
    HOUR,
    AlternateFigures,
    DataflowFigures,
    MachineClass,
    ProfitGoal,
    Rental,
    TaskFigures,
    needs,
    omega,
    served,
    union,
)
from provisioning.horizon import deployed, packing, plan
from tests.provisioning.scenes import (
    CHAIN,
    CLASSES,
    GPU,
    LARGE,
    MEDIUM,
    SMALL,
    dataflows,
    goal,
    problems,
    rates_of,
    task,
)

EVOLUTION = genetic.Evolution(population=12, generations=6)
rates = st.sampled_from([1.0, 5.0, 10.0, 20.0])

Deploy = Callable[[DataflowFigures, dict[str, float]], Deployment]
ALGORITHMS: dict[str, Deploy] = {
    "centralised": lambda dataflow, rates: greedy.deployed(dataflow, rates, CLASSES, goal(), central=True),
    "sharded": lambda dataflow, rates: greedy.deployed(dataflow, rates, CLASSES, goal(), central=False),
    "genetic": lambda dataflow, rates: genetic.deployed(dataflow, rates, CLASSES, goal(), EVOLUTION),
    "horizon": lambda dataflow, rates: horizon.deployed(dataflow, rates, CLASSES, goal()),
}
every = pytest.mark.parametrize("deploy", ALGORITHMS.values(), ids=ALGORITHMS.keys())


def theta(dataflow: DataflowFigures, deployment: Deployment) -> float:
    return goal().theta(dataflow, dataflow.gamma(deployment.active), deployment.price() * goal().hours)


def reached(dataflow: DataflowFigures, deployment: Deployment, rates: dict[str, float]) -> float:
    return omega(dataflow, deployment.active, rates, deployment.capacity(dataflow, {}))


@every
@settings(max_examples=20)
@given(dataflow=dataflows(), rate=rates)
def test_a_deployment_is_possible_and_suffices(deploy: Deploy, dataflow: DataflowFigures, rate: float) -> None:
    """Every task runs, no core works twice, and the throughput is reached."""
    deployment = deploy(dataflow, rates_of(dataflow, rate))
    assert [] == list(problems(deployment, dataflow))
    assert reached(dataflow, deployment, rates_of(dataflow, rate)) >= goal().omega - 1e-9


@every
@settings(max_examples=15)
@given(dataflow=dataflows(3), rate=st.sampled_from([1.0, 5.0, 10.0]))
def test_none_is_better_than_brute_force(deploy: Deploy, dataflow: DataflowFigures, rate: float) -> None:
    """On small cases it is the bound for all others that reach the throughput."""
    at = rates_of(dataflow, rate)
    assume(all(need < 12 for need in needs(dataflow, dataflow.best(), at)))
    exact = brute_force.deployed(dataflow, at, CLASSES, goal())
    assert [] == list(problems(exact, dataflow))
    assert reached(dataflow, exact, at) >= goal().omega - 1e-9
    assert theta(dataflow, deploy(dataflow, at)) <= theta(dataflow, exact) + 1e-9


@given(dataflow=dataflows(), rate=rates)
def test_the_horizon_is_never_worse_than_greedy(dataflow: DataflowFigures, rate: float) -> None:
    """In the model, where nothing varies."""
    at = rates_of(dataflow, rate)
    central, own = ALGORITHMS["centralised"](dataflow, at), ALGORITHMS["horizon"](dataflow, at)
    assert theta(dataflow, own) >= theta(dataflow, central) - 1e-9


def test_a_machine_that_would_stay_half_empty_is_not_rented() -> None:
    """A core is cheapest on the largest machine, but three tasks need few: as brute force has it."""
    huge = MachineClass(name="huge", cores=16, speed=2.5, price=1.0)
    at = {"read": 10.0}
    own, exact = (each.deployed(CHAIN, at, (SMALL, huge), goal()) for each in (horizon, brute_force))
    assert exact.price() == pytest.approx(own.price())


def test_a_sink_gets_less_where_that_saves_a_core() -> None:
    """The throughput is a mean: of three equal lanes two get all of it and one the rest, as brute force has it."""
    lanes = tuple(task(f"lane {at}", (1.0, 0.1, 1.0)) for at in range(3))
    dataflow = DataflowFigures(tasks=lanes)
    at = {one.name: 20.0 for one in lanes}
    own, exact = (each.deployed(dataflow, at, (SMALL,), goal()) for each in (horizon, brute_force))
    assert exact.price() == pytest.approx(own.price())
    assert [1, 2, 2] == sorted(sum(cores.get(one, 0) for cores in own.cores.values()) for one in range(3))


def test_large_dataflows_are_packed_in_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the tasks take no more passes over them, so that the work grows with the tasks alone."""

    def passes(length: int) -> int:
        count = 0

        def counted(*args: Any) -> Any:
            nonlocal count
            count += 1
            return served(*args)

        monkeypatch.setattr(packing, "served", counted)
        tasks = [task("t0", (1.0, 0.1, 1.0))]
        for at in range(1, length):
            alternates = ((1.0, 0.05 + at % 7 / 50, 1.0), (0.7, 0.04, 1.0))
            tasks.append(task(f"t{at}", *alternates, after=(f"t{max(0, at - 1 - at % 3)}",)))
        horizon.deployed(DataflowFigures(tasks=tuple(tasks)), {"t0": 20.0}, CLASSES, goal(20.0 * length))
        return count

    assert passes(4400) <= passes(1100)


def test_tasks_run_where_their_tags_are() -> None:
    """A task that needs a tag gets machines that offer it, the others may run anywhere."""
    special = TaskFigures(name="score", alternates=CHAIN.tasks[1].alternates, inputs=("read",), tags=GPU.tags)
    dataflow = DataflowFigures(tasks=(CHAIN.tasks[0], special, CHAIN.tasks[2]))
    for central in (True, False):
        deployment = greedy.deployed(dataflow, {"read": 20.0}, (*CLASSES, GPU), goal(), central=central)
        assert [] == list(problems(deployment, dataflow))
    with pytest.raises(ValueError, match="no class of machines offers gpu"):
        greedy.deployed(dataflow, {"read": 20.0}, CLASSES, goal(), central=True)


def test_the_centralised_variant_considers_what_is_below() -> None:
    """An alternate that lets less through is worth its lower value if what is below is dear; alone, it is not."""
    dataflow = DataflowFigures(
        tasks=(
            task("filter", (1.0, 0.01, 1.0), (0.9, 0.01, 0.1)),
            task("model", (1.0, 0.5, 1.0), after=("filter",)),
        )
    )
    central = greedy.deployed(dataflow, {"filter": 10.0}, CLASSES, goal(), central=True)
    sharded = greedy.deployed(dataflow, {"filter": 10.0}, CLASSES, goal(), central=False)
    assert (1, 0) == central.active
    assert (0, 0) == sharded.active
    assert central.price() < sharded.price()


@given(dataflow=dataflows(4), rate=rates)
def test_two_tenants_of_one_dataflow_pay_once(dataflow: DataflowFigures, rate: float) -> None:
    """Their union takes what one of them takes, and has the same value."""
    both = union([dataflow, dataflow])
    one, shared = (horizon.deployed(each, rates_of(dataflow, rate), CLASSES, goal()) for each in (dataflow, both))
    assert one.price() == pytest.approx(shared.price())
    assert both.gamma(shared.active) == pytest.approx(dataflow.gamma(one.active))


@given(st.integers(0, 40))
def test_machines_are_packed_at_the_lowest_price(cores: int) -> None:
    """With prices in proportion, so many cores of speed 2 cost as much as singles."""
    chosen = cheapest([MEDIUM, LARGE], cores)
    assert sum(one.cores for one in chosen) >= cores
    assert sum(one.price for one in chosen) == pytest.approx(MEDIUM.price * cores)


def test_genetic_search_repeats_itself() -> None:
    """The same seed finds the same."""
    one, other = (ALGORITHMS["genetic"](CHAIN, {"read": 20.0}) for _ in range(2))
    assert one == other


def test_a_deployment_says_what_is_wrong_with_it() -> None:
    """Too many cores of a machine, and tasks that run nowhere."""
    made = greedy.deployed(CHAIN, {"read": 1.0}, (SMALL,), goal(), central=True)
    wrong = Deployment(active=made.active, rentals=made.rentals[:1], cores={0: {0: 2}})
    assert [
        "score runs nowhere",
        "write runs nowhere",
        "rental 0 has 1 cores, not 2",
    ] == list(problems(wrong, CHAIN))


_NAMES = ("cost", "value", "selectivity", "tenants", "event_bytes", "rate", "cores", "omega", "switch_cost")
_ANY: st.SearchStrategy[Any] = (
    st.sampled_from([0, -1, 1, 0.5, 1e-9, 1e300, -math.inf, math.inf, math.nan, 10**400, 5e-324, None, "1"])
    | st.floats()
    | st.integers()
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(_NAMES), _ANY, max_size=2))
def test_any_figures_lead_to_a_plan_or_to_an_error(figures: Mapping[str, Any]) -> None:
    """What a plan says of throughput and value is from 0 to 1, or the error says what to give instead."""
    known = {"cost": 0.1, "value": 0.7, "selectivity": 1.0, "tenants": 1, "event_bytes": 1e3, "rate": 5.0}
    known |= dict(figures)
    try:
        alternates = (
            AlternateFigures(cost=known["cost"], selectivity=known["selectivity"]),
            AlternateFigures(cost=0.05, value=known["value"]),
        )
        task = TaskFigures(name="read", alternates=alternates, tenants=known["tenants"])  # type: ignore[arg-type]  # any
        dataflow = DataflowFigures(tasks=(task,), event_bytes=known["event_bytes"])
        more: dict[str, Any] = {name: known[name] for name in ("omega", "switch_cost") if name in known}
        found = plan(dataflow, [{"read": known["rate"]}], cores=known.get("cores", 1.0), **more)
    except ValueError as wrong:
        assert "; give a number" in str(wrong)  # noqa: PT017 - some figures are right
        return
    assert 0.0 <= found.now.omega <= 1.0
    assert 0.0 < found.now.gamma <= 1.0
    assert math.isfinite(found.now.cores)


@pytest.mark.parametrize("figure", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("name", ["cores", "speed", "price", "start_seconds"])
def test_machines_that_cannot_be_are_refused(name: str, figure: float) -> None:
    """The message names the class and the figure."""
    figures: dict[str, Any] = {"cores": 1, "price": 1.0, name: figure}
    with pytest.raises(ValueError, match=f"no machine class 'small' can be: {name} is {figure}; give a number"):
        MachineClass(name="small", **figures)


@pytest.mark.parametrize("cores", [-1.0, math.nan, math.inf])
def test_cores_and_rates_that_cannot_be_are_refused(cores: float) -> None:
    """A plan has some cores or none, so its throughput is never below nothing; a deployment has rates."""
    dataflow = DataflowFigures(tasks=(TaskFigures(name="read", alternates=(AlternateFigures(cost=0.5),)),))
    with pytest.raises(ValueError, match=f"this cannot be planned: cores is {cores}; give a number from 0"):
        plan(dataflow, [{"read": 1.0}], cores=cores)
    goal = ProfitGoal(best_cost=60.0, least_cost=30.0)
    with pytest.raises(ValueError, match="this cannot be deployed: the rate of read is"):
        deployed(dataflow, {"read": cores}, (MachineClass(name="small", cores=1, price=1.0),), goal)


def test_both_break_even_points_are_a_profit_of_nothing() -> None:
    """The best alternates at the most they may cost, the worst at theirs."""
    goal = ProfitGoal(best_cost=60.0, least_cost=30.0)
    assert goal.theta(CHAIN, 1.0, 60.0) == pytest.approx(0)
    assert goal.theta(CHAIN, CHAIN.least_gamma(), 30.0) == pytest.approx(0)
    assert goal.theta(CHAIN, 1.0, 59.0) > 0


@given(st.floats(1, 10 * HOUR))
def test_started_hours_are_paid(seconds: float) -> None:
    """Each counts from its beginning, and what is left of it is known."""
    rental = Rental(number=0, machine_class=SMALL)
    hours = rental.cost(seconds) / SMALL.price
    assert hours == pytest.approx(round(hours))
    assert hours * HOUR >= seconds - 1e-3
    assert (hours - 1) * HOUR < seconds
    assert rental.paid_left(seconds) == pytest.approx(hours * HOUR - seconds)


def test_an_hour_that_ends_is_not_followed_by_another_cost() -> None:
    """Who lets a machine go at its hour's end pays for that hour alone."""
    assert SMALL.price == Rental(number=0, machine_class=SMALL, since=300.0).cost(300.0 + HOUR)


def test_a_shared_task_counts_once() -> None:
    """The union of tenants has it once, with all that use it; what differs is theirs."""
    other = DataflowFigures(tasks=(*CHAIN.tasks[:2], task("alert", (1.0, 0.01, 1.0), after=("score",))))
    both = union([CHAIN, other])
    assert [("read", 2), ("score", 2), ("write", 1), ("alert", 1)] == [(one.name, one.tenants) for one in both.tasks]
    assert both.gamma((0, 1, 0, 0)) == pytest.approx(0.7)


def test_equal_names_with_unequal_figures_are_refused() -> None:
    """A name stands for what a task computes."""
    other = DataflowFigures(tasks=(task("read", (1.0, 0.5, 1.0)),))
    with pytest.raises(ValueError, match="read differs between two dataflows"):
        union([CHAIN, other])


@pytest.mark.parametrize(
    ("tasks", "match"),
    [
        ((task("a", (1.0, 1.0, 1.0), after=("b",)), task("b", (1.0, 1.0, 1.0))), "must stand before it"),
        ((task("a", (1.0, 1.0, 1.0)), task("a", (1.0, 1.0, 1.0))), "there twice"),
        ((TaskFigures(name="a", alternates=()),), "a needs an alternate; give it one"),
    ],
)
def test_figures_that_cannot_be_are_refused(tasks: tuple[TaskFigures, ...], match: str) -> None:
    """The message names the task, and what it needs."""
    with pytest.raises(ValueError, match=match):
        DataflowFigures(tasks=tasks)


@pytest.mark.parametrize(
    "goal",
    [{"omega": 0.0}, {"omega": 1.5}, {"tolerance": 0.9}, {"hours": 0.0}, {"least_cost": 60.0}],
)
def test_goals_that_nothing_can_be_judged_by_are_refused(goal: dict[str, float]) -> None:
    """A goal has a throughput, a period, and two break-even points."""
    with pytest.raises(ValueError, match=r"goal needs|worth more|this is no goal: \w+ is"):
        ProfitGoal(**{"best_cost": 60.0, "least_cost": 30.0, **goal})


cores = st.floats(0, 20, allow_nan=False)


@st.composite
def loaded(draw: st.DrawFn) -> tuple[DataflowFigures, tuple[int, ...], dict[str, float], list[float]]:
    dataflow = draw(dataflows())
    active = tuple(draw(st.integers(0, len(task.alternates) - 1)) for task in dataflow.tasks)
    rates = {name: draw(st.floats(0, 100)) for name in rates_of(dataflow, 1.0)}
    return dataflow, active, rates, [draw(cores) for _ in dataflow.tasks]


@given(loaded())
def test_omega_is_a_share(
    scene: tuple[DataflowFigures, tuple[int, ...], dict[str, float], list[float]],
) -> None:
    """Whatever is deployed, it lies between nothing and all."""
    assert 0 <= omega(*scene) <= 1


@given(loaded())
def test_omega_is_one_with_plenty(
    scene: tuple[DataflowFigures, tuple[int, ...], dict[str, float], list[float]],
) -> None:
    """What each task needs is enough, to the last digit."""
    dataflow, active, rates, _ = scene
    assert omega(dataflow, active, rates, needs(dataflow, active, rates)) == pytest.approx(1)


@given(loaded(), st.data())
def test_more_cores_never_lower_omega(
    scene: tuple[DataflowFigures, tuple[int, ...], dict[str, float], list[float]], data: st.DataObject
) -> None:
    """Wherever they are added."""
    dataflow, active, rates, capacity = scene
    more = [each + data.draw(cores) for each in capacity]
    assert omega(dataflow, active, rates, capacity) <= omega(dataflow, active, rates, more) + 1e-9


def test_a_starved_sink_does_not_count_as_served() -> None:
    """It does all that reaches it, which is a tenth of what should."""
    capacity = [0.01, 100.0, 100.0]
    active = (0, 0, 0)
    taken, done = served(CHAIN, active, {"read": 10.0}, capacity)
    assert taken[2] == done[2] == pytest.approx(1.0)
    assert omega(CHAIN, active, {"read": 10.0}, capacity) == pytest.approx(0.1)


def test_the_network_limits_what_passes() -> None:
    """What does not fit from one task to another does not arrive."""
    assert omega(CHAIN, (0, 0, 0), {"read": 10.0}, [9.0, 9.0, 9.0], {(1, 2): 4.0}) == pytest.approx(0.4)
