"""Publishing: a tenant publishes into its own sources only, and only as long as it has them."""

from collections.abc import Iterator

import pytest

from dags import Catalogue
from engine.tasks import TYPES
from manager.answers.dataflows import DataflowState
from manager.answers.sources import SourceForm
from manager.problem import InvalidDataflow
from tests.manager.managers import Manager, caller

ANN, BOB = caller("ann"), caller("bob")


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    made = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
    made.admit("ann", "bob")
    for who, name in ((ANN, "street"), (ANN, "models"), (BOB, "models")):
        form = {"name": name, "connection": {"kind": "topic", "topic": f"{who.tenant}/{name}"}, "schema": {}}
        made.service.sources.register(who, SourceForm.model_validate(form))
    yield made
    made.close()


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
