"""Machines and alternates decided together in the service: by worth, price and forecast, also where machines fail."""

from collections.abc import Iterator, Mapping

import pytest

from adaptation.decision import Ground, Permission, StandingChoice
from adaptation.documents import Policy, Selection
from adaptation.flow import ONLY, FlowAlternate, FlowEdge, FlowGraph, FlowTask
from adaptation.service_figures import ProvidedDataflow, service_figures
from adaptation.shared_switches import Sharer
from braid_client.answers.overview import OperationKind
from manager.machines.provisions import INTERVAL, NeedHistory, service_outlook
from manager.settings import Autoscale, ProvisionAlgorithm
from ring.fleet import MachineSeen
from tests.manager.machines.test_scaler import HOLD, Scaling
from tests.manager.managers import OPERATOR, Manager, leading

HORIZON = ProvisionAlgorithm.HORIZON
SMALL = {"cores": 2, "price": 0.1, "most": 3, "start_seconds": 20.0}


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite)


def provided(
    name: str, policy: Policy, standing: str = "coarse", users: Mapping[str, int] | None = None
) -> ProvidedDataflow:
    """A dataflow of which the best alternate needs two cores, and the other one a fifth."""
    levels = {"fine": FlowAlternate(0.02, 1.0, 1.0), "coarse": FlowAlternate(0.002, 1.0, 0.5)}
    source = FlowTask(id="s", feeds=(), alternates={ONLY: FlowAlternate(0.0, 1.0, 1.0)}, rate=100.0)
    ground = Ground(
        flow=FlowGraph(tasks=(source, FlowTask(id="a", feeds=(FlowEdge(0, None),), alternates=levels))),
        permission=Permission(alternates={"a": frozenset(levels)}, opened={}, rules={}, unguarded=frozenset()),
        policy=policy,
        cores=9.0,
        now=0.0,
        price=0.05,
    )
    choice = StandingChoice(choice=Selection(alternates={"a": standing}))
    return ProvidedDataflow(sharer=Sharer(dataflow=name, ground=ground, standing=choice, running={}), users=users or {})


def test_a_machine_is_rented_while_it_is_needed_and_to_the_end_of_its_hour(manager: Manager) -> None:
    """The journal says for what need, at which price; what is paid is used."""
    scaling = Scaling(manager, algorithm=HORIZON, small=SMALL)
    scaling.run(3 * HOLD, cores=1.9)
    assert {"added-1": "small"} == scaling.supply.kinds
    ((kind, _, why),) = scaling.journal()
    assert OperationKind.ADD_MACHINE is kind
    # A core of these machines is a quarter faster than the reference core.
    assert "tasks need up to 2.38 reference cores" in why
    assert "for 0.1 an hour" in why
    scaling.come("added-1")
    scaling.run(3 * HOLD, cores=0.3)
    assert not scaling.carriages.fleet().draining
    scaling.ahead = 3_550.0
    scaling.run(3 * HOLD, cores=0.3)
    assert {"added-1"} == scaling.carriages.fleet().draining
    assert "its paid hour ends" in scaling.journal()[-1][2]


def test_a_machine_that_does_not_come_is_given_up_for_one_of_another_class(manager: Manager) -> None:
    """It ends, and its class is not asked again for an hour as long as there is another."""
    scaling = Scaling(manager, algorithm=HORIZON, small=SMALL, other={**SMALL, "price": 0.2})
    scaling.run(3 * HOLD, cores=1.9)
    assert {"added-1": "small"} == scaling.supply.kinds
    scaling.ahead = 500.0
    scaling.run(HOLD + 10, cores=1.9)
    scaling.ahead = 0.0
    scaling.run(3 * HOLD, cores=1.9)
    removed = [why for act, name, why in scaling.journal() if act is OperationKind.REMOVE_MACHINE]
    assert ["it has not come"] == [why[:15] for why in removed]
    assert {"added-1": "other"} == scaling.supply.kinds


def test_a_preview_says_it_once_and_changes_nothing(manager: Manager) -> None:
    """Neither machines nor alternates."""
    scaling = Scaling(manager, Autoscale.PREVIEW, HORIZON, small=SMALL)
    scaling.run(20 * HOLD, cores=1.9)
    assert [OperationKind.WOULD_ADD_MACHINE] == [kind for kind, _, _ in scaling.journal()]
    assert [] == scaling.supply.calls
    assert {} == manager.tools.adaptations.planned


def test_value_is_paid_for_as_far_as_it_is_worth_it(manager: Manager) -> None:
    """A machine is rented for the dataflow whose best alternate is worth it, and none for one that names no worth."""
    board = manager.tools.adaptations
    scaling = Scaling(manager, algorithm=HORIZON, small=SMALL)
    for policy, fine in ((Policy(), False), (Policy(worth=0.05), False), (Policy(worth=5.0), True)):
        board.provided = [provided("ann", policy), provided("bob", Policy())]
        scaling.run(3 * HOLD, cores=0.4)
        assert fine == bool(scaling.supply.kinds)
        assert {"a": "fine" if fine else "coarse"} == board.planned["ann"]
    assert {"a": "coarse"} == board.planned["bob"]
    assert board.core_price == pytest.approx(0.05)
    assert 2 == len(board.planned)


