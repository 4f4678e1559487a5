"""The dataflows on peers that are fed by lines: a query of PySpark for each, and one job of PyFlink."""

import json
import os
import secrets
import sys
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.peers.dataflows import INPUT_TOPICS, OUTPUTS, PeerDataflow, input_topic
from benchmarks.peers.measurement import Running
from benchmarks.peers.processes import AskedProcess, asked_process, install_once, look_at_one
from bridge.broker import start_broker
from engine.host.cpu_meter import DRIVER, Tree, look, part_below
from engine.spark.programs import find_java
from manager.savings.counters import BROKER
from workloads.service import RunFailed

FLINK_VERSION = "2.3.0"
_PAHO_VERSION = "2.1.0"
_INSTALLING = 1_200.0
"""Seconds: PyFlink is 350 MB to fetch, and 750 MB on disk."""
_STARTING = 600.0
"""Seconds within which a peer has to read all its lines."""
_BRIDGE = "bridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    system: str
    command: tuple[str | Path, ...]
    environment: Mapping[str, str]
    readers: int
    """The connections that it makes to the bridge."""


@contextmanager
def running_spark(dataflows: Sequence[PeerDataflow], folder: Path) -> Iterator[Running]:
    """A plain query of PySpark for each dataflow while the context lasts."""
    environment = {"PYSPARK_PYTHON": sys.executable}
    java = dict(os.environ)
    find_java(java)
    environment |= {name: java[name] for name in ("JAVA_HOME",) if name in java}
    program = _Program(
        system="pyspark",
        command=(sys.executable, "-m", "benchmarks.plain.averages", folder / "checkpoints"),
        environment=environment,
        readers=len(dataflows),
    )
    with _running(program, dataflows, folder) as running:
        yield running


@contextmanager
def running_flink(dataflows: Sequence[PeerDataflow], cache: Path, folder: Path) -> Iterator[Running]:
    """A job of PyFlink with all dataflows while the context lasts."""
    program = _Program(
        system="pyflink",
        command=(installed_flink(cache), Path(__file__).with_name("flink_program.py")),
        environment={},
        readers=len({dataflow.topic for dataflow in dataflows}),
    )
    with _running(program, dataflows, folder) as running:
        yield running


def installed_flink(cache: Path) -> Path:
    """The Python that has PyFlink, installed on first use: it needs other versions of packages than Braid does."""
    folder = cache / f"flink-{FLINK_VERSION}"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    packages = [f"apache-flink=={FLINK_VERSION}", f"paho-mqtt=={_PAHO_VERSION}"]
    quietly = ["--quiet", "--disable-pip-version-check"]
    install_once("PyFlink", folder, [python, "-m", "pip", "install", *quietly, *packages], _INSTALLING)
    return python


@contextmanager
def _running(program: _Program, dataflows: Sequence[PeerDataflow], folder: Path) -> Iterator[Running]:
    """Run a program that gets a file of dataflows and a broker as its last arguments, and is fed by the bridge."""
    folder.mkdir(parents=True)
    with start_broker(folder / "broker", {"peers": secrets.token_hex()}, kind="mosquitto") as broker:
        url = broker.address("peers").url
        topics = [input_topic(topic) for topic in range(INPUT_TOPICS)]
        bridge_command = [sys.executable, "-m", "benchmarks.peers.lines_bridge", url, *topics]
        begun = time.monotonic()
        with asked_process(bridge_command, "the bridge", folder / "bridge.log") as bridge:
            ports = json.loads(bridge.line(_STARTING))
            configs = folder / "dataflows.json"
            configs.write_text(json.dumps([_config(dataflow, ports) for dataflow in dataflows]), encoding="utf-8")
            command = [*program.command, configs, url]
            log = folder / f"{program.system}.log"
            with asked_process(command, program.system, log, environment=program.environment) as process:
                _await_readers(bridge, process, program.readers)
                yield Running(
                    system=program.system,
                    broker=broker.address("peers"),
                    outputs=f"{OUTPUTS}/#",
                    dataflow_of={dataflow.output: dataflow.number for dataflow in dataflows},
                    look=_looking(process.process, bridge.process, psutil.Process(broker.pid)),
                    notes={"deployed_s": round(time.monotonic() - begun, 1)},
                )


def _config(dataflow: PeerDataflow, ports: Sequence[int]) -> dict[str, object]:
    return {
        "port": ports[dataflow.topic],
        "lowest": dataflow.lowest,
        "window": dataflow.window,
        "lowest_mean": dataflow.lowest_mean,
        "output": dataflow.output,
    }


def _await_readers(bridge: AskedProcess, program: AskedProcess, readers: int) -> None:
    deadline = time.monotonic() + _STARTING
    connected = 0
    while connected < readers:
        if bridge.next_line(1.0) is not None:
            connected += 1
        program.check()
        if time.monotonic() > deadline:
            raise RunFailed(f"{connected} of {readers} readers came within {_STARTING:g} s; {program.tail()}")


def _looking(program: psutil.Process, bridge: psutil.Process, broker: psutil.Process) -> Callable[[], Tree]:
    return lambda: {
        **look(program, DRIVER, part_below),
        **look_at_one(bridge, _BRIDGE),
        **look_at_one(broker, BROKER),
    }
