"""Dynamic dataflows in the service: resolved, adapted while they run, and steered by hand and by policy."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from braid_client.answers.adaptations import AdaptationAnswer
from braid_client.answers.dataflows import Stop
from braid_client.answers.overview import OperationKind
from braid_client.answers.reconfigurations import ReconfigurationForm
from braid_client.answers.tenants import Quota
from bridge import Message
from engine.tasks.filters import GATE
from manager.adaptation.adapter import Adapter, DomainEventLine
from manager.kernel.transitions import Phase, TransitionEvent
from manager.observations.reports import InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.problem import Conflict, InvalidDataflow, InvalidRequest
from manager.use_case import Caller, Paging, Pricing
from tests.catalogue import CATALOGUE
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, leading, take

BEGINS = 1_000.0


def dynamic(**more: Any) -> bytes:
    """A dataflow of which one task is precise or quick; it begins precise."""
    task = {
        "id": "a",
        "alternates": [
            {"name": "precise", "type": "map", "config": {"add": 1}, "value": 1.0, "cost": 1_000},
            {"name": "quick", "type": "map", "config": {"add": 2}, "value": 0.5, "cost": 10},
        ],
    }
    document = {
        "version": 1,
        "name": "adapts",
        "tasks": [{"id": "s", "type": "source", "config": {"source": "weather"}}, task, {"id": "k", "type": "sink"}],
        "streams": [{"from": "s", "to": "a"}, {"from": "a", "to": "k"}],
        "policy": {},
    }
    edited = {**document, **more}
    edited["tasks"] = [
        {**each, "config": {"source": "ann:weather"}} if each["id"] == "s" else each for each in edited["tasks"]
    ]
    return json.dumps(edited).encode()


class Line:
    """A client of a broker that a test plays."""

    def __init__(self, on_message: Any) -> None:
        self.on_message = on_message
        self.topics: set[str] = set()

    def stop(self) -> None:
        self.topics.clear()

    def acknowledge(self, tokens: Iterable[int]) -> None:
        del tokens

    def subscribe(self, topics: Iterable[str]) -> None:
        self.topics |= set(topics)

    def unsubscribe(self, topics: Iterable[str]) -> None:
        self.topics -= set(topics)

    def deliver(self, topic: str, *events: Mapping[str, Any]) -> None:
        if topic in self.topics:
            payload = json.dumps({"stream": "", "epoch": 1, "first": 0, "events": events}).encode()
            self.on_message(Message(topic=topic, payload=payload, token=1))


class Played:
    """An adapter whose time, jobs and events a test plays."""

    def __init__(self, manager: Manager, price: float | None = None) -> None:
        """`price` is that of an hour of a core."""
        self.manager = manager
        self.now = BEGINS
        self.lines: list[Line] = []
        self.adapter = Adapter(
            replace(manager.tools, pricing=Pricing(per_core_hour=price)),
            DomainEventLine(self._connect, clock=lambda: self.now),
            clock=lambda: self.now,
            monotonic=lambda: self.now,
        )
        self.counts: dict[str, Measured] = {}
        self.backlog = 0.0

    def _connect(self, client_id: str, *, on_message: Any) -> Any:
        del client_id
        self.lines.append(Line(on_message))
        return self.lines[-1]

    def runs(
        self, seconds: float, per_second: float, cost: Mapping[str, float] | None = None, waiting: float = 0.0
    ) -> None:
        """Let jobs take events for a while, and the adapter look every five seconds.

        `cost` is the seconds of CPU an event by task type's config; by default what the document declares. `waiting`
        are the events by which the backlog grows in a second.
        """
        for _ in range(round(seconds / 5)):
            self.now += 5.0
            self.backlog = max(0.0, self.backlog + waiting * 5)
            self._report(per_second * 5, cost or {"add 1": 0.001, "add 2": 0.000_01})
            self.adapter.look()

    def _report(self, events: float, cost: Mapping[str, float]) -> None:
        with self.manager.committer.looking() as state:
            plans = dict(state.plans)
        for job, plan in plans.items():
            name, before = str(job), self.counts.get(str(job), Measured(at=self.now - 5.0, run=1))
            did = dict(before.instances)
            for slot in plan.slots:
                known = did.get(slot.instance, InstanceMeasured())
                add = json.loads(slot.config).get("add")
                did[slot.instance] = InstanceMeasured(
                    cpu_ns=known.cpu_ns + int(events * cost.get(f"add {add}", 0.0) * 1e9),
                    taken=known.taken + int(events),
                    emitted=known.emitted + int(events),
                )
            streams = {
                each.stream: StreamMeasured(
                    entered=before.streams.get(each.stream, StreamMeasured()).entered + int(events),
                    lag_events=int(self.backlog),
                )
                for each in plan.ingress
            }
            after = Measured(at=self.now, run=1, batch=before.batch + 5, instances=did, streams=streams)
            self.counts[name] = after
            seen = self.manager.seen.jobs.get(name)
            measured = (*(seen.measured if seen is not None else (before,)), after)[-12:]
            self.manager.seen.jobs[name] = JobSeen(
                job=name,
                host=plan.host,
                state="running",
                version=plan.version,
                term=plan.term,
                in_effect=plan.version,
                measured=measured,
                seen=datetime.now(UTC),
            )
        # Nobody drives hosts here: what switches has switched.
        changes = self.manager.changes.reconfigurations
        for each in changes.under_way():
            if each.reconfiguration.phase is Phase.SWITCHING:
                take(changes, each.reconfiguration.id, TransitionEvent.BEGUN)

    def answer(self, dataflow: str) -> AdaptationAnswer:
        return self.manager.service.adaptations.get(OPERATOR, dataflow)

    def active(self, dataflow: str) -> str:
        return self.answer(dataflow).tasks[0].active


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """With gates, and ann and bob; each dataflow gets a job of its own."""
    catalogue = replace(CATALOGUE, types={**CATALOGUE.types, GATE.name: GATE})
    yield from leading(sqlite, tenants=("ann", "bob"), sources=("weather",), strategy="launch", catalogue=catalogue)


@pytest.fixture
def played(manager: Manager) -> Played:
    return Played(manager)


def submit(manager: Manager, who: Any = ANN, **more: Any) -> str:
    return manager.service.dataflows.submit(who, dynamic(**more)).id


def test_a_dynamic_document_runs_as_it_begins(manager: Manager) -> None:
    """What runs is plain; the document is kept as it was written."""
    dataflow = submit(manager)
    found = manager.service.dataflows.get(ANN, dataflow)
    assert json.loads(dynamic()) == found.dynamic
    assert {"add": 1} == found.document["tasks"][1]["config"]
    assert "precise" == manager.service.adaptations.get(ANN, dataflow).tasks[0].active


def test_what_is_wrong_is_refused_with_its_place(manager: Manager) -> None:
    """Before anything runs."""
    with pytest.raises(InvalidDataflow) as refused:
        submit(manager, policy={"rules": [{"name": "r", "activate": {"metric": "speed", "above": 1}, "choose": {}}]})
    assert any(each.pointer.startswith("/policy/rules/0") for each in refused.value.errors)
    plain = manager.submit("ann", "s:source > a:map > k:sink")
    with pytest.raises(Conflict):
        manager.service.adaptations.get(ANN, plain)


def test_too_much_work_leads_to_a_cheaper_alternate_and_calm_back(manager: Manager, played: Played) -> None:
    """The journal says why, to its tenant too, and to no other."""
    dataflow = submit(manager)
    played.runs(30, per_second=200)
    assert "precise" == played.active(dataflow)
    played.runs(20, per_second=2_000)
    assert "quick" == played.active(dataflow)
    assert {"add": 2} == manager.service.dataflows.get(ANN, dataflow).document["tasks"][1]["config"]
    played.runs(600, per_second=200)
    assert "precise" == played.active(dataflow)

    def notes(who: Caller) -> list[str]:
        return [each.note for each in manager.service.operations.page(who, Paging(), kind=OperationKind.ADAPT).items]

    assert 2 == len(notes(OPERATOR))
    assert all(each.startswith("a: ") for each in notes(ANN))
    assert (notes(OPERATOR), []) == (notes(ANN), notes(BOB))
    adapted = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.ADAPT).items
    assert {"the service"} == {each.who for each in adapted}


def test_a_job_that_falls_behind_has_no_more_cores_than_it_got(manager: Manager, played: Played) -> None:
    """On a busy machine half of the events are worked off, though a core would be enough; it does not go back soon."""
    dataflow = submit(manager)
    played.runs(60, per_second=500)
    assert "precise" == played.active(dataflow)
    played.runs(40, per_second=250, waiting=250)
    assert "quick" == played.active(dataflow)
    played.runs(10, per_second=1_500, waiting=-1_000)
    played.runs(180, per_second=500)
    assert "quick" == played.active(dataflow)
    played.runs(240, per_second=500)
    assert "precise" == played.active(dataflow)


def test_a_burst_that_is_worked_off_changes_nothing(manager: Manager, played: Played) -> None:
    """Although its job did little before, and more waits than then."""
    dataflow = submit(manager)
    played.runs(60, per_second=10)
    played.runs(5, per_second=10, waiting=800)
    played.runs(60, per_second=100, waiting=-90)
    assert "precise" == played.active(dataflow)


def test_what_waits_counts_too(manager: Manager, played: Played) -> None:
    """An alternate that nearly keeps up gives way before the backlog takes long to work off."""
    dataflow = submit(manager)
    played.runs(120, per_second=900)
    assert "precise" == played.active(dataflow)
    played.runs(240, per_second=850, waiting=50)
    assert "quick" == played.active(dataflow)


def test_measured_costs_replace_declared_ones(manager: Manager, played: Played) -> None:
    """An alternate that is cheaper than declared stays."""
    dataflow = submit(manager)
    played.runs(60, per_second=200, cost={"add 1": 0.000_1})
    played.runs(60, per_second=2_000, cost={"add 1": 0.000_1})
    (task,) = played.answer(dataflow).tasks
    assert ("precise", True, 100.0) == (task.active, task.alternates[0].measured, task.alternates[0].cost)


def test_what_is_chosen_by_hand_stays_until_it_is_free_again(manager: Manager, played: Played) -> None:
    """Whatever the load is."""
    dataflow = submit(manager)
    manager.service.adaptations.choose(ANN, dataflow, {"a": "quick"})
    played.runs(300, per_second=10)
    assert "quick" == played.active(dataflow)
    manager.service.adaptations.choose(ANN, dataflow, {})
    played.runs(300, per_second=10)
    assert "precise" == played.active(dataflow)
    with pytest.raises(InvalidRequest):
        manager.service.adaptations.choose(ANN, dataflow, {"a": "slow"})


def test_events_of_a_tenants_own_output_switch(manager: Manager, played: Played) -> None:
    """A rule is active from one event to another; the policy that brings it came while the dataflow ran."""
    dataflow = submit(manager)
    policy = {
        "events": {"peak": {"output": "k"}, "calm": {"output": "k"}},
        "rules": [
            {
                "name": "sparing",
                "activate": {"event": "peak", "where": {"field": "value", "above": 5}},
                "deactivate": {"event": "calm", "where": {"field": "value", "below": 3}},
                "choose": {"a": "quick"},
            }
        ],
    }
    manager.service.adaptations.set_policy(ANN, dataflow, json.dumps(policy).encode())
    played.runs(30, per_second=10)
    topic = f"braid/1/out/ann/{dataflow}/k"
    played.lines[0].deliver(topic, {"value": 4}, {"value": 6})
    played.runs(30, per_second=10)
    assert ("quick", "sparing") == (played.active(dataflow), played.answer(dataflow).tasks[0].rule)
    played.lines[0].deliver(topic, {"value": 2})
    played.runs(300, per_second=10)
    assert "precise" == played.active(dataflow)


def test_tenants_that_want_the_same_share_and_one_that_differs_does_not_change_the_other(
    manager: Manager, played: Played
) -> None:
    """They switch together to what both want; bob's choice by hand forks his alone, until he lets go."""
    ann, bob = submit(manager), submit(manager, BOB)

    def instances() -> list[int]:
        found = (manager.service.dataflows.get(OPERATOR, each) for each in (ann, bob))
        return [next(task.instance for task in each.tasks if task.id == "a") for each in found]

    assert 1 == len(set(instances()))
    played.runs(60, per_second=2_000)
    assert ["quick", "quick"] == [played.active(ann), played.active(bob)]
    assert 1 == len(set(instances()))
    manager.service.adaptations.choose(BOB, bob, {"a": "precise"})
    played.runs(30, per_second=2_000)
    assert ("quick", "precise") == (played.active(ann), played.active(bob))
    assert 2 == len(set(instances()))
    manager.service.adaptations.choose(BOB, bob, {})
    played.runs(120, per_second=2_000)
    assert ("quick", "quick") == (played.active(ann), played.active(bob))
    assert 1 == len(set(instances()))


