"""The guide for plants: what it shows of other programs works beside a real service, with those that can be had."""

import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.peers.node_red import installed_node_red, node_red_settings
from benchmarks.peers.processes import asked_process
from braid_client.answers.dataflows import DataflowState
from bridge.formats.sparkplug_decoder import rebirth_request
from bridge.formats.sparkplug_messages import Payload
from bridge.transport.address import Address
from tests.documentation.pages import page
from tests.integration.serving import BOUND, Served, serving
from tests.integration.test_output_formats import Reader
from tests.integration.test_shell_blocks import second_terminal, typed
from workloads.service import free_port

pytestmark = [pytest.mark.full, pytest.mark.spark]
GUIDE = page("docs/how-to/connect-your-plant.md")
CACHE = Path(__file__).parents[2] / ".cache" / "peers"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A service on which somebody typed the guide's lines."""
    with serving(Served(tmp_path, pace=0.2)) as made:
        settings = {"BRAID_ROOT": str(made.root), "BRAID_PORT": str(made.port)}
        assert "" == typed(GUIDE, tmp_path, second_terminal(tmp_path), settings)
        with made.client() as operator:
            (hot,) = (dataflow for dataflow in operator.dataflows() if dataflow.name == "hot machines")
            made.until_state(operator, hot.id, DataflowState.RUNNING)
        yield made


def forge(served: Served) -> Address:
    """The broker's address, with the tenant's user and a new password."""
    with served.client() as operator:
        given = operator.make_credentials("forge")
    address = Address.parse(given.url)
    return Address(host=address.host, port=address.port, user=given.user, password=given.password)


def test_what_telegraf_publishes_is_read_and_what_it_subscribes_to_comes(served: Served) -> None:
    """The transformation in its configuration gives this form, and its parser takes line protocol."""
    out, back = (tomllib.loads(example.text) for example in GUIDE.examples if example.language == "toml")
    (output,), (consumer,) = out["outputs"]["mqtt"], back["inputs"]["mqtt_consumer"]
    assert "1ms" == output["json_timestamp_units"]
    address = forge(served)
    assert {address.user} == {output["username"], consumer["username"]}
    reader = Reader(address, *consumer["topics"])
    # A metric of the name `press` with a tag and a field.
    event = {"host": "p7", "celsius": 93.5, "measurement": "press", "at": 1_770_091_506_000}
    topic = output["topic"].replace('{{ .Tag "host" }}', "p7")
    reader.client.publish(topic, json.dumps(event), qos=output["qos"])
    reader.until(lambda: bool(reader.messages), "the line of a hot machine")
    (line,) = reader.on("forge/hot-lines")
    measured, fields, at = line.decode().split(" ")
    assert ("hot,machine=p7", "1770091506000000000") == (measured, at)
    assert {"celsius=93.5", 'host="p7"', 'measurement="press"'} == {*fields.split(",")}
    reader.close()


def test_what_is_hot_is_data_of_the_edge_node(served: Served) -> None:
    """With the time of the reading; the birth comes before it, or when it is asked for."""
    with served.client() as operator:
        (node,) = (dataflow for dataflow in operator.dataflows() if dataflow.name.endswith("as an edge node"))
        served.until_state(operator, node.id, DataflowState.RUNNING)
    reader = Reader(forge(served), "spBv1.0/forge.hot/#")
    reader.client.publish("spBv1.0/forge.hot/NCMD/machines", rebirth_request(1.0), qos=1)
    reader.until(lambda: bool(reader.on("spBv1.0/forge.hot/NBIRTH/machines")), "a birth")
    served.publish("forge/readings/press", [{"celsius": 71.5, "at": 1_770_091_506_000}])
    reader.until(lambda: bool(reader.on("spBv1.0/forge.hot/NDATA/machines")), "what is hot")
    (data,) = reader.on("spBv1.0/forge.hot/NDATA/machines")
    metrics = {metric.name: metric for metric in Payload.FromString(data).metrics}
    assert ({"celsius", "machine"}, 71.5, "press") == (
        {*metrics},
        metrics["celsius"].double_value,
        metrics["machine"].string_value,
    )
    assert {1_770_091_506_000} == {metric.timestamp for metric in metrics.values()}
    reader.close()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed, so Node-RED cannot be")
def test_the_flow_for_node_red_sends_readings_and_shows_what_is_hot(served: Served, tmp_path: Path) -> None:
    """It is imported as it stands there, with the port and the password of this service."""
    (flow,) = (json.loads(example.text) for example in GUIDE.examples if example.language == "json")
    address = forge(served)
    broker = next(node for node in flow if node["type"] == "mqtt-broker")
    broker |= {"broker": address.host, "port": str(address.port)}
    user_folder = tmp_path / "node-red"
    user_folder.mkdir()
    (user_folder / "flows.json").write_text(json.dumps(flow))
    login = {broker["id"]: {"user": address.user, "password": address.password}}
    (user_folder / "flows_cred.json").write_text(json.dumps(login))
    (user_folder / "settings.js").write_text(node_red_settings(free_port()))
    log = tmp_path / "node-red.log"
    command: list[str | Path] = [shutil.which("node") or "node", installed_node_red(CACHE), "--userDir", user_folder]
    with asked_process(command, "Node-RED", log, answers=False):
        served.until(lambda: "celsius: 71.5, machine: 'press'" in _one_line(log), "what is hot", bound=2 * BOUND)


def _one_line(log: Path) -> str:
    return " ".join(log.read_text().split())
