"""Pipelines: planned when they are submitted, explained, and planned anew while they run."""

import json
from dataclasses import replace

import pytest
from sqlmodel import select

from manager.answers.pipelines import ReplanForm, ReplanKind
from manager.answers.tenants import Quota
from manager.kernel.transitions import TransitionEvent
from manager.pipelines.upkeep import PipelineFollower
from manager.problem import Conflict, InvalidDataflow, NotFound, QuotaExceeded
from manager.store.tables import ModuleRow
from manager.use_case import Paging
from planning.problem import Criterion
from tests.manager.cases.sent_pipelines import (
    ANN,
    BOB,
    GIVEN,
    GOAL,
    KELVINS,
    LINE,
    fillings,
    publish,
    raw,
    submit,
    to_kelvin,
)
from tests.manager.managers import OPERATOR, Manager, take
from tests.planning.pipelines.open_places import MODULES


def test_a_pipeline_is_planned_and_runs(manager: Manager) -> None:
    """What runs is the plain document of the plan; the pipeline is kept beside it."""
    publish(manager)
    answer = submit(manager)
    assert {"p": "to-kelvin@1"} == fillings(answer)
    found = manager.service.dataflows.get(ANN, answer.id)
    assert found.pipeline == json.loads(raw(LINE, goals=GOAL, given=GIVEN))
    assert ["source", "map", "sink"] == [each["type"] for each in found.document["tasks"]]
    assert [("/goals/0", ("p",))] == [(each.goal, each.rests_on) for each in answer.plan.goals] if answer.plan else ()


def test_an_explanation_shows_what_would_do_as_well(manager: Manager) -> None:
    """Alternatives with the same figures, and what each goal rests on; nothing is submitted."""
    publish(manager)
    twin = to_kelvin(name="kelvins")
    publish(manager, twin)
    answer = manager.service.dataflows.explain(ANN, raw(LINE, goals=GOAL, given=GIVEN))
    assert answer.plan is not None
    (place,) = answer.plan.places
    assert {"kelvins@1", "to-kelvin@1"} == {place.module, *place.alternatives}
    assert not manager.service.dataflows.page(ANN, Paging()).items


def test_of_two_plans_the_one_that_shares_more_is_chosen(manager: Manager) -> None:
    """Bob's dataflow runs the costlier module, so Ann's pipeline uses it too."""
    publish(manager)
    manager.submit("bob", "s:source > a:lab:clean > k:sink")
    clean = [{"holds": {"clean": True}}]
    answer = submit(manager, goals=clean, given={})
    assert {"p": "clean@1"} == fillings(answer)
    assert {"s", "p", "k"} == {task.id for task in answer.reused}


def test_a_tenants_modules_are_its_own(manager: Manager) -> None:
    """Another's pipeline does not know them."""
    publish(manager, to_kelvin(), owner="bob")
    with pytest.raises(InvalidDataflow):
        submit(manager)
    assert {"p": "to-kelvin@1"} == fillings(manager.service.dataflows.submit(BOB, raw(LINE, goals=GOAL, given=GIVEN)))


def test_a_new_version_takes_effect_as_one_reconfiguration(manager: Manager) -> None:
    """A plan made anew takes the newest version, in place; a preview changes nothing."""
    publish(manager)
    flow = submit(manager).id
    publish(manager, to_kelvin() | {"version": 2, "installed": {"type": "map", "config": {"add": 274}}})
    preview = manager.service.pipelines.replan(ANN, flow, ReplanForm(), dry_run=True)
    assert (ReplanKind.RECONFIGURATION, ("p",)) == (preview.how, preview.changed)
    assert "to-kelvin@1" == manager.service.dataflows.get(ANN, flow).document["tasks"][1]["module"]
    answer = manager.service.pipelines.replan(ANN, flow, ReplanForm())
    assert answer.reconfiguration is not None
    assert (
        ["p"] == [each.task for each in answer.reconfiguration.scope.tasks if each.changed]
        if answer.reconfiguration.scope
        else ()
    )
    found = manager.service.dataflows.get(ANN, flow).document["tasks"][1]
    assert ("to-kelvin@2", {"add": 274}) == (found["module"], found["config"])
    assert ReplanKind.NOTHING is manager.service.pipelines.replan(ANN, flow, ReplanForm()).how


