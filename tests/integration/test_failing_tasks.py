"""Tasks that raise, hang, kill their worker or take all memory, on real Spark: only their own events suffer."""

import json
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bridge import topics
from dags import Kind
from engine.job.health import BAD_BATCHES
from engine.plan import Feed, Limits, Plan, Slot, SlotState
from tests.integration import falling
from tests.integration.clusters import offering
from tests.integration.hosting import HOST, QUICK, Hosting, counted, deliveries, delivery, numbers, raw, slot

pytestmark = pytest.mark.spark

BOUND = 120.0
"""Seconds that a busy machine may take to start Spark and some workers again."""
MANY = 30
AT = 11
HANG = 3.0


@pytest.fixture(scope="module")
def hosting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    """A host for all tests here, with a task that fails in many ways."""
    folder = tmp_path_factory.mktemp("host")
    offered = offering(folder / "offered", {"fall": "falling:fall"})
    shutil.copy(falling.__file__, offered)
    made = Hosting(folder, environment={**os.environ, "PYTHONPATH": str(offered)})
    try:
        yield made
    finally:
        made.close()


class Falling:
    """A job with a task that fails, and one beside it that counts the same events."""

    def __init__(self, hosting: Hosting, **config: Any) -> None:
        source, self.fall, fallen, count, end = (hosting.fresh() for _ in range(5))
        self.hosting = hosting
        self.name = f"j{source}"
        self.topic = f"street/{source}"
        self.through, self.beside = delivery(fallen), delivery(end)
        self.sent = 0
        slots = (
            slot(self.fall, "fall", source, **config),
            slot(fallen, "output", self.fall),
            slot(count, "count", source, by=["k"]),
            slot(end, "output", count),
        )
        self.plan = hosting.send(
            Plan(
                job=self.name,
                host=HOST,
                version=1,
                ingress=(raw(self.topic, source),),
                slots=slots,
                deliveries=deliveries(slots),
                pace=QUICK,
                limits=Limits(hang=HANG),
            )
        )
        self.await_effect()

    def await_effect(self) -> None:
        """Wait until its latest plan is in effect."""
        self.hosting.until(
            # A plan that its host logs for it has the same version.
            lambda: self.hosting.in_effect(self.plan),
            f"version {self.plan.version} of {self.name}",
            bound=BOUND,
        )

    def publish(self, many: int) -> None:
        """Send it more events, and wait until both tasks have taken them."""
        self.hosting.publish(self.topic, numbers(self.sent, self.sent + many))
        self.sent += many
        self.hosting.until(
            lambda: (
                self.sent <= self.hosting.count(self.beside)
                and self.sent <= self.hosting.count(self.through) + len(self.dead())
            ),
            f"{self.sent} events of {self.name}, {len(self.dead())} of them dead",
            bound=BOUND,
        )

    def dead(self) -> dict[int, str]:
        """The events that the failing task could not take, with the reasons."""
        letters = self.hosting.heard(topics.dead(self.fall))
        return {event["n"]: letter["reason"] for letter in letters for event in letter["events"]}

    def failed(self) -> dict[str, Any]:
        """The failed instances in the job's status."""
        return dict(self.hosting.status(self.name).get("failed", {}))

    def logged(self, instance: int) -> Slot:
        """An instance in the latest plan that its host logged."""
        plan = self.hosting.folder(self.name).entries(1)[-1].plan
        return next(each for each in plan.slots if each.instance == instance)

    def settle(self) -> None:
        """Check that every other event came out, and that the task beside it misses none."""
        dead = self.dead()
        left = [event for event in numbers(0, self.sent) if event["n"] not in dead]
        assert left == self.hosting.delivered(self.through)
        assert counted(numbers(0, self.sent)) == self.hosting.delivered(self.beside)


def test_events_that_a_task_raises_at_are_dead_letters(hosting: Hosting) -> None:
    """Only they are, each with the reason; all others go on, and the task beside it misses none."""
    job = Falling(hosting, how="raise", at=[3, 4, AT])
    job.publish(MANY)
    assert {n: f"ValueError: {n} is not to its taste" for n in (3, 4, AT)} == job.dead()
    assert {} == job.failed()
    job.settle()


@pytest.mark.parametrize(
    ("how", "reason"),
    [("kill", "killed its worker"), ("hang", f"hung for over {HANG:g} s"), ("hog", "MemoryError")],
    ids=["kill", "hang", "hog"],
)
def test_an_event_that_would_end_its_worker_is_a_dead_letter(hosting: Hosting, how: str, reason: str) -> None:
    """Only that one is, with the reason; all others come out numbered without a gap, and the job runs on."""
    job = Falling(hosting, how=how, at=[AT])
    job.publish(MANY)
    assert {AT: reason} == job.dead()
    job.publish(MANY)
    job.settle()
    assert ["running", "", {}] == [hosting.status(job.name)[each] for each in ("state", "trouble", "failed")]


