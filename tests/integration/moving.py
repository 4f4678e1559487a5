"""A service whose jobs are scattered and consolidated while tenants come and go; what their outputs have to be.

Events are numbered and go round a few keys. So what a dataflow delivers tells from where on it had them, from where on
the tasks that it shares have counted them, and whether any was lost, doubled, or counted by a fresh state.
"""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import Thread
from typing import Any, Self

import pytest

from braid_client.answers.dataflows import DataflowState, SubmitAnswer
from braid_client.errors import Refused
from manager.moves.watcher import WATCHER_PERIOD, Watcher
from manager.process.manager import Manager, _Word
from manager.settings import Placement, Settings
from tests.integration.hosting import counted, numbers
from tests.integration.serving import BOUND, Served, counting, passing, street

FEW = 6
"""Events that are published together."""
MOST = 5
"""Dataflows that run at once."""


class Within(Served):
    """A service whose manager is in the test's own process, so that it can be had to do what nobody may ask for.

    By itself it begins nothing, because for its watcher no time passes but that which `hasten` lets pass.
    """

    def __init__(self, folder: Path, *, pace: float = 0.5, placement: Placement = "pack") -> None:
        super().__init__(folder, pace=pace, placement=placement)
        # There is no process of the service that would write it.
        self.log.touch()
        self._orders: SimpleQueue[_Word] = SimpleQueue()
        settings = Settings(root=self.root, port=self.port, pace=self.pace, master="local[2,8]", placement=placement)
        self._manager = Manager(settings, self._orders)
        self._thread = Thread(target=self._manager.run, daemon=True)
        self._now = 0.0
        self.committer = self._manager._committer
        self.changes = self._manager._changes
        self.chooser = self._manager._chooser
        watcher = Watcher(self.committer, self.changes.moves, self.changes.jobs, self.chooser, clock=lambda: self._now)
        self._manager._watches = tuple(
            each._replace(look=watcher.look) if each.otherwise == "jobs stay scattered" else each
            for each in self._manager._watches
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self.until(self.ready, "the service to be ready")
        self.look()
        return self

    def hasten(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that the watcher is to do, a hundred times as fast as it would."""

        def passes() -> bool:
            self._now += WATCHER_PERIOD
            return condition()

        self.until(passes, what)

    def __exit__(self, *_error: object) -> None:
        self._orders.put(_Word("stop"))
        self._thread.join(BOUND)
        self.close()


@dataclass
class Tenancy:
    """One dataflow, and how many events there were when."""

    answer: SubmitAnswer
    counter: int | None
    """Which instance counts for it; none where nothing is counted."""
    latest: int
    """When it ran: it began there at the latest, and earlier where events were under way."""
    end: int | None = None
    """When its removal was asked for."""


class Scattered:
    """Tenants of one source, on a service that places every residue in a job of its own."""

    def __init__(self, served: Served, seed: int) -> None:
        self.served = served
        self.draw = Random(seed)
        self.published = 0
        self.flows: list[Tenancy] = []
        self.since: dict[int, int] = {}
        """For each task that counts at which event it was started at the latest."""
        self.operator = served.client()
        self.ann = served.admit("ann")
        self.ann.register_source(street())
        # Before anything is delivered.
        _ = served.line

    def close(self) -> None:
        self.operator.close()
        self.ann.close()

    @property
    def alive(self) -> list[Tenancy]:
        return [each for each in self.flows if each.end is None]

    def publish(self, many: int = FEW) -> None:
        self.served.publish("city/street", numbers(self.published, self.published + many))
        self.published += many

    def submit(self) -> None:
        """Submit a dataflow that shares something with others, or all."""
        counts = self.draw.random() < 0.6
        most = self.draw.choice((1_000_000, 2_000_000))
        document = counting("street") if counts else passing("street", most)
        if counts:
            document["tasks"][1]["config"]["max"] = most
        answer = self.ann.submit(document)
        self.served.until_state(self.ann, answer.id, DataflowState.RUNNING)
        counter = next((task.instance for task in self.ann.dataflow(answer.id).tasks if task.id == "count"), None)
        if counter is not None:
            self.since.setdefault(counter, self.published)
        self.flows.append(Tenancy(answer=answer, counter=counter, latest=self.published))

    def remove(self) -> None:
        """Remove any one of those that run."""
        flow = self.draw.choice(self.alive)
        self.ann.remove(flow.answer.id)
        flow.end = self.published

    def change(self) -> None:
        """Submit or remove, so that some run."""
        many = len(self.alive)
        (self.submit if many < 2 or (many < MOST and self.draw.random() < 0.6) else self.remove)()

    def defragment(self) -> bool:
        """Ask for a defragmentation; False where nothing is scattered."""
        try:
            self.operator.defragment()
        except Refused as error:
            if error.code != "conflict":
                raise
            return False
        return True

    def until_settled(self) -> None:
        """Publish on until nothing moves any more."""

        def settled() -> bool:
            self.publish()
            return self.operator.fragmentation().move is None

        self.served.until(settled, "the move to be over")

    def phase(self) -> str | None:
        """In which phase the move under way is, as the database says, because REST is slower than a move."""
        database = sqlite3.connect(self.served.root / "braid.db", timeout=10.0)
        try:
            found = database.execute("SELECT phase FROM move").fetchone()
        finally:
            database.close()
        return found[0] if found else None

    def check(self) -> None:
        """Hold each output against what it has to be; those that run have the last event."""
        self.publish()
        for flow in self.alive:
            self.served.until(lambda flow=flow: self._is_complete(flow), f"all of {flow.answer.id}")  # type: ignore[misc]
        for flow in self.flows:
            self._check(flow)

    def _is_complete(self, flow: Tenancy) -> bool:
        """Whether the last event came; of what is counted only its key tells, so the whole is looked at."""
        return bool(self._came(flow)) and self._begun(flow) is not None

    def _came(self, flow: Tenancy) -> list[dict[str, Any]]:
        found = self.served.numbered(flow.answer, "out")
        first = min(found, default=0)
        assert list(range(first, first + len(found))) == sorted(found), "a number is missing"
        return [found[number] for number in sorted(found)]

    def _expected(self, flow: Tenancy, since: int = 0) -> list[dict[str, Any]]:
        events = numbers(since, self.published)
        return events if flow.counter is None else counted(events)

    def _check(self, flow: Tenancy) -> None:
        begun = self._begun(flow)
        assert begun is not None, f"{flow} got {json.dumps(self._came(flow))[:2_000]}"

    def _begun(self, flow: Tenancy) -> int | None:
        """At which event a dataflow began, if what it delivered is what follows from there; all, where it runs."""
        came = self._came(flow)
        if flow.end is not None and not came:
            # It was removed before anything reached it.
            return flow.latest
        for start in range(1 if flow.counter is None else self.since[flow.counter] + 1):
            every = self._expected(flow, start)
            # Events go round the keys, so that there is one place at most where it can have begun.
            for begun in range(start, flow.latest + 1):
                if came[:1] != every[begun - start : begun - start + 1]:
                    continue
                rest = every[begun - start :]
                if came == (rest if flow.end is None else rest[: len(came)]):
                    return begun
        return None


def scatter(town: Scattered) -> None:
    """Have dataflows that share tasks run in more jobs than one."""
    for _ in range(10):
        town.submit()
        town.publish()
        if len(list(town.operator.jobs())) > 1:
            return
    pytest.fail("whatever is submitted runs in one job")
