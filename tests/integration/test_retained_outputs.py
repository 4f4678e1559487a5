"""What topics retain of outputs that are gone: cleared at real brokers, and nothing of others, whatever crashes."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from braid_client.answers.dataflows import Stop
from braid_client.answers.sources import SourceForm
from bridge import Message
from bridge.broker import Broker, start_broker
from bridge.machine import BackOff
from bridge.transport.mqtt_client import MqttClient
from dags import Catalogue
from engine.job.lifecycle import JobState
from engine.tasks import TYPES
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight, Sight
from manager.outputs import retained
from manager.outputs.retained import RetainedTopicClearing
from manager.store.database import sqlite_url
from tests.brokers import KINDS
from tests.integration.test_receiving import until
from tests.manager.managers import OPERATOR, Manager, caller, raw

USERS = {"braid": "a password of its own"}
ANN, BOB = caller("ann"), caller("bob")


class Crash(Exception):
    """The manager is killed."""


class Clearing:
    """A manager, and the clearing that its reconciler has look, over a real broker."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.line = self.connect(f"sends-{uuid.uuid4().hex}")
        self.cleared: list[str] = []
        self.dies_after = 1 << 30
        self.jobs: dict[str, JobSight] = {}
        self.begin()

    def begin(self) -> None:
        """Begin to manage, perhaps after a crash: nothing is left but the database and the broker."""
        self.manager = Manager(sqlite_url(self.folder / "braid.db"), catalogue=Catalogue.of(TYPES)).lead()
        self.clearing = RetainedTopicClearing(self.manager.changes.retired_topics, self.connect, self._clear)
        self.clearing.start()

    def end(self) -> None:
        self.clearing.stop()
        self.manager.close()

    def connect(self, client_id: str, **options: Any) -> MqttClient:
        client = MqttClient(self.broker.address("braid"), client_id, lasting=False, **options)
        client.begin()
        return client

    def _clear(self, topic: str) -> None:
        if len(self.cleared) >= self.dies_after:
            raise Crash
        self.cleared.append(topic)
        self.line.publish_once(topic, b"", retain=True)

    def retain(self, *names: str) -> None:
        """Publish as hosts do, and wait until the broker has it."""
        answers: list[str] = []
        for name in names:
            self.line.publish(name, b"1", retain=True, answered=answers.append)
        until(lambda: len(answers) == len(names))

    def retained(self, *filters: str) -> set[str]:
        """All that is retained."""
        found, marks = set[str](), set[str]()

        def take(message: Message) -> None:
            (found if message.retained else marks).add(message.topic)
            reader.acknowledge([message.token])

        mark = f"mark/{uuid.uuid4().hex}"
        reader = self.connect(f"reads-{uuid.uuid4().hex}", on_message=take)
        reader.subscribe([*filters, mark])
        reader.publish(mark, b"")
        until(lambda: mark in marks)
        reader.stop()
        return found

    def submit(self, tenant: str, topic: str) -> str:
        """A dataflow that retains on a topic."""
        line = "s:source{'source': 'ann:s'} > c:count{'by': ['t']} > out:output" + str(
            {"format": "plain", "topic": "TOPIC", "retain": True}
        )
        document = raw(line).replace(b"TOPIC", topic.encode())
        return self.manager.service.dataflows.submit(caller(tenant), document).id

    def remove(self, dataflow: str) -> None:
        self.manager.service.dataflows.remove(OPERATOR, dataflow, Stop.NOW)

    def report(self, *, left: bool = True) -> None:
        """Have all jobs report that all by the plans before has left, or that the last of that has not."""
        with self.manager.committer.looking() as state:
            for job, plan in {**state.plans, **state.stopped}.items():
                stopped = job in state.stopped
                self.jobs[str(job)] = JobSight(
                    seen=JobSeen(
                        job=str(job),
                        host="h",
                        state=JobState.STOPPED if stopped else JobState.RUNNING,
                        leaving=plan.version + stopped - (not left),
                        seen=datetime.now(UTC),
                    )
                )

    def look(self, *, seconds: float = 0.0, done: Callable[[], bool] = lambda: False) -> None:
        """Look again and again, for so long or until something is true."""
        deadline = time.monotonic() + seconds
        while True:
            self.clearing.look(Sight(complete=True, jobs=self.jobs), self.manager.changes.jobs.wanted())
            if done() or time.monotonic() > deadline:
                return
            time.sleep(0.02)

    def look_until_all_is_cleared(self) -> None:
        self.look(seconds=20.0, done=lambda: not self.manager.changes.retired_topics.under_way())
        assert () == self.manager.changes.retired_topics.under_way()


