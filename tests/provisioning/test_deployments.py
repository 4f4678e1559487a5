"""Laws of the algorithms that make deployments."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from provisioning import horizon
from provisioning.algorithms import brute_force, genetic, greedy
from provisioning.algorithms.repack import cheapest
from provisioning.deployment import Deployment
from provisioning.figures import DataflowFigures, MachineClass, TaskFigures, needs, omega, served, union
from provisioning.horizon import packing
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
