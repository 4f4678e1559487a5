"""The upkeep of pipelines: what replaces a failing module, and what a changed schema of a source leads to."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowDetail
from braid_client.answers.overview import OperationKind
from braid_client.answers.pipelines import ReplanForm, ReplanKind
from braid_client.answers.reconfigurations import ReconfigurationForm
from braid_client.answers.sources import SchemaForm, SourceForm
from dags import Kind
from engine.plan import Ingress, Subscribed
from manager.kernel.transitions import Phase, TransitionEvent
from manager.observations.reports import JobSeen
from manager.pipelines.upkeep import FallbackTaker, PipelineFollower
from manager.problem import Conflict, Forbidden, InvalidDataflow, NotFound
from manager.use_case import Paging
from tests.manager.managers import ANN, BOB, FIELDS, OPERATOR, Manager, take
from tests.manager.pipelines.sent_pipelines import GIVEN, GOAL, KELVINS, LINE, held, publish, raw, submit, to_kelvin

OTHERS = {"name": "others", "cost": 99.0, "installed": {"type": "map", "config": {"add": 275}}}


@pytest.fixture
def taker(manager: Manager) -> FallbackTaker:
    """One that looks as often as a test asks."""
    ticks: Iterator[int] = count(step=10)
    return FallbackTaker(manager.tools, clock=lambda: float(next(ticks)))


def detail(manager: Manager, flow: str) -> DataflowDetail:
    return manager.service.dataflows.get(OPERATOR, flow)


def fail(manager: Manager, flow: str, task: str = "p", *, behind: int = 0) -> None:
    """Have hosts report that a task does nothing but fail, all other tasks being well; or did before the last plan."""
    instance = next(each.instance for each in detail(manager, flow).tasks if each.id == task)
    with manager.committer.looking() as state:
        for job, plan in state.plans.items():
            failed = {instance: "ValueError: no"} if instance in {slot.instance for slot in plan.slots} else {}
            manager.seen.jobs[str(job)] = JobSeen(
                job=str(job),
                host=plan.host,
                state="running",
                version=plan.version,
                in_effect=plan.version - behind,
                failed=failed,
                seen=datetime.now(UTC),
            )


def settle(manager: Manager) -> None:
    """Let every reconfiguration prove itself."""
    for each in manager.changes.reconfigurations.under_way():
        if each.reconfiguration.phase is Phase.SWITCHING:
            take(manager.changes.reconfigurations, each.reconfiguration.id, TransitionEvent.BEGUN)
        take(manager.changes.reconfigurations, each.reconfiguration.id, TransitionEvent.PROVEN)


def revert(manager: Manager, *, flow: str) -> None:
    """Let what is under way fail, and its undoing succeed."""
    (under_way,) = manager.changes.reconfigurations.under_way()
    take(manager.changes.reconfigurations, under_way.reconfiguration.id, TransitionEvent.BEGUN)
    fail(manager, flow)
    take(
        manager.changes.reconfigurations,
        under_way.reconfiguration.id,
        TransitionEvent.FAILED,
        why="a task fails since: ValueError: no",
    )
    settle(manager)


def test_the_next_best_plan_takes_effect_once(manager: Manager, taker: FallbackTaker) -> None:
    """As one reconfiguration, in the journal and in the tenant's answer with the reason; later looks do nothing."""
    publish(manager)
    publish(manager, to_kelvin(**KELVINS))
    flow = submit(manager).id
    taker.look()
    assert "to-kelvin@1" == held(manager, flow)
    fail(manager, flow)
    taker.look()
    assert "kelvins@1" == held(manager, flow)
    settle(manager)
    taker.look()
    FallbackTaker(manager.tools).look()
    (reconfiguration,) = manager.service.reconfigurations.page(ANN, flow, Paging()).items
    (given_up,) = detail(manager, flow).given_up
    assert "task p does nothing but fail: ValueError: no" == given_up.reason
    assert ("to-kelvin@1", "p holds kelvins@1", reconfiguration.id) == (
        given_up.module,
        given_up.outcome,
        given_up.reconfiguration,
    )
    notes = [
        each.note
        for each in manager.service.operations.page(OPERATOR, Paging()).items
        if each.kind is OperationKind.REPLAN
    ]
    assert [
        "without 'to-kelvin@1', since to-kelvin@1: task p does nothing but fail: ValueError: no: p holds kelvins@1"
    ] == notes