def test_worth_is_weighed_against_the_price_of_cores_for_its_own_dataflow_alone(manager: Manager) -> None:
    """Ann's best alternate is worth less than the cores for it; bob, who shares it and names no worth, keeps it."""
    played = Played(manager, price=1.0)
    ann, bob = submit(manager, policy={"worth": 0.05}), submit(manager, BOB)
    played.runs(120, per_second=200)
    assert ("quick", "precise") == (played.active(ann), played.active(bob))
    (entry,) = manager.service.operations.page(ANN, Paging(), kind=OperationKind.ADAPT).items
    assert "which is worth less than the" in entry.note
    manager.service.adaptations.set_policy(ANN, ann, b'{"worth": 5.0}')
    played.runs(180, per_second=200)
    assert ("precise", "precise") == (played.active(ann), played.active(bob))


def test_without_a_price_worth_and_budgets_count_nothing(manager: Manager, played: Played) -> None:
    """As nobody knows what cores cost."""
    dataflow = submit(manager, policy={"worth": 0.001, "budget": 0.001})
    played.runs(120, per_second=200)
    assert "precise" == played.active(dataflow)
    tenants = manager.service.administration.tenants(OPERATOR, Paging()).items
    assert {None} == {each.uses.budget for each in tenants}


def test_a_tenants_budget_bounds_all_of_its_dataflows_and_no_others(manager: Manager) -> None:
    """Ann's two would cost 7 a day or more, and may cost 2; a budget that is raised lets them be precise again."""
    played = Played(manager, price=1.0)
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(budget=2))
    other = [{"id": "s", "type": "source"}, *json.loads(dynamic())["tasks"][1:]]
    other[1]["alternates"][0]["config"], other[1]["alternates"][1]["config"] = {"add": 3}, {"add": 4}
    cost = {"add 1": 0.001, "add 2": 0.000_01, "add 3": 0.001, "add 4": 0.000_01}
    both = [submit(manager), submit(manager, name="second", tasks=other)]
    bob = submit(manager, BOB)
    played.runs(60, per_second=200, cost=cost)
    assert ["quick", "quick"] == [played.active(each) for each in both]
    assert "precise" == played.active(bob)

    tenants = manager.service.administration.tenants(OPERATOR, Paging()).items
    uses = {each.name: each.uses.budget for each in tenants}
    assert 0.0 < (uses["ann"] or 0.0) < 1.0
    assert uses["bob"] == pytest.approx(4.8, rel=0.2)
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(budget=60))
    played.runs(180, per_second=200, cost=cost)
    assert ["precise", "precise"] == [played.active(each) for each in both]


