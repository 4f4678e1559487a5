"""A backlog: messages that the broker keeps for a client, and what it takes the client to receive them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.reception import process as measuring
from bridge.broker import BrokerKind, start_broker
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient

_USER = "bench"
_MOST_UNANSWERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Messages of one stream, and how they reach a client."""

    kind: BrokerKind
    version: int
    """MQTT's, as its packets say it."""
    payloads: Sequence[bytes]
    events: int
    """The number of events in all of them."""


def payloads(events: int, per_message: int) -> list[bytes]:
    """Raw events, as messages."""
    sent = [{"sensor": f"s{number % 50}", "t": float(number % 100), "sent": 0.0} for number in range(events)]
    if per_message == 1:
        return [json.dumps(event).encode() for event in sent]
    return [json.dumps(sent[at : at + per_message]).encode() for at in range(0, events, per_message)]


def received(backlog: Backlog, way: str, checkout: Path, folder: Path) -> dict[str, Any]:
    """What it takes one way to receive a backlog, by the code of a checkout."""
    with start_broker(folder / "broker", {_USER: "of the benchmark alone"}, kind=backlog.kind) as broker:
        address = broker.address(_USER)
        spends = psutil.Process(broker.pid).cpu_times
        arguments = [way, address.url, str(backlog.version), str(folder), str(backlog.events)]
        path = os.pathsep.join([str(checkout), *filter(None, [os.environ.get("PYTHONPATH")])])
        with subprocess.Popen(  # noqa: S603 - its own program
            [sys.executable, measuring.__file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        ) as process:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("the process has no pipes")
            if process.stdout.readline() != measuring.BACKLOG_AWAITED:
                raise RuntimeError(f"{way} of {checkout} could not begin")
            before = sum(spends()[:2])
            _publish(address, backlog.payloads)
            taken = sum(spends()[:2])
            process.stdin.write("\n")
            process.stdin.flush()
            figures: dict[str, Any] = json.loads(process.stdout.readline())
            handed_on = sum(spends()[:2])
    messages = len(backlog.payloads)
    return {
        **figures,
        "broker_us_per_message": {
            "takes": round(1e6 * (taken - before) / messages, 2),
            "hands on": round(1e6 * (handed_on - taken) / messages, 2),
        },
    }


def _publish(address: Address, messages: Sequence[bytes]) -> None:
    """Publish messages, and return once the broker has them all."""
    client = MqttClient(address, "bench-sends")
    client.start()
    answers = 0

    def answered(refusal: str) -> None:
        nonlocal answers
        if refusal:
            raise RuntimeError(refusal)
        answers += 1

    for number, payload in enumerate(messages):
        while number - answers > _MOST_UNANSWERED:
            time.sleep(0.001)
        client.publish(measuring.BACKLOG_TOPIC, payload, answered=answered)
    while answers < len(messages):
        time.sleep(0.01)
    client.stop()
