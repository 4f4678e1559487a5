"""The dataflows on Node-RED, built as its users build them: mqtt in, three functions, mqtt out.

It is installed from npm, and runs with the settings that it comes with, apart from a port of the loopback address, its
broker's password as plain text, and no questions about telemetry. A tab has the dataflows of a tenant.
"""

import json
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import psutil

from benchmarks.peers.dataflows import OUTPUTS, TENANTS, PeerDataflow, input_topic
from benchmarks.peers.measurement import Running
from benchmarks.peers.processes import AskedProcess, asked_process, install_once, look_at_one
from bridge import Message
from bridge.broker import start_broker
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from manager.savings.counters import BROKER
from workloads.service import RunFailed, free_port

NODE_RED_VERSION = "4.1.15"
"""The newest that runs on the Node.js of long-term distributions (18.5 or later)."""
_INSTALLING = 600.0
"""Seconds; it is 120 MB on disk."""
_PATIENCE = 180.0
"""Seconds within which it has to run its flows."""
_PING, _PONG = "peers/ping", "peers/pong"
_BROKER, _PROBE = "broker", "probe"
_PLAUSIBLE = """\
if (msg.payload.value < %s || msg.payload.value > 100) {
    return null;
}
return msg;"""
_MEAN = """\
const blocks = context.get("blocks") || {};
const block = blocks[msg.payload.sensor] || { count: 0, sum: 0 };
block.count += 1;
block.sum += msg.payload.value;
const whole = block.count === %d;
if (whole) {
    msg.payload = { sensor: msg.payload.sensor, value: block.sum / block.count };
    delete blocks[msg.payload.sensor];
} else {
    blocks[msg.payload.sensor] = block;
}
context.set("blocks", blocks);
return whole ? msg : null;"""


def node_red_flows(dataflows: Sequence[PeerDataflow], address: Address) -> list[dict[str, Any]]:
    """The file of flows, with a probe that answers once all subscriptions before it are made."""
    broker = {
        "id": _BROKER,
        "type": "mqtt-broker",
        "name": "",
        "broker": address.host,
        "port": str(address.port),
        "clientid": "",
        "autoConnect": True,
        "usetls": False,
        "protocolVersion": "4",
        "keepalive": "60",
        "cleansession": True,
        "autoUnsubscribe": True,
    }
    tenants = sorted({dataflow.tenant for dataflow in dataflows})
    tabs = [_tab(tab) for tab in (*tenants, _PROBE)]
    nodes = [node for dataflow in dataflows for node in _nodes(dataflow)]
    probe = [_mqtt_in("ping", _PROBE, _PING, "pong", 60), _mqtt_out("pong", _PROBE, _PONG, 60)]
    return [broker, *tabs, *nodes, *probe]