def test_without_another_plan_everything_stays(manager: Manager, taker: FallbackTaker) -> None:
    """The answer says why, and it is not tried again, by another manager either."""
    publish(manager)
    flow = submit(manager).id
    before = detail(manager, flow)
    fail(manager, flow)
    taker.look()
    taker.look()
    FallbackTaker(manager.tools).look()
    (given_up,) = detail(manager, flow).given_up
    assert given_up.outcome.startswith("everything stays as it is: ")
    assert None is given_up.reconfiguration
    assert (before.document, before.revision) == (detail(manager, flow).document, detail(manager, flow).revision)


def test_what_also_fails_is_given_up_as_well(manager: Manager, taker: FallbackTaker) -> None:
    """A fallback that is undone because it fails makes way for the next one, not for itself again."""
    publish(manager)
    publish(manager, to_kelvin(**KELVINS), to_kelvin(**OTHERS))
    flow = submit(manager).id
    fail(manager, flow)
    taker.look()
    revert(manager, flow=flow)
    assert "to-kelvin@1" == held(manager, flow)
    fail(manager, flow)
    taker.look()
    assert "others@1" == held(manager, flow)
    assert ["to-kelvin@1", "kelvins@1"] == [each.module for each in detail(manager, flow).given_up]
    revert(manager, flow=flow)
    fail(manager, flow)
    taker.look()
    assert "to-kelvin@1" == held(manager, flow)
    assert "others@1" == detail(manager, flow).given_up[-1].module


def test_what_is_being_changed_is_left_alone(manager: Manager, taker: FallbackTaker) -> None:
    """A reconfiguration under way is undone by itself if its tasks fail; nothing is given up meanwhile."""
    publish(manager)
    publish(manager, to_kelvin(**KELVINS))
    flow = submit(manager).id
    publish(manager, to_kelvin(version=2, installed={"type": "map", "config": {"add": 274}}))
    manager.service.pipelines.replan(ANN, flow, ReplanForm())
    fail(manager, flow)
    taker.look()
    assert () == detail(manager, flow).given_up
    settle(manager)
    taker.look()
    assert ["to-kelvin@2"] == [each.module for each in detail(manager, flow).given_up]


def test_a_report_about_an_older_plan_says_nothing(manager: Manager, taker: FallbackTaker) -> None:
    """What failed before the last plan may be well in it."""
    publish(manager)
    publish(manager, to_kelvin(**KELVINS))
    flow = submit(manager).id
    fail(manager, flow, behind=1)
    taker.look()
    assert "to-kelvin@1" == held(manager, flow)


def test_other_failures_change_nothing(manager: Manager, taker: FallbackTaker) -> None:
    """A task that no module fills, and one of a plain dataflow, have no fallback."""
    publish(manager)
    flow = submit(manager, "s:source > p:point > m:map{'add': 1} > k:sink").id
    plain = manager.submit("bob", "s:source > p:map{'add': 7} > k:sink")
    for each, task in ((flow, "m"), (plain, "p")):
        fail(manager, each, task)
        taker.look()
        assert () == detail(manager, each).given_up


def test_each_pipeline_that_shares_a_failing_task_falls_back(manager: Manager, taker: FallbackTaker) -> None:
    """One whose tenant has another module for it gets that; the other keeps what it has."""
    publish(manager)
    publish(manager, to_kelvin(**KELVINS), owner="bob")
    ann = submit(manager).id
    bob = manager.service.dataflows.submit(BOB, raw(LINE, goals=GOAL, given=GIVEN)).id
    fail(manager, ann)
    taker.look()
    assert ("to-kelvin@1", "kelvins@1") == (held(manager, ann), held(manager, bob))
    assert [1, 1] == [len(detail(manager, each).given_up) for each in (ann, bob)]


def test_a_pipeline_that_follows_does_not_go_back(manager: Manager, taker: FallbackTaker) -> None:
    """It takes another version of what failed, once that is published, but never the one that failed."""
    publish(manager)
    flow = submit(manager, follow=True, prefer=["cost"]).id
    fail(manager, flow)
    taker.look()
    assert "to-kelvin@1" == held(manager, flow)
    follower = PipelineFollower(manager.tools)
    publish(manager, to_kelvin(version=2, installed={"type": "map", "config": {"add": 274}}))
    follower.look()
    settle(manager)
    assert "to-kelvin@2" == held(manager, flow)
    manager.service.modules.deprecate(OPERATOR, "to-kelvin", 2)
    PipelineFollower(manager.tools).look()
    assert "to-kelvin@2" == held(manager, flow)


def test_another_pipeline_begins_afresh(manager: Manager, taker: FallbackTaker) -> None:
    """What was given up in the goals before says nothing about those that replace them."""
    publish(manager)
    flow = submit(manager).id
    fail(manager, flow)
    taker.look()
    assert detail(manager, flow).given_up
    manager.service.dataflows.replace(ANN, flow, raw(LINE, goals=[*GOAL, *GOAL], given=GIVEN))
    assert () == detail(manager, flow).given_up