def test_costs_are_unknown_once_the_price_is_gone(manager: Manager, played: Played) -> None:
    """As with the last class of machines; a tenant does not see what its dataflows cost before."""
    submit(manager)

    def cost() -> float | None:
        (tenant,) = manager.service.administration.tenants(ANN, Paging()).items
        return tenant.uses.budget

    manager.tools.adaptations.core_price = 1.0
    played.runs(60, per_second=200)
    assert (cost() or 0.0) > 0.0
    manager.tools.adaptations.core_price = None
    played.runs(5, per_second=200)
    assert cost() is None


@pytest.mark.parametrize(("switch", "waiting"), [("consistent", 1), ("fast", 0)])
def test_a_fast_task_waits_for_no_other_job(manager: Manager, played: Played, switch: str, waiting: int) -> None:
    """Two tasks in two jobs switch together; the second job waits for a marker, unless they are fast."""
    gone = manager.submit("ann", "s:source > a:map{'add': 1} > k:sink")

    def task(name: str, *adds: int) -> dict[str, Any]:
        alternates = [
            {"name": f"by {add}", "type": "map", "config": {"add": add}, "value": 1.0, "cost": 10} for add in adds
        ]
        return {"id": name, "alternates": alternates, "switch": switch}

    dataflow = submit(
        manager,
        tasks=[
            {"id": "s", "type": "source", "config": {"source": "weather"}},
            task("a", 1, 2),
            task("d", 3, 4),
            {"id": "k", "type": "sink"},
        ],
        streams=[{"from": "s", "to": "a"}, {"from": "a", "to": "d"}, {"from": "d", "to": "k"}],
    )
    manager.service.dataflows.remove(ANN, gone, Stop.NOW)
    manager.service.adaptations.choose(ANN, dataflow, {"a": "by 2", "d": "by 4"})
    played.runs(30, per_second=10)
    (made,) = manager.service.reconfigurations.page(ANN, dataflow, Paging()).items
    assert made.scope is not None
    assert (2, waiting) == (len(made.scope.tasks), len(made.scope.waiting))


