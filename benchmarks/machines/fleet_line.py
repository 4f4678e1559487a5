"""The line of a fleet: what is sent to it, and what is heard of it."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from benchmarks.instruments import heard
from bridge import Message, topics
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient

T = TypeVar("T")


def source(job: int) -> str:
    """The name and the topic of a job's source."""
    return f"numbers-{job}"


class FleetLine:
    """A sender of numbered events, and a listener to outputs, orders and statuses."""

    def __init__(self) -> None:
        self.orders: dict[str, dict[str, Any]] = {}
        """Who carries each host, by its name."""
        self.statuses: dict[str, dict[str, Any]] = {}
        """What each machine reports, by its name."""
        self.sent_at: dict[int, float] = {}
        self.came_at: dict[int, float] = {}
        """When the output for an event came first, by the event's number."""
        self.doubled = 0
        """Events that came out twice, and outputs whose number had another event."""
        self.jobs = 1
        """Each event is sent to one of so many jobs, in turn."""
        self._numbered: dict[tuple[str, int], Any] = {}
        self._came_as: dict[int, tuple[str, int]] = {}
        """The topic and number with which each event came out."""
        self._news = threading.Condition()
        self._line: MqttClient | None = None
        self._sending = threading.Event()
        self._sender: threading.Thread | None = None

    def listen(self, broker: Address) -> None:
        """Listen from now on."""
        subscribed = [topics.host("+", "carrier"), topics.machine("+", "status"), f"{topics.ROOT}/out/#"]
        self._line = MqttClient(broker, "bench", topics=subscribed, on_message=self._take, lasting=False)
        self._line.start()

    def hang_up(self) -> None:
        """Send and hear nothing more."""
        self._sending.set()
        if self._line is not None:
            self._line.stop()

    def carrier(self, host: str) -> str:
        """The machine that carries a host; empty if nobody has been ordered to."""
        return str(self.orders.get(host, {}).get("machine", ""))

    def has_copies(self, host: str, many: int) -> bool:
        """Whether so many machines are counted to have everything of a host."""
        return len(self.orders.get(host, {}).get("kept_by", ())) >= many

    def send(self, per_second: float, keys: int = 100) -> None:
        """Send numbered events until `quiet`."""
        self._sending.clear()

        def run() -> None:
            while not self._sending.wait(1 / per_second):
                number = len(self.sent_at)
                self.sent_at[number] = time.time()
                self.publish({"n": number, "k": f"k{number % keys}"}, number % self.jobs)

        self._sender = threading.Thread(target=run, name="sends", daemon=True)
        self._sender.start()

    def quiet(self) -> None:
        """Send no more, and wait for all outputs."""
        self._sending.set()
        if self._sender is not None:
            self._sender.join()
        self.wait(lambda: len(self.came_at) >= len(self.sent_at), "all outputs")

    def publish(self, events: Mapping[str, Any] | list[dict[str, Any]], job: int = 0) -> None:
        """Publish an event for a job's source, or several in one message."""
        if self._line is None:
            raise RuntimeError("begin first")
        self._line.publish(source(job), json.dumps(events).encode())

    def first_output_after(self, at: float) -> float:
        """When the last of all jobs had its first output for an event that was sent after some time."""

        def look() -> float | None:
            firsts: dict[int, float] = {}
            for number, came in list(self.came_at.items()):
                if self.sent_at.get(number, 0) > at:
                    firsts[number % self.jobs] = min(came, firsts.get(number % self.jobs, came))
            return max(firsts.values()) if len(firsts) == self.jobs else None

        return self.wait(look, "an output of each job")

    def latencies(self, begun: float) -> list[float]:
        """The milliseconds from event to output, of all events sent since then."""
        return [
            (came - sent) * 1_000 for n, sent in self.sent_at.items() if sent > begun and (came := self.came_at.get(n))
        ]

    def wait(self, look: Callable[[], T | None], what: str) -> T:
        """Wait until something was heard, and return it."""
        return heard(self._news, look, what)

    def _take(self, message: Message) -> None:
        now = time.time()
        with self._news:
            parts = message.topic.split("/")
            content = json.loads(message.payload) if message.payload else {}
            if parts[2] == "hosts":
                self.orders[parts[3]] = content
            elif parts[2] == "machines":
                self.statuses[parts[3]] = content
            else:
                for number, event in enumerate(content["events"], content["first"]):
                    before = self._numbered.setdefault((message.topic, number), event)
                    self.doubled += before != event
                    if event.get("n", -1) >= 0:
                        came_as = self._came_as.setdefault(event["n"], (message.topic, number))
                        self.doubled += came_as != (message.topic, number)
                        self.came_at.setdefault(event["n"], now)
            self._news.notify_all()
        if self._line is not None:
            self._line.acknowledge([message.token])