def test_what_was_given_up_outlives_a_reconfiguration_by_hand(manager: Manager, taker: FallbackTaker) -> None:
    """Another config of another task leaves the pipeline as it is, and what is known of it."""
    publish(manager)
    flow = submit(manager, "s:source > p:point > m:map{'add': 1} > k:sink").id
    fail(manager, flow)
    taker.look()
    manager.service.reconfigurations.begin(ANN, flow, ReconfigurationForm(tasks={"m": {"config": {"add": 2}}}))
    assert ["to-kelvin@1"] == [each.module for each in detail(manager, flow).given_up]


def test_a_busy_pipeline_is_seen_to_later(manager: Manager, taker: FallbackTaker) -> None:
    """A change that is refused for the moment is no failed one: the next look makes it."""
    publish(manager)
    publish(manager, to_kelvin(**KELVINS))
    flow = submit(manager).id
    fail(manager, flow)
    hosts, manager.hosts = manager.hosts, ()
    taker.look()
    manager.hosts = hosts
    taker.look()
    assert "kelvins@1" == held(manager, flow)
    assert 1 == len(detail(manager, flow).given_up)


def test_an_explanation_says_what_would_happen_if_a_module_failed(manager: Manager, taker: FallbackTaker) -> None:
    """For each module what would take its place, or why nothing would; and a failure then does just that."""
    publish(manager)
    publish(manager, to_kelvin(**KELVINS))
    line, goals = "s:source > p:point > q:point{'modules': ['clean']} > k:sink", [*GOAL, {"holds": {"clean": True}}]
    plan = manager.service.dataflows.explain(ANN, raw(line, goals=goals, given=GIVEN)).plan
    assert plan is not None
    clean, kelvin = plan.fallbacks
    assert ("clean@1", "to-kelvin@1") == (clean.module, kelvin.module)
    assert [("p", "kelvins@1")] == [(each.id, each.module) for each in kelvin.places]
    flow = submit(manager, line, goals=goals).id
    assert (clean, kelvin) == manager.service.pipelines.replan(ANN, flow, ReplanForm(), dry_run=True).plan.fallbacks
    fail(manager, flow)
    taker.look()
    assert "kelvins@1" == held(manager, flow)
    settle(manager)
    fail(manager, flow, "q")
    taker.look()
    assert ((), "no choice of modules reaches all goals") == (clean.places, clean.no_plan)
    assert detail(manager, flow).given_up[-1].outcome.startswith("everything stays as it is: there is no plan")


ADDING = "s:source > a:map{'add': 1} > k:sink"
"""It depends on the field `value`."""
WEATHER = "ann:weather"
MORE = {**FIELDS, "depth": Kind.FLOAT}
LESS = {"place": Kind.STRING}


def declare(manager: Manager, fields: dict[str, Kind], **more: Any) -> Any:
    return manager.service.sources.declare(ANN, "weather", SchemaForm.model_validate({"schema": fields}), **more)


def ingress(manager: Manager) -> list[Ingress]:
    """What enters by the newest plans."""
    with manager.committer.looking() as state:
        return [each for plan in state.plans.values() for each in plan.ingress]


def declared(manager: Manager) -> list[set[str]]:
    """The fields that each ingress declares."""
    return [set(each.supply.fields) for each in ingress(manager) if isinstance(each.supply, Subscribed)]


def test_what_runs_keeps_the_schema_that_it_was_submitted_with(manager: Manager) -> None:
    """Its tasks stay, and its next plan reads as the one before; what is submitted afterwards reads by the new one."""
    before = manager.submit("ann", ADDING)
    known = manager.service.dataflows.get(ANN, before).tasks
    answer = declare(manager, MORE)
    assert (MORE, 1, ()) == (answer.source.fields, answer.going_on, answer.dependent)
    assert known == manager.service.dataflows.get(ANN, before).tasks
    after = manager.service.dataflows.get(ANN, manager.submit("ann", ADDING)).tasks
    assert not {each.instance for each in known} & {each.instance for each in after}
    assert sorted(map(sorted, declared(manager))) == sorted([sorted(FIELDS), sorted(MORE)])
    assert 1 == len({each.stream for each in ingress(manager)})
    manager.service.reconfigurations.begin(ANN, before, ReconfigurationForm(tasks={"a": {"config": {"add": 2}}}))
    assert sorted(map(sorted, declared(manager))) == sorted([sorted(FIELDS), sorted(MORE)])
    assert known[0].instance == manager.service.dataflows.get(ANN, before).tasks[0].instance


