"""Greedy tails: whose tasks are stopped when a part of a job waits, and whose are not."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from engine.job.health import BAD_BATCHES, GREEDY, GreedyTails, GreedyTasks, JobHealth
from engine.kernel.task_bounds import is_overspent
from engine.offset import Offset
from engine.plan import Delivery, Forward, Plan, SlotState
from engine.records.files import Header
from engine.records.record import InstanceMeter, Record
from engine.records.store import RecordStore
from tests.engine.kernels import enters, entry, slot

SLOTS = (
    slot(10, "range_filter", 1, field="a", minimum=0, maximum=1),
    slot(20, "pi_viete", 10, iterations=9_000),
    slot(21, "output", 20),
    slot(30, "count", 10),
    slot(31, "output", 30),
    slot(40, "count", 2),
    slot(41, "output", 40),
)
"""Eve and Ann share a source and a filter; Bob has a stream of his own in the job."""
WHOSE = {21: "eve", 31: "ann", 41: "bob"}
HEAVY = {10: 1, 20: 90, 21: 1, 30: 5, 31: 1}
"""Hundredths of a second of CPU."""
BEHIND = [(100.0, 50_000), (103.5, 51_000)]
"""When two batches end, and when the next event of the stream was spooled: more than two seconds longer ago."""

NOBODY = GreedyTasks()


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    """The store that batches are recorded in."""
    return RecordStore(tmp_path)


def plan(whose: Mapping[int, str] = WHOSE, forwards: tuple[Forward, ...] = ()) -> Plan:
    deliveries = tuple(Delivery(instance=each, tenant=name, dataflow="d", sink="s") for each, name in whose.items())
    return replace(entry(SLOTS, [enters("shared", 1), enters("own", 2)], forwards).plan, deliveries=deliveries)


def batch(store: RecordStore, cpu: Mapping[int, int], waiting: Mapping[str, int]) -> Header:
    number, at = store.batches().stop, Offset(entry=1)
    meters = {each: InstanceMeter(cpu_ns=cs * 10_000_000, taken=10, emitted=10) for each, cs in cpu.items()}
    assert store.write(Record(batch=number, start=at, end=at, meters=meters, waiting=waiting))
    return store.file(number).header


def greedy(store: RecordStore, made: Plan, cpu: Mapping[int, int], stream: str = "shared") -> list[GreedyTasks]:
    """Who is greedy in each of two batches between which a part falls behind."""
    tails = GreedyTails()
    return [tails.after(batch(store, cpu, {stream: stamp}), made, now) for now, stamp in BEHIND]


def test_the_costly_task_of_one_tenant_is_greedy_once_its_part_falls_behind(store: RecordStore) -> None:
    """Not before, and neither what is cheap nor what others need as well."""
    assert [NOBODY, GreedyTasks(behind=frozenset({20}))] == greedy(store, plan(), HEAVY)


def test_a_part_that_catches_up_has_no_greedy_task(store: RecordStore) -> None:
    """It waits in each batch, and is less behind in each."""
    tails = GreedyTails()
    for now in range(100, 120):
        assert NOBODY == tails.after(batch(store, HEAVY, {"shared": (now - 100) * 2_000}), plan(), now)


def test_what_serves_all_or_only_its_owner_is_not_greedy(store: RecordStore) -> None:
    """A shared task may cost as much as it does; so may a stream that nobody else reads, as its own events wait."""
    assert [NOBODY, NOBODY] == greedy(store, plan(), {**HEAVY, 10: 150})
    assert [NOBODY, NOBODY] == greedy(store, plan(dict.fromkeys(WHOSE, "eve")), HEAVY)
    assert [NOBODY, NOBODY] == greedy(store, plan(), {40: 99, 41: 1}, "own")


def test_a_tail_of_which_a_few_events_take_very_long_is_greedy_at_once(store: RecordStore) -> None:
    """Its batches last too long although the rest of its events waits; a shorter one is not."""
    assert [NOBODY, NOBODY] == greedy(store, plan(), {40: 290, 41: 1}, "own")
    assert [GreedyTasks(too_long=frozenset({40}))] * 2 == greedy(store, plan(), {40: 310, 41: 1}, "own")


def test_what_another_job_reads_is_nobodys_tail(store: RecordStore) -> None:
    """Whom it serves there is not known."""
    assert [NOBODY, NOBODY] == greedy(store, plan(forwards=(Forward(instance=20),)), HEAVY)


def test_a_tail_that_lets_others_fall_behind_is_failed_at_once(store: RecordStore) -> None:
    """As one that used its CPU up: its events hold up the stream no more, and its tenant may get into quarantine."""
    health, made = JobHealth(plan()), plan()
    for now, stamp in BEHIND:
        assert health.following(made, now) is None
        health.note(batch(store, HEAVY, {"shared": stamp}), made, now)
    following = health.following(made, 110.0)
    assert following is not None
    assert [20] == [each.instance for each in following.slots if each.state is SlotState.FAILED]
    assert is_overspent(GREEDY)
    assert {"20": (GREEDY, True)} == {
        instance: (failed["reason"], failed["greedy"]) for instance, failed in health.failed().items()
    }


def test_a_tail_that_takes_too_long_is_failed_after_some_batches(store: RecordStore) -> None:
    """The first may have loaded a library."""
    health, made = JobHealth(plan()), plan()
    for _ in range(BAD_BATCHES):
        assert health.following(made, 100.0) is None
        health.note(batch(store, {40: 310, 41: 1}, {}), made, 100.0)
    following = health.following(made, 100.0)
    assert following is not None
    assert [(40, GREEDY)] == [(each.instance, each.reason) for each in following.slots if each.reason]
