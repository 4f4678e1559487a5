"""Sources of another broker, as tenants have them: nothing is lost or doubled, and troubles are shown."""

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.sources import SourceForm
from braid_client.answers.tenants import SecretForm
from braid_client.client import Client
from engine.outside import REACHABLE
from tests.bridge.connectors.outside_brokers import PASSWORD, USER, Mosquitto, connections, mosquitto, numbered, publish
from tests.integration.serving import Served, passing, serving
from tests.integration.test_sending import Listener

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Served(tmp_path_factory.mktemp("outside"), pace=0.2)) as made:
        (made.root / REACHABLE).write_text("127.0.0.1\n")
        yield made


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Mosquitto]:
    with mosquitto(tmp_path / "outside") as broker:
        yield broker


def feed(broker: Mosquitto) -> SourceForm:
    return SourceForm.model_validate(
        {
            "name": "feed",
            "connection": {
                "kind": "mqtt",
                "url": f"mqtt://127.0.0.1:{broker.port}",
                "topic": "{place}/heat",
                "secret": {"secret": "broker"},
            },
            "schema": {"n": "integer"},
        }
    )


def open_feed(broker: Mosquitto) -> SourceForm:
    """A feed for which nobody needs a secret."""
    return SourceForm.model_validate(
        {
            "name": "open",
            "connection": {"kind": "mqtt", "url": f"mqtt://127.0.0.1:{broker.port}", "topic": "{place}/heat"},
            "schema": {"n": "integer"},
        }
    )


def is_connected(client: Client, name: str = "feed") -> bool:
    received = client.source(name).received
    return received is not None and received.link is not None and received.link.connected


def test_two_tenants_take_one_feed_whatever_is_killed(served: Served, outside: Mosquitto) -> None:
    """A wrong secret of one is shown to it alone. The host is killed, and the broker stops: each event comes once."""
    tenants = {name: served.admit(name) for name in ("ann", "bob")}
    dataflows: dict[str, str] = {}
    for name, client in tenants.items():
        client.put_secret("broker", SecretForm(secret=f"{USER}:{PASSWORD if name == 'ann' else 'wrong'}"))
        client.register_source(feed(outside))
        dataflows[name] = client.submit(passing("feed", 1_000_000)).id
    served.until_state(tenants["ann"], dataflows["ann"], DataflowState.RUNNING)
    refused = f"the broker at mqtt://127.0.0.1:{outside.port} refused the connection: "
    served.until(lambda: refused in tenants["bob"].dataflow(dataflows["bob"]).reason, "bob to learn of his secret")
    assert refused not in tenants["ann"].dataflow(dataflows["ann"]).reason
    tenants["bob"].put_secret("broker", SecretForm(secret=f"{USER}:{PASSWORD}"))
    for client in tenants.values():
        # What is published before a source is connected for the first time is not for it.
        served.until(partial(is_connected, client), "the source to be connected")
    heard = {name: Listener(served, dataflow) for name, dataflow in dataflows.items()}
    for first in range(0, 500, 50):
        publish(outside.address(), f"p{first % 3}/heat", numbered(first, first + 50))
        if first == 150:
            served.below_keeper("engine.machines.process").kill()
        if first == 300:
            outside.end()
            threading.Event().wait(1.0)
            outside.start()
    for name in tenants:
        assert list(range(500)) == sorted(event["n"] for event in heard[name].until(500))
    outside.end()
    reason = "the source ann:feed is not connected since"
    served.until(lambda: reason in tenants["ann"].dataflow(dataflows["ann"]).reason, "the source to be unconnected")
    assert not is_connected(tenants["ann"])
    for client in tenants.values():
        known = client.source("feed").received
        assert known is not None
        assert known.rejected == 0
        client.revoke_source("feed")
        client.close()


def test_two_tenants_share_one_connection_to_an_open_feed(served: Served, tmp_path: Path) -> None:
    """Each gets what comes since its own start, once, though the host is killed, and learns nothing of the other."""
    with mosquitto(tmp_path / "open", "allow_anonymous true") as broker:
        kim, lou = (served.admit(name) for name in ("kim", "lou"))
        dataflows = dict[str, str]()

        def begin(name: str, client: Client) -> Listener:
            client.register_source(open_feed(broker))
            dataflows[name] = client.submit(passing("open", 1_000_000)).id
            served.until_state(client, dataflows[name], DataflowState.RUNNING)
            served.until(partial(is_connected, client, "open"), "the source to be connected")
            return Listener(served, dataflows[name])

        heard = begin("kim", kim)
        publish(broker.address(), "p1/heat", [*numbered(0, 50), b"?"])
        assert list(range(50)) == sorted(event["n"] for event in heard.until(50))
        began = time.time()
        heard_too = begin("lou", lou)
        known = lou.source("open").received
        assert known is not None
        assert known.link is not None
        assert (0, 0, "") == (known.accepted, known.rejected, known.link.error)
        assert known.link.since.timestamp() >= began
        served.until(lambda: connections(broker.port) == 1, "a single connection")
        for first in range(50, 350, 50):
            publish(broker.address(), f"p{first % 3}/heat", numbered(first, first + 50))
            if first == 150:
                served.below_keeper("engine.machines.process").kill()
        assert list(range(350)) == sorted(event["n"] for event in heard.until(350))
        assert list(range(50, 350)) == sorted(event["n"] for event in heard_too.until(300))
        served.until(lambda: connections(broker.port) == 1, "a single connection again")
        kim.remove(dataflows["kim"])
        kim.revoke_source("open")
        publish(broker.address(), "p1/heat", [*numbered(350, 400), b"?"])
        assert list(range(50, 400)) == sorted(event["n"] for event in heard_too.until(350))

        def has_rejected() -> bool:
            received = lou.source("open").received
            return received is not None and received.rejected == 1

        served.until(has_rejected, "the rejected event to be counted")
        assert "kim" not in lou.source("open").model_dump_json()
        lou.remove(dataflows["lou"])
        served.until(lambda: connections(broker.port) == 0, "the connection to end")
        for client in (kim, lou):
            client.close()
