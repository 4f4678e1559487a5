"""Loops: what a dataflow publishes never comes back to what it was made of."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dags import Catalogue
from engine.tasks import TYPES
from manager.answers.dataflows import Stop
from manager.answers.sources import SourceForm
from manager.problem import InvalidDataflow
from tests.manager.managers import Manager, caller

ANN, BOB = caller("ann"), caller("bob")
NAMES = ("a", "b", "c", "d")


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
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


def test_a_dataflow_that_publishes_into_its_own_source_is_refused(manager: Manager) -> None:
    """With the place in the document; a part that reads another source may publish there."""
    loop = refused(manager, "ann", way("a", "ann/a"))
    assert [("publish-loop", "/tasks/2/config/topic")] == loop
    manager.submit("ann", way("b", "ann/a") + "; t:source{'source': 'a'} > l:output")


def test_dataflows_that_feed_each_other_are_refused_no_matter_whose_they_are(manager: Manager) -> None:
    """The last one that would close the loop; once another one is gone it may run."""
    first = manager.submit("ann", way("bob:x", "ann/a"))
    manager.submit("bob", way("ann:b", "bob/x"))
    assert [("publish-loop", "/tasks/2/config/topic")] == refused(manager, "bob", way("ann:a", "bob/x"))
    manager.service.dataflows.remove(ANN, first, Stop.NOW)
    manager.submit("bob", way("ann:a", "bob/x"))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ways=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=8))
def test_just_what_would_lead_back_is_refused(manager: Manager, ways: list[tuple[str, str]]) -> None:
    """Over any number of dataflows that run."""
    run = dict[str, tuple[str, str]]()
    for read, into in ways:
        reached, more = {into}, {into}
        while more:
            more = {to for begin, to in run.values() if begin in more} - reached
            reached |= more
        if read in reached:
            assert ["publish-loop"] == [code for code, _ in refused(manager, "ann", way(read, f"ann/{into}"))]
        else:
            run[manager.submit("ann", way(read, f"ann/{into}"))] = (read, into)
    for each in run:
        manager.service.dataflows.remove(ANN, each, Stop.NOW)