def _nodes(dataflow: PeerDataflow) -> list[dict[str, Any]]:
    """The five nodes of a dataflow, in a row; Node-RED takes one without a place for a configuration."""
    steps = ("plausible", "mean", "notable")
    names = [f"{step}-{dataflow.number}" for step in ("in", *steps, "out")]
    height = 60 + 60 * (dataflow.number // TENANTS)
    codes = (_PLAUSIBLE % dataflow.lowest, _MEAN % dataflow.window, _PLAUSIBLE % dataflow.lowest_mean)
    functions = [
        {
            "id": name,
            "type": "function",
            "z": dataflow.tenant,
            "name": step,
            "x": 300 + 200 * place,
            "y": height,
            "func": code,
            "outputs": 1,
            "timeout": 0,
            "noerr": 0,
            "initialize": "",
            "finalize": "",
            "libs": [],
            "wires": [[below]],
        }
        for place, (step, name, code, below) in enumerate(zip(steps, names[1:4], codes, names[2:], strict=True))
    ]
    entry = _mqtt_in(names[0], dataflow.tenant, input_topic(dataflow.topic), names[1], height)
    return [entry, *functions, _mqtt_out(names[-1], dataflow.tenant, dataflow.output, height)]


def _tab(name: str) -> dict[str, Any]:
    return {"id": name, "type": "tab", "label": name, "disabled": False, "info": ""}


def _mqtt_in(name: str, tab: str, topic: str, below: str, height: int) -> dict[str, Any]:
    """A node "mqtt in", as it comes from the palette."""
    defaults = {"qos": "2", "datatype": "auto-detect", "nl": False, "rap": True, "rh": 0, "inputs": 0}
    return {**_mqtt_node("in", name, tab, topic, (100, height)), **defaults, "wires": [[below]]}


def _mqtt_out(name: str, tab: str, topic: str, height: int) -> dict[str, Any]:
    """A node "mqtt out", as it comes from the palette."""
    empty = ("qos", "retain", "respTopic", "contentType", "userProps", "correl", "expiry")
    return {**_mqtt_node("out", name, tab, topic, (900, height)), **dict.fromkeys(empty, ""), "wires": []}


def _mqtt_node(way: str, name: str, tab: str, topic: str, place: tuple[int, int]) -> dict[str, Any]:
    return {
        "id": name,
        "type": f"mqtt {way}",
        "z": tab,
        "name": "",
        "topic": topic,
        "broker": _BROKER,
        "x": place[0],
        "y": place[1],
    }


def node_red_settings(port: int) -> str:
    """The file of settings: what a new user directory has, changed where a measurement needs it."""
    return "\n".join(
        [
            "module.exports = {",
            '    flowFile: "flows.json",',
            "    credentialSecret: false,",
            "    flowFilePretty: true,",
            '    uiHost: "127.0.0.1",',
            f"    uiPort: {port},",
            "    diagnostics: { enabled: true, ui: true },",
            "    runtimeState: { enabled: false, ui: false },",
            "    telemetry: { enabled: false, updateNotification: false },",
            '    logging: { console: { level: "info", metrics: false, audit: false } },',
            "    exportGlobalContextKeys: false,",
            "    externalModules: { autoInstall: false },",
            "    functionExternalModules: true,",
            "    functionTimeout: 0,",
            "    debugMaxLength: 1000,",
            "    mqttReconnectTime: 15000,",
            "    serialReconnectTime: 15000,",
            "};",
            "",
        ]
    )


def installed_node_red(cache: Path) -> Path:
    """The program of Node-RED, installed on first use."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise RunFailed("node or npm is not installed; on Debian, apt-get install nodejs npm")
    folder = cache / f"node-red-{NODE_RED_VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    quietly = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    package = f"node-red@{NODE_RED_VERSION}"
    install_once("Node-RED", folder, [npm, "install", *quietly, "--prefix", folder, package], _INSTALLING)
    return folder / "node_modules" / "node-red" / "red.js"


@contextmanager
def running_node_red(
    dataflows: Sequence[PeerDataflow], cache: Path, folder: Path, notify: Callable[[str], None]
) -> Iterator[Running]:
    """Node-RED with a broker and the dataflows while the context lasts."""
    program = installed_node_red(cache)
    users = {"peers": secrets.token_urlsafe()}
    user_folder = folder / "user"
    user_folder.mkdir(parents=True)
    with start_broker(folder / "broker", users, kind="mosquitto") as broker:
        address = broker.address("peers")
        (user_folder / "flows.json").write_text(json.dumps(node_red_flows(dataflows, address), indent=4))
        login = {_BROKER: {"user": address.user, "password": address.password}}
        (user_folder / "flows_cred.json").write_text(json.dumps(login))
        (user_folder / "settings.js").write_text(node_red_settings(free_port()))
        node = shutil.which("node") or "node"
        command: list[str | Path] = [node, program, "--userDir", user_folder]
        notify("Node-RED is starting")
        begun = time.monotonic()
        with asked_process(command, "Node-RED", folder / "node-red.log", answers=False) as process:
            _await_answer(address, process)
            own, its_broker = process.process, psutil.Process(broker.pid)
            yield Running(
                system="node-red",
                broker=address,
                outputs=f"{OUTPUTS}/#",
                dataflow_of={dataflow.output: dataflow.number for dataflow in dataflows},
                look=lambda: {
                    **look_at_one(own, "node-red"),
                    **look_at_one(its_broker, BROKER),
                },
                notes={"deployed_s": round(time.monotonic() - begun, 1), "version": NODE_RED_VERSION},
            )


def _await_answer(address: Address, process: AskedProcess) -> None:
    answered = Event()

    def take(message: Message) -> None:
        answered.set()
        client.acknowledge([message.token])

    client = MqttClient(address, "probe", topics=[_PONG], on_message=take, lasting=False)
    client.start()
    try:
        deadline = time.monotonic() + _PATIENCE
        while not answered.wait(0.5):
            process.check()
            if time.monotonic() > deadline:
                raise RunFailed(f"Node-RED did not run its flows within {_PATIENCE:g} s; {process.tail()}")
            client.publish(_PING, b"{}")
    finally:
        client.stop()
