"""Outputs that are edge nodes of Sparkplug: a running dataflow is one, whatever is killed, and its tenant hears it."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.errors import Refused
from braid_client.requests import make_credentials
from bridge.formats.sparkplug_decoder import SparkplugDecoder, rebirth_request
from bridge.formats.sparkplug_messages import Payload
from bridge.messages import Message
from bridge.transport.address import Address
from dags import Kind, Schema
from dags.message_formats import SparkplugMessages
from dags.outputs import OutputSettings
from tests.integration.hosting import counted, hosting_in, job, numbers, raw, slot
from tests.integration.serving import Served, serving, street
from tests.integration.test_output_formats import Reader, delivered_as

NODE = {"kind": "sparkplug", "group": "ida.counts", "node": "street"}
GROUP = "spBv1.0/ida.counts/#"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service for all tests here."""
    with serving(Served(tmp_path_factory.mktemp("served"))) as made:
        yield made


def reader_of(served: Served, tenant: str, *topics: str) -> Reader:
    """A subscriber with the credentials of a tenant."""
    with served.client() as operator:
        given = operator.ask(make_credentials(tenant))
    entrance = Address.parse(given.url)
    return Reader(Address(host=entrance.host, port=entrance.port, user=given.user, password=given.password), *topics)


def kinds(reader: Reader) -> list[str]:
    """The types of messages that came."""
    return [message.topic.split("/")[2] for message in reader.messages]


def read(reader: Reader) -> list[dict[str, Any]]:
    """What a source makes of the messages that came, which asks for nothing."""
    schema = Schema.of(count=Kind.INTEGER, k=Kind.STRING, status=Kind.STRING)
    messages = [Message(one.topic, bytes(one.payload), 0) for one in reader.messages if "/NCMD/" not in one.topic]
    content = SparkplugDecoder(SparkplugMessages(), schema)(messages)
    assert ((), ()) == (content.unfit, content.replies)
    events: list[dict[str, Any]] = content.events.to_pylist()
    return events


def ask_for_birth(reader: Reader) -> None:
    """Ask the node for a birth, which it hears of once it is there."""
    reader.client.publish("spBv1.0/ida.counts/NCMD/street", rebirth_request(1.0), qos=1)


def times_said(reader: Reader, number: str = "count") -> dict[tuple[int, str], set[int]]:
    """For each event the times that its metrics have had, however often it came."""
    times: dict[tuple[int, str], set[int]] = {}
    for message in reader.messages:
        if "/NDATA/" in message.topic:
            metrics = {metric.name: metric for metric in Payload.FromString(bytes(message.payload)).metrics}
            event = metrics[number].long_value, metrics["k"].string_value
            times.setdefault(event, set()).update(metric.timestamp for metric in metrics.values())
    return times


@pytest.mark.spark
def test_an_output_is_an_edge_node(served: Served) -> None:
    """Its birth comes before its data, again after its host was killed and when it is asked for, and its death last."""
    with served.admit("ida") as ida, served.admit("jon") as jon:
        ida.register_source(street("nodes", visibility="public"))
        with pytest.raises(Refused, match="is not yours"):
            jon.submit(delivered_as({"format": NODE}, "ida:nodes"))
        dataflow = ida.submit(delivered_as({"format": NODE}, "nodes"))
        reader, other = reader_of(served, "ida", GROUP), reader_of(served, "jon", GROUP)
        assert ([1], False) == (reader.answers, other.answers[0] <= 1)
        served.until_state(ida, dataflow.id, DataflowState.RUNNING)
        ask_for_birth(reader)
        reader.until(lambda: "NBIRTH" in kinds(reader), "a birth")
        served.publish("city/nodes", numbers(0, 300))
        reader.until(lambda: kinds(reader).count("NDATA") >= 300, "its data")
        births = kinds(reader).count("NBIRTH")
        ask_for_birth(reader)
        reader.until(lambda: kinds(reader).count("NBIRTH") > births, "a birth that was asked for")
        served.below_keeper("engine.machines.process").kill()
        reader.until(lambda: "NDEATH" in kinds(reader), "its death")
        reader.until(lambda: "NBIRTH" in kinds(reader)[kinds(reader).index("NDEATH") :], "another birth")
        served.publish("city/nodes", numbers(300, 600))
        wanted = served.until_delivered(dataflow, "out", 600)
        assert counted(numbers(0, 600)) == wanted

        def read_counts() -> list[dict[str, Any]]:
            return [{"count": event["count"], "k": event["k"]} for event in read(reader) if event["count"] is not None]

        reader.until(lambda: wanted[-1] in read_counts(), "the last event")
        ida.remove(dataflow.id)
        reader.until(lambda: kinds(reader)[-1] == "NDEATH", "its last death")
        # Each at least once; what came again after the crash, and births, have what others have.
        seen = read_counts()
        assert [event for event in wanted if event not in seen] == []
        assert [event for event in seen if event not in wanted] == []
        assert {1} == {len(times) for times in times_said(reader).values()}
        assert ["NDEATH", "NDEATH"] == [kind for kind in kinds(reader) if kind == "NDEATH"]
        assert [] == other.messages
        reader.close()
        other.close()


@pytest.mark.spark
def test_a_node_lives_as_long_as_its_job_delivers_it(tmp_path: Path) -> None:
    """It dies when a plan leaves it out, when the host stops properly and when the job does, with each word of it."""
    settings = OutputSettings.model_validate({"format": {**NODE, "metrics": [["n", "integer"], ["k", "string"]]}})
    plan = job("j", slot(2, "output", 1), reads=(raw("city/lives", 1),))
    plan = replace(plan, deliveries=tuple(replace(each, output=settings) for each in plan.deliveries))
    with hosting_in(tmp_path, kind="embedded") as hosting:
        reader = Reader(hosting.broker.address("braid"), GROUP)

        def until(*wanted: str) -> None:
            reader.until(lambda: wanted == (*kinds(reader)[-len(wanted) :],), f"{wanted}")

        def lives() -> list[str]:
            return [kind for kind in kinds(reader) if kind != "NDATA"]

        hosting.run(plan)
        until("NBIRTH")
        hosting.publish("city/lives", numbers(0, 5))
        until("NBIRTH", *["NDATA"] * 5)
        hosting.run(replace(plan, deliveries=()))
        until("NDATA", "NDEATH")
        hosting.run(plan)
        until("NDEATH", "NBIRTH")
        hosting.restart(signal.SIGTERM)
        # What the broker had not answered by then comes again.
        reader.until(lambda: ["NBIRTH", "NDEATH"] * 2 + ["NBIRTH"] == lives(), "a third life")
        hosting.publish("city/lives", numbers(5, 10))
        reader.until(lambda: 9 in [n for n, _ in times_said(reader, "n")], "all events")
        hosting.stop_job("j")
        until("NDATA", "NDEATH")
        assert ["NBIRTH", "NDEATH"] * 3 == lives()
        assert numbers(0, 10) == [{"n": n, "k": k} for n, k in dict.fromkeys(times_said(reader, "n"))]
        reader.close()