def instances(manager: Manager, flow: str) -> dict[str, int]:
    """The instance of each task."""
    return {each.id: each.instance for each in manager.service.dataflows.get(ANN, flow).tasks}


def proven(manager: Manager) -> None:
    """Have all jobs run what was changed."""
    for each in manager.changes.reconfigurations.under_way():
        take(manager.changes.reconfigurations, each.reconfiguration.id, TransitionEvent.BEGUN)
        take(manager.changes.reconfigurations, each.reconfiguration.id, TransitionEvent.PROVEN)


def test_a_place_begins_and_ceases_to_hold_something(manager: Manager) -> None:
    """Each time as one reconfiguration, in which all other tasks stay as they are; a preview changes nothing."""
    publish(manager)
    text = "s:source > p:point > c:count > g:gap{'most': 2} > k:sink"
    flow = submit(manager, text, goals=[], given=GIVEN).id
    before = instances(manager, flow)
    assert {"s", "c", "k"} == set(before)
    clean = [*GOAL, {"holds": {"clean": True}}]
    for goals, held in ((GOAL, 1), (clean, 2), (GOAL, 1), ([], 0)):
        wanted = ReplanForm(
            pipeline=json.loads(raw(text, goals=goals, given=GIVEN)), prefer=(Criterion.NO_OPS, Criterion.CHANGES)
        )
        as_it_is = manager.service.dataflows.get(ANN, flow)
        preview = manager.service.pipelines.replan(ANN, flow, wanted, dry_run=True)
        assert as_it_is == manager.service.dataflows.get(ANN, flow)
        answer = manager.service.pipelines.replan(ANN, flow, wanted)
        assert ReplanKind.RECONFIGURATION is preview.how is answer.how
        assert preview.reconfiguration is not None
        assert answer.reconfiguration is not None
        assert preview.reconfiguration.scope == answer.reconfiguration.scope
        proven(manager)
        now = instances(manager, flow)
        assert before.items() <= now.items()
        assert held == len(now) - len(before)


def test_a_state_that_does_not_go_with_the_events_from_then_on_is_dropped(manager: Manager) -> None:
    """A replacement would drop all of them; the answer says which one it is."""
    form = json.loads(MODULES[4].form.model_dump_json(exclude_unset=True))
    publish(manager, form | {"require": {}, "ensure": {"clean": True}})
    flow = submit(manager, "s:source > p:point > c:count > d:window > k:sink", goals=[], given={}).id
    wanted = raw("s:source > p:point > c:count > d:window > k:sink", goals=[{"holds": {"clean": True}}])
    answer = manager.service.pipelines.replan(ANN, flow, ReplanForm(pipeline=json.loads(wanted)))
    assert answer.reconfiguration is not None
    assert answer.reconfiguration.scope is not None
    assert "fresh" in {each.state for each in answer.reconfiguration.scope.tasks if each.task in {"c", "d"}}


def test_what_cannot_be_reconfigured_is_replaced(manager: Manager) -> None:
    """A module that the host of the job cannot run is placed anew; the answer says why, and so does the preview."""
    north = manager.hosts[0]
    manager.hosts = (replace(north, tags=frozenset()), replace(north, name="south", cores=1.0))
    form = json.loads(MODULES[0].form.model_dump_json(exclude_unset=True))
    publish(manager, form | {"installed": {"type": "gpu"}})
    flow = submit(manager, goals=[]).id
    wanted = ReplanForm(pipeline=json.loads(raw(LINE, goals=GOAL, given=GIVEN)))
    for dry_run in (True, False):
        answer = manager.service.pipelines.replan(ANN, flow, wanted, dry_run=dry_run)
        assert (ReplanKind.REPLACEMENT, None) == (answer.how, answer.reconfiguration)
        assert "needs a host that offers 'gpu'" in answer.why
    assert {"s", "p", "k"} == set(instances(manager, flow))