def test_a_plan_is_made_six_times_while_a_change_settles(manager: Manager) -> None:
    """It takes long with many dataflows, so not at each look."""
    board = manager.tools.adaptations
    scaling = Scaling(manager, algorithm=HORIZON, small=SMALL)
    board.provided = [provided("ann", Policy())]
    scaling.run(HOLD / 6, cores=0.4)
    board.provided = [provided("ann", Policy()), provided("bob", Policy())]
    planned = []
    for _ in range(10):
        scaling.now += 1
        scaling.scaler.look()
        planned.append(set(board.planned))
    assert [{"ann"}] * 9 + [{"ann", "bob"}] == planned


def test_without_a_class_nothing_is_planned(manager: Manager) -> None:
    """Each dataflow decides for itself then, at no price."""
    scaling = Scaling(manager, algorithm=HORIZON, small=SMALL)
    manager.service.machine_classes.remove(OPERATOR, "small")
    manager.tools.adaptations.provided = [provided("ann", Policy(worth=5.0))]
    scaling.run(3 * HOLD, cores=1.9)
    assert [] == scaling.journal()
    assert ({}, None) == (manager.tools.adaptations.planned, manager.tools.adaptations.core_price)


def test_a_static_service_changes_nothing(manager: Manager) -> None:
    """However much there is to do."""
    scaling = Scaling(manager, algorithm=ProvisionAlgorithm.STATIC, small=SMALL)
    scaling.run(10 * HOLD, cores=1.9)
    assert [] == scaling.supply.calls


def test_look_ahead_rents_too(manager: Manager) -> None:
    """By the same figures."""
    scaling = Scaling(manager, algorithm=ProvisionAlgorithm.LOOK_AHEAD, small=SMALL)
    scaling.run(3 * HOLD, cores=1.9)
    assert {"added-1": "small"} == scaling.supply.kinds


def test_a_worker_that_never_reports_counts_once(manager: Manager) -> None:
    """Its cores are among those of the machine whose host has them; it is reckoned with, and not given up."""
    command = {**SMALL, "supply": "command", "command": "spark-worker"}
    scaling = Scaling(manager, algorithm=HORIZON, small=command)
    scaling.run(3 * HOLD, cores=1.9)
    fleet = scaling.carriages.fleet()
    rental = fleet.rentals["added-1"]
    local = MachineSeen(name="local", alive=True, cores=4.0)
    outlook = service_outlook(
        fleet,
        {"local": local},
        service_figures([], 3.0),
        growth=(1.0,),
        avoided_classes=frozenset(),
        now=rental.since + 500.0,
    )
    assert {"local": 2, "added-1": 2} == {one.name: one.machine_class.cores for one in outlook.deployment.rentals}
    assert not any(one.is_late(outlook.now) for one in outlook.deployment.rentals)


def test_a_task_that_several_use_costs_each_a_part() -> None:
    """Two who use one task need as much together as one alone."""
    alone = service_figures([provided("ann", Policy())], 0.0)
    both = service_figures([provided(name, Policy(), users={"a": 2}) for name in ("ann", "bob")], 0.0)

    def cost(name: str, figures: object) -> float:
        assert isinstance(figures, type(alone))
        (task,) = [one for one in figures.dataflow.tasks if one.name == name]
        return task.alternates[-1].cost

    assert cost("ann/a", alone) == cost("ann/a", both) + cost("bob/a", both)


def test_what_a_budget_does_not_pay_for_is_not_planned() -> None:
    """Neither is what is not permitted, or needs more cores than the policy allows."""
    rich, poor, small = (
        service_figures([provided("ann", policy)], 1.0).choices[-1]
        for policy in (Policy(budget=24.0), Policy(budget=0.5), Policy(cores=0.5))
    )
    assert ("ann", "a", ("coarse", "fine")) == rich
    assert ("ann", "a", ("coarse",)) == poor == small


def test_others_are_worked_off_whole() -> None:
    """A policy may allow less for its dataflow alone."""
    lenient = provided("ann", Policy(throughput=0.5))
    assert 1.0 == service_figures([lenient], 1.0).goal.omega
    assert 0.5 == service_figures([lenient], 0.0).goal.omega


def test_growth_goes_by_the_history_of_what_was_needed() -> None:
    """As long as there is too little of it, what is needed stays; then a rise goes on for a while."""
    history = NeedHistory()
    assert {1.0} == set(history.growth(1.0, 0.0))
    rising = [history.growth(1.0 + step, step * INTERVAL) for step in range(1, 12)][-1]
    assert 1.0 == rising[0] < rising[1] < rising[-1]
