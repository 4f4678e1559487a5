"""The demo: what it shows is so, and nothing is left of it however it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from bridge import Message, topics
from bridge.broker import start_broker
from bridge.mqtt import Client, spoken
from manager.answers import BrokerCredentials
from manager.command import app
from workloads import service
from workloads.demo import playing
from workloads.demo.stage import Stage
from workloads.outputs import Heard, Outputs, listening
from workloads.service import RunFailed, Service

BOUND = 240.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo makes its temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.spark
@pytest.mark.mosquitto
def test_the_demo_shows_what_is_shared_and_that_the_others_never_stop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three dataflows share tasks, one leaves and comes back, the others miss nothing, and nothing is left.

    People read it, and with --json programs as one document.
    """
    for seconds in ("WATCHING", "SETTLING", "MEASURING"):
        monkeypatch.setattr(playing, seconds, 1.0)
    result = CliRunner().invoke(app, ["demo", "--json"])
    assert 0 == result.exit_code, result.output
    shown = result.stderr
    told = json.loads(result.stdout)
    assert [(1, 7, 7), (2, 11, 17), (3, 16, 27), (3, 16, 27)] == [
        tuple(each["in_all"][name] for name in ("dataflows", "running", "submitted")) for each in told["submitted"]
    ]
    assert ["sensors", "clean", "smooth", "model", "mean score", "scores"] == told["submitted"][1]["reused"]
    assert [["means"], 2] == [list(told["removed"]["stopped"]), told["removed"]["in_all"]["dataflows"]]
    assert all(each["after"] >= each["before"] + 60 for each in told["others"])
    assert [16, 27] == [told[name]["sums"]["running"] for name in ("with_sharing", "without_sharing")]
    assert [
        ("1", "7", "7"),
        ("2", "11", "17"),
        ("3", "16", "27"),
        ("2", "15", "20"),
        ("3", "16", "27"),
    ] == re.findall(r"(\d+) dataflows?, (\d+) running tasks instead of (\d+)", shown)
    assert [
        "-",
        "sensors, clean, smooth, model, mean score, scores",
        "urban, clean, model, mean score, scores",
        "urban, plausible, mean, model, mean score, scores",
    ] == re.findall(r" reused +(.+)", shown)
    assert ["means"] == re.findall(r" stopped +(.+)", shown)
    assert "Connected to the broker as tenant-city" in shown
    went_on = re.findall(r"^ +city +(\w+) +([\d,]+) +([\d,]+) +none +", shown, re.MULTILINE)
    assert ["readings", "scores", "warnings", "scores", "totals"] == [output for output, _, _ in went_on]
    assert all(number(after) >= number(before) + 60 for _, before, after in went_on)
    assert [("16", "27")] == re.findall(r"running tasks +(\d+) +(\d+)", shown)
    ((shared, alone),) = re.findall(r"cores in all +([\d.]+) +([\d.]+)", shown)
    assert float(shared) > 0.0
    assert float(alone) > 0.0
    assert "no process is left" in shown.splitlines()[-1]
    assert [] == list(folder.iterdir())


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_demo_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """Neither a process nor a file, whichever way it is told to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from manager.command import app; app()", "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    below: list[psutil.Process] = []
    try:
        assert process.stdout is not None
        # Something was submitted by then, so that there are workers too.
        assert any("submits" in line for line in process.stdout)
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        rest, _ = process.communicate(timeout=BOUND)
        assert 130 == process.returncode, rest
        assert rest.splitlines()[-1].startswith("Interrupted: everything was stopped")
        assert len(below) > 3
        assert [] == [each for each in below if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
        assert [] == list(tmp_path.iterdir())
    finally:
        process.kill()
        process.wait()
        for each in below:
            with suppress(psutil.NoSuchProcess):
                each.kill()


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which somebody listens already."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_demo_that_cannot_begin_says_why_and_where_the_log_is(
    folder: Path, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the service wrote last is shown, to programs as a problem, and its log is kept."""
    monkeypatch.setattr(service, "_free_port", lambda: taken_port)
    result = CliRunner().invoke(app, ["demo", "--json"])
    assert 8 == result.exit_code
    why = f"REST cannot be served on 127.0.0.1, port {taken_port}"
    problem = json.loads(result.stdout)["problem"]
    assert ("demo-failed", True, True) == (problem["code"], why in problem["detail"], why in result.stderr)
    (kept,) = folder.iterdir()
    assert f"The service's log is {kept / 'serve.log'}" in result.stderr
    assert "REST cannot be served" in (kept / "serve.log").read_text()


def test_what_comes_twice_counts_once_and_what_is_missing_is_told() -> None:
    """By the numbers: they begin where the first message does, and go on from there."""
    heard = Heard().take(7, ["a", "b"], 1.0).take(8, ["b", "c"], 3.0).take(8, ["b"], 4.0)
    assert Heard(begun=7, events=3, missing=0, last="c", at=3.0, longest=2.0) == heard
    assert 2 == heard.take(12, ["f"], 5.0).missing
    assert 2 == heard.take(12, ["f"], 5.0).take(13, ["g"], 6.0).missing


def test_the_demo_fails_where_an_event_is_missing(tmp_path: Path) -> None:
    """In whatever output; it names the output, and how many numbers are missing."""
    outputs = Outputs()
    with Service(tmp_path).client("no key") as operator:
        stage = Stage(Service(tmp_path), operator, outputs)
        outputs.deliver(Message("braid/1/out/ann/d-1/means", b'{"epoch": 1, "first": 4, "events": [1, 2]}', 1))
        stage.check_numbers()
        outputs.deliver(Message("braid/1/out/ann/d-1/means", b'{"epoch": 1, "first": 9, "events": [3]}', 2))
        with pytest.raises(RunFailed, match="3 of braid/1/out/ann/d-1/means"):
            stage.check_numbers()


def test_where_the_broker_lets_no_tenant_in_outputs_are_read_as_braid(tmp_path: Path) -> None:
    """Tenants' credentials name no broker then, and the demo says as whom it reads."""
    topic = topics.output("ann", "d-1", "means")
    with start_broker(tmp_path / "broker", {"braid": "secret"}, kind="amqtt") as broker:
        address = broker.address("braid")
        (tmp_path / "broker.url").write_text(f"{address.url}\n")
        none = BrokerCredentials(url="", user="tenant-ann", password="unused", reads=(), writes=())  # noqa: S106 - of no use
        outputs = Outputs()
        with listening(outputs, {"ann": none}, tmp_path) as told:
            sender = Client(address, "sender", protocol=spoken(address))
            sender.start()
            sender.publish(
                topic, json.dumps({"stream": "means", "epoch": 1, "first": 0, "events": [{"t": 1}]}).encode()
            )
            outputs.wait_for_more({topic: 1})
            sender.stop()
    assert "lets no tenant in" in told
    assert {"t": 1} == outputs[topic].last


def number(text: str) -> int:
    return int(text.replace(",", ""))
