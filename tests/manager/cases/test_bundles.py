"""Bundles: documents submitted together, all or none, planned so that they share most."""

import json
from typing import Any

import pytest

from manager.answers.overview import OperationKind
from manager.answers.tenants import Quota
from manager.problem import Conflict, InvalidDataflow, InvalidRequest, QuotaExceeded
from manager.use_case import Paging
from tests.manager.cases.sent_pipelines import ANN, BOB, GIVEN, GOAL, LINE, publish, raw
from tests.manager.managers import OPERATOR, Manager
from tests.manager.managers import raw as plain

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
