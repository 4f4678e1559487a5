"""Documents of a tenant: it runs what was published, publishes into its own sources, and never in a loop."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dags import Catalogue
from engine.code.store import digest_of
from engine.tasks import TYPES
from manager.answers.dataflows import DataflowState, Stop
from manager.answers.reconfigurations import ReconfigurationForm
from manager.answers.sources import SourceForm
from manager.answers.tenants import PublishingForm
from manager.documents.canonical import modules_of
from manager.problem import InvalidDataflow
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, caller

SOURCE = "def process(event):\n    return event\n\ndef other(event):\n    return None\n"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    made = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
    made.admit("ann", "bob")
    for who, name in ((ANN, "street"), (ANN, "models"), (BOB, "street"), (BOB, "models")):
        form = {"name": name, "connection": {"kind": "topic", "topic": f"{who.tenant}/{name}"}, "schema": {}}
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


NAMES = ("a", "b", "c", "d")


@pytest.fixture
def in_public(sqlite: str) -> Iterator[Manager]:
    """A service where everybody may read all sources, of which one is bob's."""
    with_sources = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
    with_sources.admit("ann", "bob")
    for who, names in ((ANN, NAMES), (BOB, ("x",))):
        for name in names:
            form = {"name": name, "connection": {"kind": "topic", "topic": f"{who.tenant}/{name}"}, "schema": {}}
            with_sources.service.sources.register(who, SourceForm.model_validate({**form, "visibility": "public"}))
    yield with_sources
    with_sources.close()


def way(read: str, topic: str) -> str:
    """A dataflow that publishes what it reads of a source."""
    return f"s:source{{'source': '{read}'}} > n:noop > p:mqtt_publish{{'topic': '{topic}'}} > k:output"


def refused(manager: Manager, tenant: str, line: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDataflow) as raised:
        manager.submit(tenant, line)
    return [(each.code, each.pointer) for each in raised.value.errors]


def test_a_dataflow_that_publishes_into_its_own_source_is_refused(in_public: Manager) -> None:
    """With the place in the document; a part that reads another source may publish there."""
    loop = refused(in_public, "ann", way("a", "ann/a"))
    assert [("publish-loop", "/tasks/2/config/topic")] == loop
    in_public.submit("ann", way("b", "ann/a") + "; t:source{'source': 'a'} > l:output")


def test_dataflows_that_feed_each_other_are_refused_no_matter_whose_they_are(in_public: Manager) -> None:
    """The last one that would close the loop; once another one is gone it may run."""
    first = in_public.submit("ann", way("bob:x", "ann/a"))
    in_public.submit("bob", way("ann:b", "bob/x"))
    assert [("publish-loop", "/tasks/2/config/topic")] == refused(in_public, "bob", way("ann:a", "bob/x"))
    in_public.service.dataflows.remove(ANN, first, Stop.NOW)
    in_public.submit("bob", way("ann:a", "bob/x"))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ways=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=8))
def test_just_what_would_lead_back_is_refused(in_public: Manager, ways: list[tuple[str, str]]) -> None:
    """Over any number of dataflows that run."""
    run = dict[str, tuple[str, str]]()
    for read, into in ways:
        reached, more = {into}, {into}
        while more:
            more = {to for begin, to in run.values() if begin in more} - reached
            reached |= more
        if read in reached:
            assert ["publish-loop"] == [code for code, _ in refused(in_public, "ann", way(read, f"ann/{into}"))]
        else:
            run[in_public.submit("ann", way(read, f"ann/{into}"))] = (read, into)
    for each in run:
        in_public.service.dataflows.remove(ANN, each, Stop.NOW)


def line(*topics: str) -> str:
    published = "; ".join(
        f"s > p{at}:mqtt_publish{{'topic': '{topic}'}} > k{at}:output" for at, topic in enumerate(topics)
    )
    return f"s:source{{'source': 'street'}} > k:output; {published}"


def test_a_tenant_publishes_into_its_own_sources_only(manager: Manager) -> None:
    """Neither into another's nor where nobody reads; each place in the document is reported."""
    manager.submit("ann", line("ann/models"))
    with pytest.raises(InvalidDataflow) as refused:
        manager.submit("ann", line("bob/models", "ann/models", "nobody/there"))
    assert {("foreign-topic", "bob/models"), ("foreign-topic", "nobody/there")} == {
        (each.code, each.message.split("'")[1]) for each in refused.value.errors
    }
    assert all(each.pointer.endswith("/config/topic") for each in refused.value.errors)


def test_a_source_that_is_revoked_takes_along_what_publishes_into_it(manager: Manager) -> None:
    """Else it would publish into the source of the next tenant that registers the topic."""
    publishes, reads = manager.submit("ann", line("ann/models")), manager.submit("ann", line())
    assert 1 == manager.service.sources.revoke(ANN, "models").dataflows
    states = [manager.service.dataflows.get(ANN, each).state for each in (publishes, reads)]
    assert DataflowState.REMOVED == states[0] != states[1]
