"""What a source rejects, from the publisher's topic to its owner's answers, over each kind of broker."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.sources import ReceivedAnswer
from braid_client.client import Client
from bridge.broker import BrokerKind, start_broker
from tests.brokers import KINDS
from tests.integration.hosting import counted, numbers
from tests.integration.serving import Served, counting, serving, street

pytestmark = [pytest.mark.spark, pytest.mark.full]
WHY = "the field 'n' should be of kind integer"


@pytest.mark.parametrize("kind", KINDS)
def test_the_owner_of_a_source_sees_what_it_rejects(tmp_path: Path, kind: BrokerKind) -> None:
    """With count, reason, text and time, at the source and its dataflow; so does the next manager, and nobody else."""
    with ExitStack() as stack:
        broker = stack.enter_context(start_broker(tmp_path / "broker", {"braid": "secret"}, kind=kind))
        served = stack.enter_context(serving(Served(tmp_path, settings={"BRAID_BROKER": broker.address("braid").url})))
        ann, bob = (stack.enter_context(served.admit(name)) for name in ("ann", "bob"))
        assert ann.register_source(street(visibility="public")).received is None
        flow = ann.submit(counting("street"))
        theirs = bob.submit(counting("ann:street"))
        for client, each in ((ann, flow), (bob, theirs)):
            served.until_state(client, each.id, DataflowState.RUNNING)
        for message in (b'{"n": "hot"}', b"not json"):
            served.line.publish("city/street", message)
        served.publish("city/street", numbers(0, 5))
        assert counted(numbers(0, 5)) == served.until_delivered(flow, "out", 5)

        def received(client: Client) -> ReceivedAnswer | None:
            found = client.source("ann:street").received
            return found if found is not None and (found.accepted, found.rejected) == (5, 2) else None

        shown = served.until(lambda: received(ann), "what the source has received")
        assert [("not json", True), ('{"n": "hot"}', False)] == [
            (each.event, each.reason.startswith("the message is not JSON")) for each in shown.newest
        ]
        assert WHY == shown.newest[1].reason
        assert all(shown.since <= each.at for each in shown.newest)
        assert "the source ann:street has rejected 2 of 7 events, the last because the message is not JSON" in (
            ann.dataflow(flow.id).reason
        )
        assert (None, "") == (bob.source("ann:street").received, bob.dataflow(theirs.id).reason)
        served.kill()
        served.start()
        assert shown == served.until(lambda: received(ann), "what it has received, from the next manager")