def test_of_two_gates_that_run_as_one_each_opens_for_itself(manager: Manager, played: Played) -> None:
    """As long as both are closed they are the same; then one has to be a task of its own."""
    guard = {"activate": {"event": "peak"}, "deactivate": {"event": "calm"}}
    dataflow = submit(
        manager,
        tasks=[
            {"id": "s", "type": "source", "config": {"source": "weather"}},
            *({"id": name, "type": "map", "config": {"add": add}} for name, add in (("a", 1), ("b", 2))),
            {"id": "k", "type": "sink"},
            {"id": "l", "type": "sink"},
        ],
        streams=[
            {"from": "s", "to": "a", "when": guard},
            {"from": "s", "to": "b", "when": guard},
            {"from": "a", "to": "k"},
            {"from": "b", "to": "l"},
        ],
        policy={"events": {"peak": {"output": "k"}, "calm": {"output": "k"}}},
    )
    played.runs(30, per_second=10)
    manager.service.adaptations.choose(ANN, dataflow, {"s>b": True})
    played.runs(30, per_second=10)
    assert [False, True] == [each.open for each in played.answer(dataflow).streams]
    tasks = manager.service.dataflows.get(ANN, dataflow).document["tasks"]
    assert [False, True] == [each["config"]["open"] for each in tasks if each["type"] == "gate"]
    assert not played.answer(dataflow).trouble


