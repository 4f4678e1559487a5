"""The benchmark of peers: what runs on each of them, what is due for it, and how outputs are compared."""

import json
import pickle
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from benchmarks.peers.dataflows import (
    INPUT_TOPICS,
    PEER_FIELDS,
    SOURCE_OWNER,
    PeerDataflow,
    braid_document,
    distinct_tasks,
    drawn_dataflows,
    input_topic,
    source_name,
)
from benchmarks.peers.due import (
    SENSORS_PER_TOPIC,
    Arrival,
    Comparison,
    DueOutputs,
    compared,
    due_outputs,
    due_within,
    event_payload,
    quantile,
    topic_of,
)
from benchmarks.peers.generator import published
from benchmarks.peers.node_red import node_red_flows
from benchmarks.peers.picture import lines_of, write_picture
from benchmarks.peers.processes import asked_process
from benchmarks.peers.subscriber import noted_in
from bridge.transport.address import Address
from bridge.transport.mqtt_rounds import usual_messages
from dags import Catalogue, Kind, Schema, Source, Visibility
from dags.canonical import canonicalise
from engine.tasks import TYPES
from engine.trial import try_out
from merge import RunningGraph, merge
from tests.documentation.pages import ROOT, page
from workloads.service import RunFailed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADDRESS = Address(host="127.0.0.1", port=1883)
SCHEMA = Schema.of({name: Kind(kind) for name, kind in PEER_FIELDS.items()})
NEVER = float("inf")


@pytest.mark.parametrize(("count", "distinct"), [(50, 169), (1_000, 2_125)])
def test_dataflows_share_as_many_tasks_as_they_should(count: int, distinct: int) -> None:
    """So many of the tasks are distinct, and Braid runs exactly those."""
    sources = {
        source_name(topic): Source(
            name=source_name(topic), owner=SOURCE_OWNER, schema=SCHEMA, visibility=Visibility.PUBLIC
        )
        for topic in range(INPUT_TOPICS)
    }
    running, catalogue = RunningGraph(), Catalogue.of(TYPES)
    for dataflow in drawn_dataflows(count):
        document = braid_document(dataflow)
        document["tasks"][0]["config"]["source"] = source_name(dataflow.topic)
        checked = canonicalise(
            json.dumps(document),
            dataflow=str(dataflow.number),
            tenant=dataflow.tenant,
            catalogue=catalogue,
            sources=sources,
        )
        running.advance(merge(running, checked, NOW))
    assert distinct == distinct_tasks(drawn_dataflows(count)) == len(running.tasks)


def test_a_smaller_number_of_dataflows_are_the_first_of_a_larger() -> None:
    """Every size is of the same dataflows, and no two of them are equal."""
    assert drawn_dataflows(1_000)[:50] == drawn_dataflows(50)
    configs = {(each.topic, each.lowest, each.window, each.lowest_mean) for each in drawn_dataflows(1_000)}
    assert 1_000 == len(configs)


@pytest.mark.parametrize("dataflow", drawn_dataflows(40)[::13], ids=lambda dataflow: str(dataflow.number))
def test_what_is_due_is_what_the_task_library_computes(dataflow: PeerDataflow) -> None:
    """The oracle agrees with Braid's own tasks, and names the events at which outputs become due."""
    numbers = range(dataflow.topic, 2_000, INPUT_TOPICS)
    events = [json.loads(event_payload(number, 0.0)) for number in numbers]
    due = due_outputs(dataflow, 2_000)
    outputs = sorted(
        (cause, {"sensor": f"s{sensor}", "value": mean})
        for sensor in range(SENSORS_PER_TOPIC)
        for cause, mean in zip(due.causes[sensor].tolist(), due.means[sensor].tolist(), strict=True)
    )
    assert [output for _, output in outputs] == _outputs(dataflow, events)
    until = numbers.index(outputs[-1][0])
    assert len(outputs) - 1 == len(_outputs(dataflow, events[:until]))
    assert len(outputs) == len(_outputs(dataflow, events[: until + 1]))


