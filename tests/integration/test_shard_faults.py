"""Faults in one of the shards of a job, on real Spark: only its own events suffer, and nothing is lost or doubled."""

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from bridge import topics
from engine.plan import Limits, Plan
from engine.records.store import RecordStore
from tests.chaos.killing import Victim, processes
from tests.chaos.scenes import first_difference_by_key
from tests.integration import falling
from tests.integration.clusters import offering
from tests.integration.hosting import Hosting, counted, deliveries, delivery, job, numbers, raw, slot

pytestmark = [pytest.mark.full, pytest.mark.spark]

KEYS = 16
MANY = 80
AT = 21
HANG = 3.0


@pytest.fixture(scope="module")
def hosting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    """A host for all tests here, with a task that fails in many ways, and whose type it knows."""
    folder = tmp_path_factory.mktemp("host")
    offered = offering(folder / "offered", {"fall": "falling:fall"}, {"fall": "falling:fall.type"})
    shutil.copy(falling.__file__, offered)
    made = Hosting(folder, environment={**os.environ, "PYTHONPATH": str(offered)})
    try:
        yield made
    finally:
        made.close()


class Sharded:
    """A job that counts events by key in several shards, and in which a task fails at one event."""

    def __init__(self, hosting: Hosting, *, shards: int, limits: Limits, **config: Any) -> None:
        source, self.fall, fallen, count, end = (hosting.fresh() for _ in range(5))
        self.hosting = hosting
        self.topic = f"street/{source}"
        self.through, self.counts = delivery(fallen), delivery(end)
        self.sent = 0
        slots = (
            slot(self.fall, "fall", source, **config),
            slot(fallen, "output", self.fall),
            slot(count, "count", source, by=["k"]),
            slot(end, "output", count),
        )
        plan = job(f"j{source}", *slots, reads=(raw(self.topic, source),))
        assert deliveries(slots) == (self.through, self.counts)
        self.plan = hosting.run(replace(plan, limits=limits, shards=shards))

    def divide(self, shards: int) -> Plan:
        """Send the plan with another number of shards."""
        self.plan = self.hosting.send(replace(self.plan, shards=shards))
        return self.plan

    def publish(self, many: int = MANY) -> None:
        """Send it more events."""
        self.hosting.publish(self.topic, numbers(self.sent, self.sent + many, keys=KEYS))
        self.sent += many

    def dead(self) -> list[tuple[int, str]]:
        """The events of all dead letters, each with its reason."""
        letters = self.hosting.heard(topics.dead(self.fall))
        # Those that a host may not have sent before it died are sent again.
        once = {(each["batch"], each["first"]): each for each in letters}
        return [(event["n"], each["reason"]) for each in once.values() for event in each["events"]]

    def settle(self, *dead: int) -> None:
        """Wait for every event that was sent but the dead ones, and check that each key has its own in order."""
        self.hosting.until_delivered(self.counts, self.sent)
        self.hosting.until_delivered(self.through, self.sent - len(dead))
        self.hosting.until(lambda: len(self.dead()) >= len(dead), "the dead letters")
        sent = numbers(0, self.sent, keys=KEYS)
        left = [event for event in sent if event["n"] not in dead]
        assert "" == first_difference_by_key(left, self.hosting.delivered(self.through))
        assert "" == first_difference_by_key(counted(sent), self.hosting.delivered(self.counts))

    def batches(self) -> range:
        """The batches that are recorded as a whole."""
        return RecordStore(self.hosting.folder(self.plan.job).records).batches()

    def recorded_shards(self) -> set[str]:
        """The records of shards of the batch that is not whole yet."""
        folder = self.hosting.folder(self.plan.job).records / "shards"
        return {path.name for path in folder.glob(f"{self.batches().stop:020d}.*")}


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        pytest.param("kill", "killed its worker", id="kill"),
        pytest.param("hang", f"hung for over {HANG:g} s", id="hang", marks=pytest.mark.slow),
        pytest.param("hog", "MemoryError", id="hog", marks=pytest.mark.slow),
    ],
)
def test_an_event_that_would_end_the_worker_of_its_shard_is_a_dead_letter(
    hosting: Hosting, how: str, reason: str
) -> None:
    """Only that one is, and once; all others come out, those of the same shard too, and the job runs on."""
    made = Sharded(hosting, shards=3, limits=Limits(hang=HANG), how=how, at=[AT])
    made.publish()
    made.settle(AT)
    assert [(AT, reason)] == made.dead()
    made.publish()
    made.settle(AT)
    status = hosting.status(made.plan.job)
    assert ["running", "", {}] == [status[each] for each in ("state", "trouble", "failed")]


@pytest.mark.parametrize(
    "victim", [Victim.WORKER, *(pytest.param(each, marks=pytest.mark.slow) for each in (Victim.DRIVER, Victim.JVM))]
)
def test_a_kill_between_the_records_of_two_shards(hosting: Hosting, tmp_path: Path, victim: Victim) -> None:
    """A shard has its record, another is in the middle, and a plan with another number waits: all counts once."""
    gate = tmp_path / "gate"
    made = Sharded(hosting, shards=3, limits=Limits(), how="wait", at=[AT], until=str(gate))
    made.publish()
    waiting = gate.with_suffix(".waits")
    hosting.until(lambda: waiting.exists() and waiting.read_text(), "a shard to be in the middle")
    before = hosting.until(made.recorded_shards, "another shard to have its record")
    batch = made.batches().stop
    grown = made.divide(2)
    hosting.until(
        lambda: hosting.folder(grown.job).entries(1)[-1].plan.version == grown.version, "the next plan to be logged"
    )
    match victim:
        case Victim.WORKER:
            psutil.Process(int(waiting.read_text())).kill()
        case Victim.DRIVER:
            hosting.restart(signal.SIGKILL)
        case Victim.JVM:
            deaths = hosting.keeper.deaths
            for process in processes(hosting.keeper.pid, victim):
                process.kill()
            hosting.until(lambda: hosting.keeper.deaths > deaths, "the host to notice")
    assert before <= made.recorded_shards() | {f"{batch:020d}.{shard:03d}" for shard in range(3)}
    gate.touch()
    made.settle()
    hosting.until(lambda: hosting.in_effect(grown), "two shards")
    made.publish()
    made.settle()
    assert [] == made.dead()