def test_another_pipeline_replaces_the_document(manager: Manager) -> None:
    """If tasks are fed otherwise than by what places hold, there is no reconfiguration that does it."""
    publish(manager)
    flow = submit(manager).id
    wanted = json.loads(raw("s:source > p:point > k:sink s > l:sink", goals=[{"at": "p", **GOAL[0]}], given=GIVEN))
    answer = manager.service.pipelines.replan(ANN, flow, ReplanForm(pipeline=wanted))
    assert (ReplanKind.REPLACEMENT, "the task 'l' is new or gone, and not between tasks that stay") == (
        answer.how,
        answer.why,
    )


def test_a_goal_may_change_while_the_pipeline_runs(manager: Manager) -> None:
    """A place begins to hold something; the goals are kept with it."""
    publish(manager)
    flow = submit(manager, "s:source > p:point > q:point > k:sink").id
    wanted = json.loads(
        raw("s:source > p:point > q:point > k:sink", goals=[*GOAL, {"holds": {"clean": True}}], given=GIVEN)
    )
    answer = manager.service.pipelines.replan(ANN, flow, ReplanForm(pipeline=wanted))
    assert ReplanKind.RECONFIGURATION is answer.how
    assert {"to-kelvin@1", "wipe@1"} == set(fillings(answer).values())
    found = manager.service.dataflows.get(ANN, flow)
    assert (wanted, 2) == (found.pipeline, found.revision)
    relaxed = wanted | {"goals": []}
    assert ReplanKind.NOTHING is manager.service.pipelines.replan(ANN, flow, ReplanForm(pipeline=relaxed)).how
    assert relaxed == manager.service.dataflows.get(ANN, flow).pipeline


def test_without_a_plan_everything_stays(manager: Manager) -> None:
    """The refusal says which goal cannot hold; the dataflow runs on as it was."""
    publish(manager)
    flow = submit(manager).id
    before = manager.service.dataflows.get(ANN, flow)
    wanted = json.loads(raw(LINE, goals=[*GOAL, {"holds": {"clean": True}}], given=GIVEN))
    with pytest.raises(InvalidDataflow) as refused:
        manager.service.pipelines.replan(ANN, flow, ReplanForm(pipeline=wanted))
    assert {"no-plan"} == {each.code for each in refused.value.errors}
    assert before == manager.service.dataflows.get(ANN, flow)


def test_what_is_preferred_may_change(manager: Manager) -> None:
    """Fewest changes keep the module; cost first takes the cheaper one that came since."""
    publish(manager)
    flow = submit(manager).id
    publish(manager, to_kelvin() | {"name": "cheap-kelvin", "cost": 0.01})
    assert {"p": "to-kelvin@1"} == fillings(manager.service.pipelines.replan(ANN, flow, ReplanForm()))
    cheap = manager.service.pipelines.replan(ANN, flow, ReplanForm(prefer=(Criterion.COST,)))
    assert {"p": "cheap-kelvin@1"} == fillings(cheap)


def test_the_next_best_plan_does_without_a_module(manager: Manager) -> None:
    """By its name or its version; without any that would do, nothing changes."""
    publish(manager)
    publish(manager, to_kelvin(**KELVINS))
    flow = submit(manager).id
    for name in ("to-kelvin", "to-kelvin@1"):
        answer = manager.service.pipelines.replan(ANN, flow, ReplanForm(without=(name,)), dry_run=True)
        assert {"p": "kelvins@1"} == fillings(answer)
    assert {"p": "to-kelvin@1"} == fillings(
        manager.service.pipelines.replan(ANN, flow, ReplanForm(without=("to-kelvin@2",)), dry_run=True)
    )
    with pytest.raises(InvalidDataflow):
        manager.service.pipelines.replan(ANN, flow, ReplanForm(without=("to-kelvin", "kelvins")))