def test_the_next_manager_knows_it_too(manager: Manager) -> None:
    """The source has the new schema, and what runs the one before."""
    manager.submit("ann", ADDING)
    declare(manager, MORE)
    other = Manager(manager.url, "two").lead()
    assert MORE == other.service.sources.get(ANN, "weather").fields
    other.submit("ann", "s:source > a:map{'add': 3} > k:sink")
    assert {frozenset(FIELDS), frozenset(MORE)} == set(map(frozenset, declared(other)))
    other.close()


def test_what_depends_on_a_field_that_goes_is_named(manager: Manager) -> None:
    """With its place; a preview changes nothing, and others' dataflows are counted and not named."""
    reads = manager.submit("ann", ADDING)
    manager.submit("ann", "s:source > k:sink")
    manager.submit("bob", ADDING)
    for dry_run in (True, False):
        answer = declare(manager, LESS, dry_run=dry_run)
        assert ([reads], 3) == ([each.dataflow for each in answer.dependent], answer.going_on)
        assert ("/tasks/1: the events that reach port 'in' have no field 'value'",) == answer.dependent[0].why
        assert (FIELDS if dry_run else LESS) == manager.service.sources.get(ANN, "weather").fields
    with pytest.raises(InvalidDataflow):
        manager.submit("ann", ADDING)
    kinds = [each.kind for each in manager.service.operations.page(OPERATOR, Paging()).items]
    assert 1 == kinds.count(OperationKind.CHANGE_SOURCE)


def test_only_its_owner_changes_a_schema(manager: Manager) -> None:
    """And only where events are published by it: what generates events has its own."""
    form = SchemaForm.model_validate({"schema": MORE})
    with pytest.raises((Forbidden, NotFound)):
        manager.service.sources.declare(BOB, WEATHER, form)
    made = SourceForm.model_validate({"name": "ticks", "connection": {"kind": "timer", "seconds": 1.0}})
    manager.service.sources.register(ANN, made)
    with pytest.raises(Conflict, match="generates"):
        manager.service.sources.declare(ANN, "ticks", form)


def look(follower: PipelineFollower) -> None:
    """Have it look now, however soon after the last look that is."""
    follower._next = 0.0
    follower.look()


def test_a_pipeline_that_follows_is_planned_anew(manager: Manager) -> None:
    """Its module reads a field that goes, so another takes its place; one that does not follow stays as it is."""
    publish(manager)
    publish(manager, to_kelvin(name="swift", require={}, ensure={"clean": True}, cost=0.01))
    clean = [{"holds": {"clean": True}}]
    follows, stays = (submit(manager, goals=clean, given={}, follow=each).id for each in (True, False))
    follower = PipelineFollower(manager.tools)
    for _ in range(2):
        look(follower)
    assert ["swift@1", "swift@1"] == [held(manager, each) for each in (follows, stays)]
    assert {follows, stays} == {each.dataflow for each in declare(manager, LESS).dependent}
    look(follower)
    assert ["wipe@1", "swift@1"] == [held(manager, each) for each in (follows, stays)]
    assert {frozenset(FIELDS), frozenset(LESS)} == set(map(frozenset, declared(manager)))


def test_one_that_cannot_be_planned_says_why(manager: Manager) -> None:
    """It stays as it is, with the reason in its answer until it can be planned again."""
    wanted = [{"at": "a", "fields": {"value": "integer"}}]
    flow = submit(manager, "s:source > a:map{'add': 1} > k:sink", follow=True, goals=wanted, given={}).id
    follower = PipelineFollower(manager.tools)
    look(follower)
    before = manager.service.dataflows.get(ANN, flow)
    assert "" == before.unplanned
    declare(manager, LESS)
    look(follower)
    found = manager.service.dataflows.get(ANN, flow)
    assert (before.document, before.revision) == (found.document, found.revision)
    assert "the goal /goals/0 cannot hold" in found.unplanned
    declare(manager, FIELDS)
    look(follower)
    assert "" == manager.service.dataflows.get(ANN, flow).unplanned


def test_a_plan_by_the_new_schema_replaces_the_document(manager: Manager) -> None:
    """States are those of events with other fields, so its tasks begin anew; without another plan nothing changes."""
    publish(manager)
    flow = submit(manager).id
    declare(manager, MORE)
    assert ReplanKind.NOTHING is manager.service.pipelines.replan(ANN, flow, ReplanForm()).how
    publish(manager, to_kelvin(version=2, installed={"type": "map", "config": {"add": 274}}))
    assert ReplanKind.REPLACEMENT is manager.service.pipelines.replan(ANN, flow, ReplanForm()).how
    assert [set(MORE)] == declared(manager)
    assert ("to-kelvin@2", 2) == (held(manager, flow), manager.service.dataflows.get(ANN, flow).revision)