def test_a_task_that_always_raises_is_failed_and_retried(hosting: Hosting, tmp_path: Path) -> None:
    """After three bad batches it takes nothing until its retry, in newer plans too; then it runs as ever.

    It is called failed until an event has passed: a retry that no event comes to shows nothing.
    """
    healed = tmp_path / "healed"
    job = Falling(hosting, how="raise", until=str(healed))
    for _ in range(BAD_BATCHES):
        assert {} == job.failed()
        job.publish(1)
    hosting.until(job.failed, "the task to be failed")
    failed = job.failed()[str(job.fall)]
    assert f"ValueError: {BAD_BATCHES - 1} is not to its taste" == failed["reason"]
    job.plan = hosting.send(replace(job.plan, pace=2 * QUICK))
    job.await_effect()
    logged = [entry.plan for entry in hosting.folder(job.name).entries(1) if entry.plan.version == job.plan.version]
    assert SlotState.FAILED is next(each.state for each in logged[0].slots if each.instance == job.fall)
    # On a slow machine it may have been retried meanwhile, and failed again.
    while not any(reason.startswith("its task has failed: ") for reason in job.dead().values()):
        assert job.sent < MANY
        job.publish(1)
    hosting.until(
        lambda: SlotState.ACTIVE is job.logged(job.fall).state, "the retry, which no event comes to", bound=BOUND
    )
    job.plan = hosting.send(replace(job.plan, pace=QUICK))
    job.await_effect()
    assert [str(job.fall)] == list(job.failed())
    healed.touch()
    deadline = time.monotonic() + BOUND
    while not hosting.count(job.through):
        assert time.monotonic() < deadline
        job.publish(1)
    hosting.until(lambda: not job.failed(), "a status without failures")
    tried = job.sent - 1
    job.publish(MANY)
    assert list(range(tried)) == sorted(job.dead())
    assert {} == job.failed()
    job.settle()


@pytest.mark.slow
def test_replayed_dead_letters_are_taken_once_even_if_the_host_is_killed(hosting: Hosting, tmp_path: Path) -> None:
    """An event that fails again is a dead letter again; any other comes out once, after all earlier events."""
    healed = tmp_path / "healed"
    job = Falling(hosting, how="raise", at=[3, 4, AT], until=str(healed))
    job.publish(MANY)
    letters = hosting.heard(topics.dead(job.fall))
    feeds = tuple(
        Feed(id=number, instance=job.fall, port=letter["port"], events=json.dumps(letter["events"]))
        for number, letter in enumerate(letters)
    )
    # A worker that is slow to start must not count as one that hangs.
    job.plan = hosting.send(replace(job.plan, feeds=feeds, limits=Limits()))
    hosting.until(lambda: len(hosting.heard(topics.dead(job.fall))) == 2 * len(letters), "as many dead letters again")
    healed.touch()
    again = tuple(replace(each, id=MANY + each.id) for each in feeds)
    job.plan = hosting.send(replace(job.plan, feeds=(*feeds, *again)))
    hosting.until(
        lambda: hosting.folder(job.name).entries(1)[-1].plan.version == job.plan.version, "the plan to be logged"
    )
    hosting.restart(signal.SIGKILL)
    # As the manager does until it has heard of the last one.
    job.plan = hosting.send(job.plan)
    hosting.until(lambda: hosting.in_effect(job.plan), "the next plan in effect", bound=BOUND)
    job.publish(2)
    all_sent = numbers(0, job.sent)
    fallen = [event for event in all_sent if event["n"] in {3, 4, AT}]
    through = [event for event in all_sent[:MANY] if event not in fallen]
    # Those that the host may not have sent before it died are sent again.
    reasons = {(each["batch"], each["first"]): each["reason"] for each in hosting.heard(topics.dead(job.fall))}
    assert 2 * [letter["reason"] for letter in letters] == list(reasons.values())
    assert [*through, *fallen, *all_sent[MANY:]] == hosting.delivered(job.through)
    assert counted(all_sent) == hosting.delivered(job.beside)


def test_side_effects_from_before_a_worker_died_are_not_repeated(hosting: Hosting) -> None:
    """A batch writes rows, files and messages, and its worker dies before the record: each of them is there once.

    The worker dies three times at one event, and after that its job goes on; what was written counts.
    """
    source, insert, sink, publish, fall, fallen, again, end = (hosting.fresh() for _ in range(8))
    topic, other = f"street/{source}", f"street/{again}"
    own = {"place": f"own/{source}", "owner": "ann"}
    table = {"database": {"place": f"own/{source}.db", "owner": "ann"}, "table": "t", "fields": ["n", "k"]}
    slots = (
        slot(insert, "table_insert", source, **table),
        slot(sink, "file_sink", source, to=own),
        slot(publish, "mqtt_publish", insert, topic=other),
        slot(fall, "fall", publish, how="kill", at=[AT]),
        slot(fallen, "output", fall),
        slot(end, "output", again),
    )
    plan = Plan(
        job=f"j{source}",
        host=HOST,
        version=1,
        ingress=(raw(topic, source), raw(other, again, {"n": Kind.INTEGER, "k": Kind.STRING, "receipt": Kind.STRING})),
        slots=slots,
        deliveries=deliveries(slots),
        pace=QUICK,
        limits=Limits(hang=60.0),
    )
    hosting.send(plan)
    hosting.until(lambda: hosting.status(plan.job).get("state") == "running", "the job to run", bound=BOUND)
    events = numbers(0, MANY)
    hosting.publish(topic, events)
    hosting.until(lambda: MANY <= hosting.count(delivery(end)), f"{MANY} events published again", bound=BOUND)
    hosting.until(lambda: MANY - 1 <= hosting.count(delivery(fallen)), "all but the fallen one", bound=BOUND)
    assert [AT] == [event["n"] for letter in hosting.heard(topics.dead(fall)) for event in letter["events"]]
    folder = hosting.root / "files" / "ann" / "own"
    with closing(sqlite3.connect(folder / f"{source}.db")) as database:
        assert [(each["n"], each["k"]) for each in events] == list(
            database.execute("SELECT n, k FROM t ORDER BY rowid")
        )
    lines = [line for file in sorted((folder / str(source)).rglob("*.jsonl")) for line in file.read_text().splitlines()]
    assert events == [json.loads(line) for line in lines]
    published = hosting.delivered(delivery(end))
    assert events == [{"n": each["n"], "k": each["k"]} for each in published]
    assert list(range(MANY)) == [each["_from"]["number"] for each in published]
    assert MANY == len({each["receipt"] for each in published})
