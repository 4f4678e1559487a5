"""Schemas of sources that change: what runs keeps the one before, and pipelines that follow are planned anew."""

from typing import Any

import pytest

from dags import Kind
from engine.plan import Ingress, Subscribed
from manager.answers.overview import OperationKind
from manager.answers.pipelines import ReplanForm, ReplanKind
from manager.answers.reconfigurations import ReconfigurationForm
from manager.answers.sources import SchemaForm, SourceForm
from manager.pipelines.upkeep import PipelineFollower
from manager.problem import Conflict, Forbidden, InvalidDataflow, NotFound
from manager.use_case import Paging
from tests.manager.cases.sent_pipelines import ANN, BOB, held, publish, submit, to_kelvin
from tests.manager.managers import FIELDS, OPERATOR, Manager

LINE = "s:source > a:map{'add': 1} > k:sink"
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
    before = manager.submit("ann", LINE)
    known = manager.service.dataflows.get(ANN, before).tasks
    answer = declare(manager, MORE)
    assert (MORE, 1, ()) == (answer.source.fields, answer.going_on, answer.dependent)
    assert known == manager.service.dataflows.get(ANN, before).tasks
    after = manager.service.dataflows.get(ANN, manager.submit("ann", LINE)).tasks
    assert not {each.instance for each in known} & {each.instance for each in after}
    assert sorted(map(sorted, declared(manager))) == sorted([sorted(FIELDS), sorted(MORE)])
    assert 1 == len({each.stream for each in ingress(manager)})
    manager.service.reconfigurations.begin(ANN, before, ReconfigurationForm(tasks={"a": {"config": {"add": 2}}}))
    assert sorted(map(sorted, declared(manager))) == sorted([sorted(FIELDS), sorted(MORE)])
    assert known[0].instance == manager.service.dataflows.get(ANN, before).tasks[0].instance


def test_the_next_manager_knows_it_too(manager: Manager) -> None:
    """The source has the new schema, and what runs the one before."""
    manager.submit("ann", LINE)
    declare(manager, MORE)
    other = Manager(manager.url, "two").lead()
    assert MORE == other.service.sources.get(ANN, "weather").fields
    other.submit("ann", "s:source > a:map{'add': 3} > k:sink")
    assert {frozenset(FIELDS), frozenset(MORE)} == set(map(frozenset, declared(other)))
    other.close()


def test_what_depends_on_a_field_that_goes_is_named(manager: Manager) -> None:
    """With its place; a preview changes nothing, and others' dataflows are counted and not named."""
    reads = manager.submit("ann", LINE)
    manager.submit("ann", "s:source > k:sink")
    manager.submit("bob", LINE)
    for dry_run in (True, False):
        answer = declare(manager, LESS, dry_run=dry_run)
        assert ([reads], 3) == ([each.dataflow for each in answer.dependent], answer.going_on)
        assert ("/tasks/1: the events that reach port 'in' have no field 'value'",) == answer.dependent[0].why
        assert (FIELDS if dry_run else LESS) == manager.service.sources.get(ANN, "weather").fields
    with pytest.raises(InvalidDataflow):
        manager.submit("ann", LINE)
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