def test_nobody_learns_with_whom_it_switched(manager: Manager, played: Played) -> None:
    """Nor can a tenant undo what others share; an operator sees all of it."""
    ann, bob = submit(manager), submit(manager, BOB)
    played.runs(60, per_second=2_000)
    (own,) = manager.service.reconfigurations.page(ANN, ann, Paging()).items
    assert ((ann,), {ann}) == (own.dataflows, {each.dataflow for each in own.scope.tasks} if own.scope else None)
    (whole,) = manager.service.reconfigurations.page(OPERATOR, bob, Paging()).items
    assert {ann, bob} == set(whole.dataflows)
    for act in (manager.service.reconfigurations.undo, manager.service.reconfigurations.cancel):
        with pytest.raises(Conflict):
            act(ANN, ann, own.id)


def test_a_dataflow_that_was_changed_otherwise_says_so(manager: Manager, played: Played) -> None:
    """It is left alone from then on."""
    dataflow = submit(manager)
    form = ReconfigurationForm(tasks={"a": {"config": {"add": 7}}})
    manager.service.reconfigurations.begin(ANN, dataflow, form)
    played.runs(60, per_second=5_000)
    assert played.answer(dataflow).trouble
    assert 7 == manager.service.dataflows.get(ANN, dataflow).document["tasks"][1]["config"]["add"]


def test_an_alternate_that_went_back_by_itself_is_not_tried_again_for_a_while(manager: Manager, played: Played) -> None:
    """Even if it would be right."""
    dataflow = submit(manager)
    played.runs(60, per_second=2_000)
    assert "quick" == played.active(dataflow)
    (under_way,) = manager.changes.reconfigurations.under_way()
    take(manager.changes.reconfigurations, under_way.reconfiguration.id, TransitionEvent.FAILED, why="a task fails")
    played.runs(60, per_second=2_000)
    assert "precise" == played.active(dataflow)
    assert [True, False] == [each.permitted for each in played.answer(dataflow).tasks[0].alternates]
    played.runs(300, per_second=2_000)
    assert "quick" == played.active(dataflow)
