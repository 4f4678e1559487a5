"""Pipelines and bundles: planned when they are submitted, explained, and planned again while they run."""

import json
from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import select

from braid_client.answers.overview import OperationKind
from braid_client.answers.pipelines import ReplanForm, ReplanKind
from braid_client.answers.tenants import Quota
from dags.vocabulary import Criterion
from manager.kernel.transitions import TransitionEvent
from manager.pipelines.upkeep import PipelineFollower
from manager.problem import Conflict, InvalidDataflow, InvalidRequest, NotFound, QuotaExceeded
from manager.store.tables import ModuleRow
from manager.use_case import Paging
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, take
from tests.manager.managers import raw as plain
from tests.manager.pipelines.sent_pipelines import GIVEN, GOAL, KELVINS, LINE, fillings, publish, raw, submit, to_kelvin
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


CLEAN = [{"holds": {"clean": True}}]
SHORT, LONGER = plain("s:source > k:sink"), plain("s:source > a:map > k:sink")


def bundle(*documents: bytes) -> bytes:
    """A bundle as it is sent."""
    return b'{"documents": [%b]}' % b", ".join(documents)


def naming(*modules: str) -> bytes:
    """A pipeline whose place names some modules that clean."""
    return raw(f"s:source > p:point{{'modules': {list(modules)}}} > k:sink", goals=CLEAN)


def held(answers: Any) -> list[str]:
    """The module of each planned document's place."""
    return [each.plan.places[0].module for each in answers if each.plan is not None]


def running(manager: Manager) -> list[str]:
    return [each.id for each in manager.service.dataflows.page(OPERATOR, Paging()).items]


def test_documents_are_planned_for_what_they_start_in_all(manager: Manager) -> None:
    """Alone, the first of two takes the cheaper module; together they take the only one that both may share."""
    publish(manager)
    both = [naming("wipe", "clean"), naming("clean")]
    assert ["wipe@1", "clean@1"] == held([manager.service.dataflows.explain(ANN, each) for each in both])
    explained = manager.service.bundles.explain(ANN, bundle(*both))
    assert (["clean@1", "clean@1"], 3) == (held(explained.documents), explained.started)
    assert [] == running(manager)
    answer = manager.service.bundles.submit(ANN, bundle(*both))
    assert ["clean@1", "clean@1"] == held(answer.dataflows)
    first, second = answer.dataflows
    assert {task.instance for task in first.started} == {task.instance for task in second.reused}
    assert [first.id, second.id] == running(manager)
    with manager.committer.looking() as state:
        assert 3 == len(state.running.tasks)


def test_a_plain_document_beside_it_is_shared_too(manager: Manager) -> None:
    """A pipeline of a bundle is planned for the plain documents that come with it, in any order."""
    publish(manager)
    cleans = plain("s:source > a:lab:clean > k:sink")
    answer = manager.service.bundles.submit(ANN, bundle(naming("wipe", "clean"), cleans))
    assert ["clean@1"] == held(answer.dataflows)
    assert None is manager.service.dataflows.get(ANN, answer.dataflows[1].id).pipeline


def test_another_manager_loads_what_a_bundle_has_made(manager: Manager) -> None:
    """The rows say what the memory says: tasks, jobs and plans."""
    manager.service.bundles.submit(ANN, bundle(LONGER, SHORT))
    with manager.committer.looking() as state:
        tasks, plans = set(state.running.tasks), dict(state.plans)
    other = Manager(manager.url, "two", strategy="launch").lead()
    with other.committer.looking() as state:
        assert (tasks, plans) == (set(state.running.tasks), state.plans)
    other.close()


def test_all_are_submitted_or_none(manager: Manager) -> None:
    """Every problem names its document, of plain ones and of those without a plan; nothing runs."""
    publish(manager)
    wrong = json.loads(LONGER)
    wrong["tasks"][1]["type"] = "nonsense"
    hopeless = raw(LINE, goals=[*GOAL, *CLEAN], given=GIVEN)
    cases = {
        "/documents/1/tasks/1/type": bundle(SHORT, json.dumps(wrong).encode()),
        "/documents/1/goals/0": bundle(SHORT, hopeless, naming("wipe")),
        "/documents/2": bundle(SHORT, SHORT, b"17"),
    }
    for place, sent in cases.items():
        for ask in (manager.service.bundles.submit, manager.service.bundles.explain):
            with pytest.raises(InvalidDataflow) as refused:
                ask(ANN, sent)
            assert place in {each.pointer for each in refused.value.errors}
    assert [] == running(manager)


def test_what_a_quota_cannot_take_none_of_it_is_taken(manager: Manager) -> None:
    """Dataflows, tasks and submissions a minute count as if each came alone."""
    for dataflows, tasks, submits in ((1, 9, 9), (9, 4, 9), (9, 9, 1)):
        wanted = Quota(dataflows=dataflows, tasks=tasks, submits_per_minute=submits)
        manager.service.administration.set_quota(OPERATOR, "ann", wanted)
        with pytest.raises(QuotaExceeded):
            manager.service.bundles.submit(ANN, bundle(SHORT, LONGER))
        assert [] == running(manager)
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(dataflows=9, tasks=5, submits_per_minute=2))
    manager.service.bundles.submit(ANN, bundle(SHORT, LONGER))
    with pytest.raises(QuotaExceeded, match="2 times a minute"):
        manager.service.dataflows.submit(ANN, SHORT)


def test_a_bundle_is_submitted_once_under_a_key(manager: Manager) -> None:
    """The same key and bundle get the same dataflows; another is refused, and each tenant has keys of its own."""
    two = bundle(SHORT, LONGER)
    first, again = (manager.service.bundles.submit(ANN, two, idempotency_key="one") for _ in range(2))
    assert [each.id for each in first.dataflows] == [each.id for each in again.dataflows]
    with pytest.raises(Conflict, match="another bundle"):
        manager.service.bundles.submit(ANN, bundle(SHORT), idempotency_key="one")
    manager.service.bundles.submit(BOB, two, idempotency_key="one")
    assert 4 == len(running(manager))


def test_the_journal_has_each_document(manager: Manager) -> None:
    """With what it started and reused, of the others of its bundle too."""
    manager.service.bundles.submit(ANN, bundle(SHORT, LONGER))
    entries = manager.service.operations.page(OPERATOR, Paging()).items
    submits = [(each.started, each.reused) for each in entries if each.kind is OperationKind.SUBMIT]
    assert [(2, 0), (2, 1)] == sorted(submits)


@pytest.mark.parametrize(
    "sent", [b"[]", b"{", b'{"documents": []}', b'{"documents": {}}', b'{"other": []}', b"[" * 9_999, b"\xff"]
)
def test_what_is_no_bundle_is_refused(manager: Manager, sent: bytes) -> None:
    """With the form that it should have."""
    with pytest.raises(InvalidRequest):
        manager.service.bundles.submit(ANN, sent)