def _outputs(dataflow: PeerDataflow, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Braid's tasks make of events."""
    for task in braid_document(dataflow)["tasks"][1:-1]:
        events = try_out(task["type"], task["config"], events, SCHEMA if "n" in events[0] else None)["out"]
    return events


def test_each_dataflow_is_a_row_of_nodes_as_users_of_node_red_build_it() -> None:
    """From mqtt in over three functions to mqtt out, each with a place, in the tab of its tenant, with one broker."""
    dataflows = drawn_dataflows(50)
    nodes = {node["id"]: node for node in node_red_flows(dataflows, ADDRESS)}
    (broker,) = (node["id"] for node in nodes.values() if node["type"] == "mqtt-broker")
    for dataflow in dataflows:
        row = [nodes[f"in-{dataflow.number}"]]
        while row[-1]["wires"]:
            ((below,),) = row[-1]["wires"]
            row.append(nodes[below])
        assert ["mqtt in", "function", "function", "function", "mqtt out"] == [node["type"] for node in row]
        assert (input_topic(dataflow.topic), dataflow.output) == (row[0]["topic"], row[-1]["topic"])
        assert {dataflow.tenant} == {node["z"] for node in row}
        assert broker == row[0]["broker"] == row[-1]["broker"]
        assert all({"x", "y"} <= node.keys() for node in row)
        for node, number in zip(row[1:4], (dataflow.lowest, dataflow.window, dataflow.lowest_mean), strict=True):
            assert str(number) in node["func"]
    assert {"tab", "mqtt-broker", "mqtt in", "mqtt out", "function"} == {node["type"] for node in nodes.values()}


def _due(*outputs: tuple[int, float]) -> DueOutputs:
    """What is due for one sensor."""
    empty = (np.array([], np.int64),) * (SENSORS_PER_TOPIC - 1), (np.array([]),) * (SENSORS_PER_TOPIC - 1)
    causes, means = np.array([cause for cause, _ in outputs], np.int64), np.array([mean for _, mean in outputs])
    return DueOutputs(causes=(causes, *empty[0]), means=(means, *empty[1]))


def _came(*outputs: tuple[float, float]) -> list[Arrival]:
    return [Arrival(at=at, sensor=0, mean=mean) for at, mean in outputs]


DUE = _due((0, 1.0), (1, 2.0), (2, 3.0))
SENT_AT = np.array([10.0, 11.0, 12.0])


@pytest.mark.parametrize(
    ("came", "expected"),
    [
        (_came((10.5, 1.0), (11.25, 2.0), (13.0, 3.0)), Comparison(outputs=3, wrong=0, latencies=(0.25, 1.0))),
        (_came((10.5, 1.0), (11.25, 2.0)), Comparison(outputs=2, wrong=0, latencies=(0.25, NEVER))),
        (_came((10.5, 1.0), (11.25, 7.0), (13.0, 3.0)), Comparison(outputs=3, wrong=1, latencies=(NEVER, 1.0))),
        (_came((10.5, 1.0), (11.0, 2.0), (12.0, 3.0), (12.0, 3.0)), Comparison(outputs=4, wrong=1, latencies=(0, 0))),
    ],
    ids=["all came", "one is missing", "one is wrong", "one came twice"],
)
def test_outputs_are_compared_with_those_due(came: list[Arrival], expected: Comparison) -> None:
    """Latencies are those of a window's events; what is missing, wrong or twice there is not taken for right."""
    assert expected == compared(DUE, came, SENT_AT, (11.0, 13.0))


def test_outputs_are_due_when_their_events_are_sent() -> None:
    """A window owes for the events that are sent in it."""
    assert 2 == due_within([DUE], SENT_AT, (10.0, 12.0))


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [([0.1, 0.2, NEVER], 0.2), ([0.1, NEVER], None), ([NEVER], None), ([], None)],
)
def test_a_quantile_among_what_did_not_come_is_none(latencies: list[float], expected: float | None) -> None:
    """Outputs that did not come count as later than all others."""
    assert expected == quantile(latencies, 0.5)


@pytest.mark.parametrize("number", [0, 4, 123_456_789])
def test_the_generators_packets_are_messages(number: int) -> None:
    """A client reads the topic, the packet id and the event from what was made by hand."""
    topic, payload = input_topic(topic_of(number)) * 20, event_payload(number, 1.5)
    (message,), _ = usual_messages(
        published(topic, 77, payload), 0, MQTTProtocolVersion.MQTTv311, first_token=0, most=9
    )
    assert (topic, payload, 77) == (message.topic, message.payload, message.token)
    assert {"n": number, "at": 1.5} == {name: json.loads(payload)[name] for name in ("n", "at")}