@contextmanager
def clearing_over(broker: Broker, folder: Path) -> Iterator[Clearing]:
    made = Clearing(broker, folder)
    made.manager.admit("ann", "bob")
    form = {"name": "s", "owner": "ann", "connection": {"kind": "topic", "topic": "raw"}, "schema": {"t": "float"}}
    made.manager.service.sources.register(OPERATOR, SourceForm.model_validate({**form, "visibility": "public"}))
    yield made
    made.end()
    made.line.stop()


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clearing]:
    """A service of two tenants, over a broker of either kind."""
    monkeypatch.setattr(retained, "_BACK_OFF", BackOff((0.1,)))
    with (
        start_broker(tmp_path / "broker", USERS, kind=request.param) as broker,
        clearing_over(broker, tmp_path) as made,
    ):
        yield made


def test_what_a_removed_output_retained_is_cleared_and_nothing_else(scene: Clearing) -> None:
    """Only once nothing can leave any more; what other outputs, tenants and topics retain stays."""
    gone, other = scene.submit("ann", "ann/{count}/alarm"), scene.submit("ann", "ann/7/{count}")
    scene.submit("bob", "bob/{count}/alarm")
    mine = {f"ann/{number}/alarm" for number in range(2_500)}
    stays = {"ann/7/alarm", "bob/1/alarm", "ann/1/other", "ann/alarm"}
    scene.retain(*sorted(mine | stays))
    assert mine | stays == scene.retained("ann/#", "bob/#")
    scene.remove(gone)
    scene.report(left=False)
    scene.look(seconds=0.5)
    assert [] == scene.cleared
    scene.report()
    scene.look_until_all_is_cleared()
    assert stays == scene.retained("ann/#", "bob/#")
    scene.remove(other)
    scene.report()
    scene.look_until_all_is_cleared()
    assert stays - {"ann/7/alarm"} == scene.retained("ann/#", "bob/#")


def test_a_manager_that_is_killed_anywhere_goes_on_after_its_restart(scene: Clearing) -> None:
    """Nothing is left in the end, at whichever topic it was killed."""
    dataflow = scene.submit("ann", "ann/{count}")
    names = {f"ann/{number}" for number in range(5)}
    scene.retain(*sorted(names))
    scene.remove(dataflow)
    scene.report()
    for kills in range(1, 4):
        scene.dies_after = kills
        with pytest.raises(Crash):
            scene.look(seconds=20.0)
        assert kills == len(scene.cleared)
        scene.end()
        scene.begin()
    scene.dies_after = 1 << 30
    scene.look_until_all_is_cleared()
    assert set() == scene.retained("ann/#")
    assert names == set(scene.cleared)


@pytest.mark.parametrize("by", ["dataflow", "source"])
def test_a_topic_that_somebody_uses_by_then_is_not_cleared(scene: Clearing, by: str) -> None:
    """Not even if that begins between the look-up and the clearing."""
    dataflow = scene.submit("ann", "ann/{count}")
    scene.retain("ann/1", "ann/2")
    scene.remove(dataflow)
    scene.report()
    scene.look()
    until(lambda: not scene.clearing._answers.empty())
    if by == "dataflow":
        scene.submit("ann", "ann/{count}")
    else:
        form = {"name": "t", "owner": "ann", "connection": {"kind": "topic", "topic": "ann/1"}}
        scene.manager.service.sources.register(ANN, SourceForm.model_validate(form))
    scene.report()
    scene.look_until_all_is_cleared()
    assert ({"ann/1", "ann/2"} if by == "dataflow" else {"ann/1"}) == scene.retained("ann/#")


def test_a_broker_that_is_away_is_asked_again(scene: Clearing, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topics stay retired meanwhile."""
    monkeypatch.setattr(retained, "_PATIENCE", 0.3)
    dataflow = scene.submit("ann", "ann/{count}")
    scene.retain("ann/1")
    scene.remove(dataflow)
    scene.report()
    address = scene.broker.address("braid")
    monkeypatch.setattr(scene.broker, "address", lambda _user: replace(address, port=1))
    scene.look(seconds=1.0)
    assert 1 == len(scene.manager.changes.retired_topics.under_way())
    monkeypatch.undo()
    monkeypatch.setattr(retained, "_BACK_OFF", BackOff((0.1,)))
    scene.look_until_all_is_cleared()
    assert set() == scene.retained("ann/#")
