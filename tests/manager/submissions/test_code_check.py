"""Code: a tenant runs what was published, and not what its document claims."""

import json
from collections.abc import Iterator

import pytest

from dags import Catalogue
from engine.code.store import digest_of
from engine.tasks import TYPES
from manager.answers.dataflows import Stop
from manager.answers.reconfigurations import ReconfigurationForm
from manager.answers.sources import SourceForm
from manager.answers.tenants import PublishingForm
from manager.documents.canonical import modules_of
from manager.problem import InvalidDataflow
from tests.manager.managers import OPERATOR, Manager, caller

ANN, BOB = caller("ann"), caller("bob")
SOURCE = "def process(event):\n    return event\n\ndef other(event):\n    return None\n"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    made = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
    made.admit("ann", "bob")
    for who in (ANN, BOB):
        form = {"name": "street", "connection": {"kind": "topic", "topic": f"{who.tenant}/street"}, "schema": {}}
        made.service.sources.register(who, SourceForm.model_validate(form))
    yield made
    made.close()


def publish(manager: Manager, who: str) -> None:
    """Have a tenant publish the source."""
    manager.service.administration.set_publishing(OPERATOR, who, PublishingForm(code=True))
    form = {"name": "script", "version": 1, "shape": "filter", "code": {"source": SOURCE}}
    manager.service.modules.publish(caller(who), json.dumps(form).encode())


def runs(manager: Manager, who: str, *, owner: str = "ann", entry: str = "process") -> bool:
    """Whether a tenant's document may run the source, as it says."""
    config = f"{{'digest': '{digest_of(SOURCE)}', 'entry': '{entry}', 'owner': '{owner}'}}"
    try:
        manager.submit(who, f"s:source{{'source': 'street'}} > c:code{config} > k:output")
    except InvalidDataflow as refused:
        (problem,) = refused.errors
        assert ("/tasks/1/config", "code-not-published") == (problem.pointer, problem.code)
        return False
    return True


def test_nobody_runs_what_was_not_published(manager: Manager) -> None:
    """No matter whom a document names as its owner: least of all an operator, whose code would be vouched for."""
    assert [False] * 2 == [runs(manager, "ann"), runs(manager, "ann", owner="")]


def test_a_tenant_runs_what_it_published_as_it_did(manager: Manager) -> None:
    """Nobody else does, and no other function of the source is called."""
    publish(manager, "ann")
    assert [True, False, False, False, False] == [
        runs(manager, "ann"),
        runs(manager, "ann", owner=""),
        runs(manager, "bob"),
        runs(manager, "bob", owner="bob"),
        runs(manager, "ann", entry="other"),
    ]


def test_code_connects_to_what_its_module_names(manager: Manager) -> None:
    """To nothing else, and not as code that reaches no network; each dataflow has a task of its own."""
    manager.service.administration.set_publishing(OPERATOR, "ann", PublishingForm(code=True))
    code = {"source": SOURCE, "connects": ["Example.org.:443", "[2001:DB8:0::1]:80", "example.org:443"]}
    form = {"name": "script", "version": 1, "shape": "filter", "code": code}
    made = manager.service.modules.publish(ANN, json.dumps(form).encode())
    assert "connecting_code" == made.type
    with manager.store.read() as session:
        (module,) = modules_of(session, "ann")
    config = module.config({}, {})
    assert ["[2001:db8::1]:80", "example.org:443"] == config["connects"]

    def accepted(type_: str, **changes: object) -> bool:
        # What is an object there has its defaults.
        given = {name: each for name, each in (config | changes).items() if isinstance(each, str | list)}
        try:
            manager.submit("ann", f"s:source{{'source': 'street'}} > c:{type_}{given!r} > k:output")
        except InvalidDataflow:
            return False
        return True

    found = [accepted("connecting_code"), accepted("connecting_code", connects=["example.org:443"])]
    found += [accepted("connecting_code", connects=[*config["connects"], "example.org:80"])]
    assert [True, False, False, False] == [*found, accepted("code", connects=None)]
    assert accepted("connecting_code")
    with manager.committer.looking() as state:
        assert 2 == len([each for each in state.running.tasks.values() if each.type.name == "connecting_code"])


def test_code_is_not_brought_to_that_of_another_owner(manager: Manager) -> None:
    """A task that would become its tenant's code in a job with another's is refused; once it is alone it is not."""
    form = {"name": "square", "connection": {"kind": "topic", "topic": "ann/square"}, "schema": {}}
    manager.service.sources.register(ANN, SourceForm.model_validate(form | {"visibility": "public"}))
    for tenant in ("ann", "bob"):
        publish(manager, tenant)
    config = {"digest": digest_of(SOURCE), "entry": "process"}
    source = "s:source{'source': 'ann:square'}"
    mine = manager.submit("ann", f"{source} > c:noop > k:output")
    other = manager.submit("bob", f"{source} > c:code{config | {'owner': 'bob'}} > k:output")
    with manager.committer.looking() as state:
        assert 1 == len(state.plans)
    becomes = ReconfigurationForm(tasks={"c": {"type": "code", "config": config | {"owner": "ann"}}})
    with pytest.raises(InvalidDataflow) as refused:
        manager.service.reconfigurations.begin(ANN, mine, becomes)
    assert [("/tasks/c/type", "other-code")] == [(each.pointer, each.code) for each in refused.value.errors]
    manager.service.dataflows.remove(BOB, other, Stop.NOW)
    manager.service.reconfigurations.begin(ANN, mine, becomes)


def test_a_voucher_is_no_part_of_a_document(manager: Manager) -> None:
    """What a document says of one is refused, and the same document runs before an operator vouches, and after."""
    publish(manager, "ann")
    config = f"{{'digest': '{digest_of(SOURCE)}', 'entry': 'process', 'owner': 'ann', 'vouched': True}}"
    with pytest.raises(InvalidDataflow) as refused:
        manager.submit("ann", f"s:source{{'source': 'street'}} > c:code{config} > k:output")
    assert ["unknown-field"] == [each.code for each in refused.value.errors]
    found = [runs(manager, "ann")]
    manager.service.modules.vouch(OPERATOR, "script", 1, tenant="ann")
    assert [True, True] == [*found, runs(manager, "ann")]
