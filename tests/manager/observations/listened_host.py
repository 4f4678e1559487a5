"""A listener over a broker in memory, and a host that publishes what a test needs."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from bridge import topics
from engine.plan import Plan
from engine.plan_messages import written_plan
from manager.observations.listener import Listener
from manager.observations.sight import JobSight
from tests.twins.memory_broker import MemoryBroker, MemoryClient

BOUND = 30.0


class Hearing:
    """A listener with its host."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.clock = 0.0
        self.news = threading.Condition()
        self.marks = 0
        self.client: MemoryClient | None = None
        self.listener = Listener(self._connect, clock=lambda: self.clock)
        self.listener.on_news(self._note)

    def _connect(self, client_id: str, **options: Any) -> Any:
        self.client = MemoryClient(self.broker, client_id, lasting=False, **options)
        self.client.start()
        return self.client

    def say(self, topic: str, content: object, *, retain: bool = True) -> None:
        """Publish a message of the host."""
        self.broker.publish(
            topic, content if isinstance(content, bytes) else json.dumps(content).encode(), retain=retain
        )

    def say_status(self, job: str, **fields: object) -> None:
        """Publish the status of a job."""
        self.say(topics.job(job, "status"), {"job": job, "host": "h", "state": "running", **fields})

    def say_plan(self, plan: Plan) -> None:
        """Publish a plan, as a manager does."""
        self.say(topics.job(plan.job, "plan"), written_plan(plan))

    def refuse(self, job: str, why: str) -> None:
        """Publish the refusal of a plan."""
        self.say(topics.job(job, "refused"), {"host": "h", "why": why}, retain=False)

    def job(self, job: str) -> JobSight:
        """Return the sight of a job."""
        return self.listener.sight().jobs.get(job, JobSight())

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a condition is true."""
        deadline = time.monotonic() + BOUND
        while not condition():
            with self.news:
                self.news.wait(0.01)
            if time.monotonic() > deadline:
                pytest.fail(f"not within {BOUND:g} s: {what}; {self.listener.sight()}")

    def until_complete(self) -> None:
        """Wait until all retained messages have arrived."""
        self.until(lambda: self.listener.sight().complete, "everything to have come")

    def settle(self) -> None:
        """Wait until all published messages are processed."""
        self.say(topics.host("last", "status"), {"alive": True, "dropped": self.marks})
        self.until(
            lambda: any(host.dropped == self.marks for host in self.listener.hosts() if host.host == "last"), "the end"
        )
        self.say(topics.host("last", "status"), b"")
        self.until(lambda: all(host.host != "last" for host in self.listener.hosts()), "the end")
        self.marks += 1

    def _note(self) -> None:
        with self.news:
            self.news.notify_all()