def test_nothing_is_left_of_a_process_when_its_measurement_fails(tmp_path: Path) -> None:
    """Not even what it has started, and that ignores signals."""
    below = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    program = "\n".join(
        [
            "import subprocess, sys, time",
            f"child = subprocess.Popen([sys.executable, '-c', {below!r}], stdout=subprocess.PIPE)",
            "child.stdout.readline()",
            "print(child.pid, flush=True)",
            "time.sleep(600)",
        ]
    )
    seen: list[psutil.Process] = []

    def interrupted() -> None:
        with asked_process([sys.executable, "-c", program], "a program", tmp_path / "log") as process:
            seen.extend([process.process, psutil.Process(int(process.line(60.0)))])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [] == psutil.wait_procs(seen, timeout=60.0)[1]


def test_a_process_that_ended_says_why(tmp_path: Path) -> None:
    """Whoever waits for its answer gets the end of its log."""
    program = "import sys; sys.exit('no such thing')"
    with (
        pytest.raises(RunFailed, match="a program ended; it last wrote: no such thing"),
        asked_process([sys.executable, "-c", program], "a program", tmp_path / "log") as process,
    ):
        process.line(60.0)


def test_what_is_still_being_noted_is_read_later(tmp_path: Path) -> None:
    """Half a note behind the size that the subscriber gave ends no measurement, and is lost to none."""
    first, second = [(1.0, "a", b"1"), (1.0, "b", b"2")], [(2.0, "a", b"3")]
    whole, later = pickle.dumps(first), pickle.dumps(second)
    log = tmp_path / "log"
    log.write_bytes(whole + later[:-5])
    with log.open("rb") as notes:
        assert first == list(noted_in(notes, len(whole)))
        with log.open("ab") as more:
            more.write(later[-5:])
        assert second == list(noted_in(notes, len(whole + later)))


def test_a_picture_shows_who_kept_up(tmp_path: Path) -> None:
    """Beside rows that have no figures; without any figure there is none."""
    row = {"system": "braid", "dataflows": 50, "events_per_s": 10.0, "cores": 0.1, "p50_s": 0.6}
    late = {**row, "system": "node-red", "outputs_per_s": 5.0, "due_per_s": 10.0}
    other = [
        {"system": "pyspark", "most_dataflows": 0},
        {"system": "pyflink", "dataflows": 50, "why_not": "it is late"},
    ]
    whole = {**row, "outputs_per_s": 10.0, "due_per_s": 10.0}
    fewer = [{**whole, "system": "pyspark", "dataflows": count, "trial": count == 8} for count in (8, 16)]
    rows = [whole, late, *fewer, *other]
    assert {("braid", 50): [(10.0, 0.6)], ("pyspark", 16): [(10.0, 0.6)]} == lines_of(rows, 50, "p50_s")
    assert {("braid", 50): [(10.0, 0.6)]} == lines_of(rows, 50, "p50_s", above=16)
    write_picture(other, tmp_path)
    assert [] == list(tmp_path.iterdir())
    write_picture(rows, tmp_path)
    drawn = (tmp_path / "peers.svg").read_text(encoding="utf-8")
    assert ("50 dataflows" in drawn, "pyspark, only 16 dataflows" in drawn, "8 dataflows<" in drawn) == (
        True,
        True,
        False,
    )


def test_the_documented_figures_are_those_that_were_measured() -> None:
    """Of fifty dataflows on Braid and Node-RED, the table has what `peers.json` has."""
    kept = json.loads((ROOT / "docs" / "evidence" / "peers.json").read_text(encoding="utf-8"))
    table = next(table for table in page("docs/measurements.md").tables if table.heading == "Beside its peers")
    head, *rows = table.rows
    for rate, *cells in rows:
        for system, column in (("braid", "pace 1 s"), ("node-red", "Node-RED")):
            (measured,) = (
                row
                for row in kept["rows"]
                if (row["system"], row.get("dataflows"), row.get("events_per_s"))
                == (system, 50, float(rate.replace(",", "")))
            )
            cores, latency = cells[head.index(column) - 1].split(", ")
            assert f"{measured['cores']:.2f}" == cores
            # Where outputs are missing, the table says that instead.
            assert latency in {f"{measured['p50_s']:.2f} s", "three of ten outputs"}