def test_a_place_that_names_a_module_may_do_without_it(manager: Manager) -> None:
    """Another of those that it names takes its place. What is left out counts as known, and so do its variables."""
    publish(manager)
    publish(manager, to_kelvin(**KELVINS))
    flow = submit(manager, "s:source > p:point{'modules': ['to-kelvin', 'kelvins']} > k:sink").id
    answer = manager.service.pipelines.replan(ANN, flow, ReplanForm(without=("to-kelvin",)), dry_run=True)
    assert {"p": "kelvins@1"} == fillings(answer)
    with pytest.raises(InvalidDataflow) as refused:
        manager.service.pipelines.replan(ANN, flow, ReplanForm(without=("to-kelvin", "kelvins")), dry_run=True)
    assert {"no-plan"} == {each.code for each in refused.value.errors}


def test_a_refused_change_leaves_the_goals_as_they_are(manager: Manager) -> None:
    """What cannot begin now is not half done: the pipeline is the one that was planned."""
    publish(manager)
    flow = submit(manager).id
    publish(manager, to_kelvin() | {"version": 2, "installed": {"type": "map", "config": {"add": 274}}})
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(dataflows=9, tasks=99, submits_per_minute=0))
    before = manager.service.dataflows.get(ANN, flow)
    wanted = json.loads(raw(LINE, goals=[*GOAL, *GOAL], given=GIVEN))
    with pytest.raises(QuotaExceeded):
        manager.service.pipelines.replan(ANN, flow, ReplanForm(pipeline=wanted))
    assert before == manager.service.dataflows.get(ANN, flow)


@pytest.mark.parametrize(
    "text", [b'{"goals": ', b'{"goals": ' + b"[" * 100_000, b'"goals"', b'{"goals": 1}', b'\xff"point"']
)
def test_what_is_no_pipeline_is_refused_with_its_problems(manager: Manager, text: bytes) -> None:
    """However it is broken, it is answered as any document."""
    with pytest.raises(InvalidDataflow) as refused:
        manager.service.dataflows.submit(ANN, text)
    assert refused.value.errors


def test_only_its_tenant_plans_a_pipeline_anew(manager: Manager) -> None:
    """To others it does not exist; a plain dataflow has no places."""
    publish(manager)
    flow = submit(manager).id
    with pytest.raises(NotFound):
        manager.service.pipelines.replan(BOB, flow, ReplanForm())
    with pytest.raises(Conflict, match="no open places"):
        manager.service.pipelines.replan(ANN, manager.submit("ann", "s:source > k:sink"), ReplanForm())


def test_a_pipeline_is_submitted_once_under_a_key(manager: Manager) -> None:
    """The same key and pipeline get the same dataflow, though a newer module or none at all would be planned now."""
    publish(manager)
    sent = raw(LINE, goals=GOAL, given=GIVEN)
    first = manager.service.dataflows.submit(ANN, sent, idempotency_key="one").id
    publish(manager, to_kelvin() | {"version": 2, "installed": {"type": "map", "config": {"add": 274}}})
    assert first == manager.service.dataflows.submit(ANN, sent, idempotency_key="one").id
    with manager.store.write() as session:
        for row in session.exec(select(ModuleRow)):
            session.delete(row)
    assert first == manager.service.dataflows.submit(ANN, sent, idempotency_key="one").id
    with pytest.raises(InvalidDataflow):
        manager.service.dataflows.submit(ANN, sent, idempotency_key="two")


def test_a_pipeline_follows_its_modules_if_it_asks_for_it(manager: Manager) -> None:
    """Of several, one at a look. A pipeline that does not ask stays as it is, and so does one without a plan."""
    publish(manager)
    follows, stays = submit(manager, follow=True).id, submit(manager, "s:source > q:point > k:sink").id
    lost = submit(manager, "s:source > r:point{'modules': ['to-kelvin']} > k:sink", follow=True).id
    follower = PipelineFollower(manager.tools)
    publish(manager, to_kelvin() | {"version": 2, "require": {"unit": "kelvin"}})
    publish(manager, to_kelvin() | {"name": "kelvins", "installed": {"type": "map", "config": {"add": 274}}})
    for _ in range(3):
        follower.look()
    proven(manager)
    assert ["kelvins@1", "to-kelvin@1", "to-kelvin@1"] == [
        manager.service.dataflows.get(ANN, each).document["tasks"][1]["module"] for each in (follows, stays, lost)
    ]
