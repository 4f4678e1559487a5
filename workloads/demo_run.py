"""The second half of the demo: the dataflows run as one Spark job, with a broker and a host of the demo's own."""

import json
import secrets
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bridge import Message, topics
from bridge.broker import start_broker
from bridge.mqtt import Client
from engine.host_keeper import HostKeeper
from engine.plan import Plan, written_plan

PATIENCE = 180.0
"""Seconds after which the demo gives up: a slow machine takes one of them to start Spark."""
_USER = "demo"


class DemoFailed(RuntimeError):
    """Something did not come that should have; says what, and where to look."""


class Heard:
    """What the demo hears of its job: outputs, status and metrics."""

    def __init__(self) -> None:
        self.outputs: dict[str, list[dict[str, Any]]] = {}
        """The events of each output, by topic."""
        self.told: dict[str, dict[str, Any]] = {}
        """What was published last on each other topic."""
        self.missing = 0
        """How many numbers no event came with."""
        self._changed = threading.Condition()

    def deliver(self, message: Message) -> None:
        """Called by the client's thread."""
        if not message.payload:
            return
        told = json.loads(message.payload)
        with self._changed:
            if "events" in told:
                events = self.outputs.setdefault(message.topic, [])
                self.missing += max(0, told["first"] - len(events))
                # What is sent twice bears the same numbers.
                events += told["events"][max(0, len(events) - told["first"]) :]
            else:
                self.told[message.topic] = told
            self._changed.notify_all()

    def wait(self, what: str, test: Callable[[], bool]) -> None:
        """Wait until something is so."""
        with self._changed:
            if not self._changed.wait_for(test, PATIENCE):
                raise DemoFailed(f"the demo waited {PATIENCE:g} s for {what}, in vain; see the host's log")


class Running:
    """A host and a broker, ready to run plans."""

    def __init__(self, root: Path, host: str, heard: Heard, client: Client) -> None:
        self.root = root
        self.host = host
        self.heard = heard
        self._client = client

    def run(self, plan: Plan) -> None:
        """Give the host a plan, and wait until it is in effect."""
        self._client.publish(topics.job(plan.job, "plan"), written_plan(plan), retain=True)
        status = topics.job(plan.job, "status")
        self.heard.wait(
            f"version {plan.version} of the plan to take effect",
            lambda: self.heard.told.get(status, {}).get("in_effect") == plan.version,
        )

    def await_events(self, outputs: Collection[str], more: int) -> None:
        """Wait until each of these outputs has got so many events more."""
        wanted = {topic: len(self.heard.outputs.get(topic, [])) + more for topic in outputs}
        self.heard.wait(
            "events at every output",
            lambda: all(len(self.heard.outputs.get(topic, [])) >= count for topic, count in wanted.items()),
        )

    def metrics(self, job: str) -> Mapping[str, Mapping[str, int]]:
        """What each instance did so far."""
        instances: Mapping[str, Mapping[str, int]] = self.heard.told[topics.job(job, "metrics")]["instances"]
        return instances


@contextmanager
def running(host: str) -> Iterator[Running]:
    """Start a broker and a host in a folder that goes away afterwards."""
    heard = Heard()
    with (
        tempfile.TemporaryDirectory(prefix="braid-demo-") as folder,
        start_broker(Path(folder) / "broker", {_USER: secrets.token_urlsafe()}) as broker,
    ):
        address = broker.address(_USER)
        client = Client(
            address, "demo", topics=[f"{topics.ROOT}/{what}/#" for what in ("jobs", "out")], on_message=heard.deliver
        )
        client.start()
        try:
            with HostKeeper(host, Path(folder) / "host", address):
                yield Running(Path(folder) / "host", host, heard, client)
        finally:
            client.stop()


def show_outputs(out: Console, heard: Heard, names: Mapping[str, str]) -> None:
    """What reached each output; names are by topic."""
    table = Table("tenant", "output", "events", "the last one", title="What arrived", title_justify="left")
    for topic, name in names.items():
        tenant = topic.split("/")[-3]
        events = heard.outputs.get(topic, [])
        last = json.dumps(events[-1]) if events else ""
        table.add_row(escape(tenant), escape(name), str(len(events)), escape(last))
    out.print(table)


def show_work(out: Console, metrics: Mapping[str, Mapping[str, int]], names: Mapping[int, str]) -> None:
    """What each instance took, gave and cost."""
    table = Table("instance", "task", "took", "gave", "CPU ms", title="What it cost", title_justify="left")
    for instance, meter in sorted(metrics.items(), key=lambda each: int(each[0])):
        table.add_row(
            instance,
            escape(names.get(int(instance), "")),
            str(meter["taken"]),
            str(meter["emitted"]),
            f"{meter['cpu_ns'] / 1e6:.1f}",
        )
    out.print(table)
