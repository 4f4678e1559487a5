"""Outputs in other formats: a running dataflow delivers them, and its tenant reads them at a real broker."""

import csv
import io
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from braid_client.answers.dataflows import DataflowState
from braid_client.requests import make_credentials
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from tests.brokers import KINDS
from tests.integration.hosting import counted, numbers
from tests.integration.serving import BOUND, Served, counting, serving, street
from tests.integration.tenanted_broker import PROTOCOLS, V5, V311, TenantedBroker


class Reader:
    """A tenant's subscriber, as any program is one."""

    def __init__(self, address: Address, *topics: str, protocol: MQTTProtocolVersion = V5) -> None:
        self.messages: list[paho.MQTTMessage] = []
        self.counts = Counter[str]()
        """How many came on each topic."""
        self.answers: list[int] = []
        self._topics = topics
        self._news = threading.Condition()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=protocol)
        self.client.username_pw_set(address.user, address.password)
        self.client.on_connect = self._subscribe
        self.client.on_subscribe = self._subscribed
        self.client.on_message = self._take
        self.client.connect(address.host, address.port)
        self.client.loop_start()
        self.until(lambda: bool(self.answers), "the broker's answer")

    def on(self, topic: str) -> list[bytes]:
        """The payloads that came on a topic."""
        with self._news:
            return [bytes(message.payload) for message in self.messages if message.topic == topic]

    def properties(self, topic: str) -> list[dict[str, str]]:
        """The user properties of what came on a topic."""
        with self._news:
            return [
                dict(getattr(message.properties, "UserProperty", ()))
                for message in self.messages
                if message.topic == topic
            ]

    def until(self, condition: Any, what: str) -> None:
        """Wait for something to become true; what Spark has to do first takes its time on a busy machine."""
        with self._news:
            assert self._news.wait_for(condition, BOUND), f"not within {BOUND} s: {what}; came: {dict(self.counts)}"

    def close(self) -> None:
        """Leave."""
        self.client.disconnect()
        self.client.loop_stop()

    def _subscribe(self, *_: object) -> None:
        self.client.subscribe([(topic, 1) for topic in self._topics])

    def _subscribed(self, *given: Any) -> None:
        with self._news:
            self.answers = [code.value for code in given[3]]
            self._news.notify_all()

    def _take(self, _client: object, _data: object, message: paho.MQTTMessage) -> None:
        with self._news:
            self.messages.append(message)
            self.counts[message.topic] += 1
            self._news.notify_all()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service for all tests here; each leaves it running."""
    with serving(Served(tmp_path_factory.mktemp("served"))) as made:
        yield made


def delivered_as(config: dict[str, Any], source: str) -> dict[str, Any]:
    """A document that counts, with settings of its output."""
    document = counting(source)
    document["tasks"][-1]["config"] = config
    return document


@pytest.mark.spark
def test_a_tenant_reads_its_outputs_in_the_formats_that_it_chose(served: Served) -> None:
    """Equal dataflows with different formats run as one, and each has its own messages beside its envelopes."""
    chosen: dict[str, dict[str, Any]] = {
        "fay/plain": {"format": "plain", "topic": "fay/plain"},
        "fay/csv": {"format": {"kind": "csv", "separator": ";"}, "topic": "fay/csv", "retain": True},
        "fay/influx": {"format": {"kind": "influx", "measurement": "counts", "tags": ["k"]}, "topic": "fay/influx"},
        "fay/envelope": {"topic": "fay/envelope"},
    }
    with served.admit("fay") as fay:
        fay.register_source(street("formats"))
        plain, *others = [
            fay.submit(delivered_as(config, "formats")) for config in ({"format": "plain"}, *chosen.values())
        ]
        assert [4] * 4 == [len(other.reused) for other in others]
        with served.client() as operator:
            given = operator.ask(make_credentials("fay"))
        assert {*chosen} < {*given.reads}
        address = Address.parse(given.url)
        address = Address(host=address.host, port=address.port, user=given.user, password=given.password)
        within = f"{plain.outputs[0].topic}/plain"
        reader = Reader(address, within, *chosen)
        assert [1] * 5 == reader.answers
        for dataflow in (plain, *others):
            served.until_state(fay, dataflow.id, DataflowState.RUNNING)
        with served.client() as operator:
            served.until(
                lambda: all(job.in_effect == job.version for job in operator.jobs()), "every job to run its plan"
            )
        served.publish("city/formats", numbers(0, 7))
        wanted = counted(numbers(0, 7))
        for topic in (within, "fay/plain", "fay/csv", "fay/influx"):
            reader.until(lambda topic=topic: reader.counts[topic] >= 7, topic)
        for topic in (within, "fay/plain"):
            assert wanted == [json.loads(payload) for payload in reader.on(topic)]
        assert [("out", str(number)) for number in range(7)] == [
            (found["stream"], found["number"]) for found in reader.properties(within)
        ]
        rows = [row for line in reader.on("fay/csv") for row in csv.reader(io.StringIO(line.decode()), delimiter=";")]
        assert [[str(event["count"]), event["k"]] for event in wanted] == rows
        assert [f"counts,k={event['k']} count={event['count']}i".encode() for event in wanted] == reader.on(
            "fay/influx"
        )
        envelopes = [json.loads(payload) for payload in reader.on("fay/envelope")]
        assert wanted == [event for envelope in envelopes for event in envelope["events"]]
        # Whoever counts reads the envelopes, as ever.
        for dataflow in (plain, *others):
            assert wanted == served.until_delivered(dataflow, "out", 7)
        late = Reader(address, *chosen)
        late.until(lambda: bool(late.messages), "what is retained")
        assert [("fay/csv", b"3;k0", True)] == [(each.topic, each.payload, each.retain) for each in late.messages]
        (output,) = fay.dataflow(others[1].id).outputs
        assert ("csv", True, "fay/csv") == (output.format.kind, output.retain, output.also_on)
        # More than may wait for the broker's answer at once.
        served.publish("city/formats", numbers(7, 3_000))
        wanted = counted(numbers(0, 3_000))
        for topic in (within, "fay/plain"):
            reader.until(lambda topic=topic: reader.counts[topic] >= len(wanted), topic)
            assert wanted == [json.loads(payload) for payload in reader.on(topic)]
        reader.close()
        late.close()
        for dataflow in (plain, *others):
            fay.remove(dataflow.id)


@pytest.mark.spark
def test_what_an_output_retains_goes_with_its_dataflow_whatever_is_killed(served: Served) -> None:
    """The newest of each key is retained; the host is killed amid it, the dataflow removed, and the manager killed."""
    config = {"format": "plain", "topic": "gus/{k}/counts", "retain": True}
    with served.admit("gus") as gus, served.admit("hal") as hal:
        gus.register_source(street("keys", visibility="public"))
        dataflow = gus.submit(delivered_as(config, "keys"))
        other = hal.submit(delivered_as({**config, "topic": "hal/{k}/counts"}, "gus:keys"))
        for client, started in ((gus, dataflow), (hal, other)):
            served.until_state(client, started.id, DataflowState.RUNNING)
        reader = Reader(Address.parse(served.broker), "gus/+/counts")
        served.publish("city/keys", numbers(0, 2_000))
        reader.until(lambda: len(reader.counts) >= 2, "two topics")
        # What it has published is not noted yet.
        served.below_keeper("engine.machines.process").kill()
        gus.remove(dataflow.id)
        served.kill()
        served.start()
        served.until(lambda: not served.retained("gus/#"), "nothing to be retained")
        served.until_delivered(other, "out", 2_000)
        wanted = {f"hal/{event['k']}/counts" for event in numbers(0, 2_000)}
        served.until(lambda: set(served.retained("hal/#")) == wanted, "what another tenant retains")
        assert [] == served.retained("gus/#")
        hal.remove(other.id)
        served.until(lambda: not served.retained("hal/#"), "nothing to be retained")
        reader.close()


@pytest.mark.parametrize("kind", KINDS)
@PROTOCOLS
def test_a_tenant_reads_all_topics_of_an_output_by_key(
    tmp_path: Path, kind: Any, protocol: MQTTProtocolVersion
) -> None:
    """Together or one by one, the newest of each is there for later subscribers, and no other tenant has any."""
    house = TenantedBroker(tmp_path, kind)
    assert house.broker is not None
    with house.broker:
        house.admit("ann", "bob", outputs={"ann": "ann/+/alarm"})
        sender = MqttClient(house.own, "sends", lasting=False)
        sender.start()
        for machine, number in (("press", b"1"), ("ä b", b"2"), ("press", b"3")):
            sender.publish(f"ann/{machine}/alarm", number, retain=True)
        bob = Reader(house.address("bob"), "ann/+/alarm", "ann/press/alarm", protocol=protocol)
        assert ["refused"] * 2 == ["granted" if code <= 1 else "refused" for code in bob.answers]
        ann = Reader(house.address("ann"), "ann/+/alarm", "ann/+/+", "ann/#", protocol=protocol)
        assert ["granted", *["refused"] * 2] == ["granted" if code <= 1 else "refused" for code in ann.answers]
        newest = {"ann/press/alarm": b"3", "ann/ä b/alarm": b"2"}
        # The last message may still be on its way when the subscription is answered.
        ann.until(lambda: newest == {each.topic: each.payload for each in ann.messages}, "the newest of each")
        one = Reader(house.address("ann"), "ann/press/alarm", protocol=protocol)
        one.until(lambda: bool(one.messages), "what is retained")
        assert [(b"3", True)] == [(each.payload, each.retain) for each in one.messages]
        for reader in (ann, bob, one):
            reader.close()
        sender.stop()
        assert [] == bob.messages


@pytest.mark.parametrize("kind", KINDS)
@PROTOCOLS
def test_a_tenant_reads_the_topics_of_its_own_outputs(tmp_path: Path, kind: Any, protocol: MQTTProtocolVersion) -> None:
    """It may read those and no others below its name; properties reach who can read them, from who can write them."""
    house = TenantedBroker(tmp_path, kind)
    assert house.broker is not None
    with house.broker:
        house.admit("ann", "bob", outputs={"ann": "ann/out", "bob": "bob/out"})
        reader = Reader(house.address("ann"), "ann/out", "ann/other", "ann/#", "bob/out", protocol=protocol)
        assert ["granted", *["refused"] * 3] == ["granted" if code <= 1 else "refused" for code in reader.answers]
        for sends in (V5, V311):
            sender = MqttClient(house.own, f"sends-{sends}", lasting=False, protocol=sends)
            sender.start()
            for topic in ("ann/other", "bob/out", "ann/out"):
                sender.publish(topic, b"1", properties=[("stream", "out"), ("number", "7")], retain=True)
            reader.until(lambda sends=sends: len(reader.messages) == (1 if sends is V5 else 2), "the message")
            sender.stop()
        assert {"ann/out"} == {message.topic for message in reader.messages}
        both = [{"stream": "out", "number": "7"} if protocol is V5 else {}, {}]
        assert both == reader.properties("ann/out")
        late = Reader(house.address("ann"), "ann/out", protocol=protocol)
        late.until(lambda: bool(late.messages), "what is retained")
        assert [(b"1", True)] == [(message.payload, message.retain) for message in late.messages]
        reader.close()
        late.close()
