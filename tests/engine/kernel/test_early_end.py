"""The early end of a batch: what takes long waits and holds up nobody, and nothing else comes out than without it."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bridge import unpacked
from bridge.spools.log import packed
from engine.behaviour import Behaviour, PortEmission
from engine.event_streams import Arrived
from engine.kernel.batch import BatchTime
from engine.offset import Offset
from engine.plan import Delivery
from engine.records.record import Record
from engine.records.state import Staged
from engine.side_effect import ActingBehaviour, EventNames
from tests.engine.kernels import DrawnTime, Machine, arrived, behaviours, dead, enters, entry, left, slot, spending

SLOTS = (
    slot(11, "echo", 1),
    slot(12, "output", 11),
    slot(21, "count", 2, by=["k"]),
    slot(22, "output", 21, 3),
    slot(31, "picky", 4),
    slot(32, "output", 31),
)
"""Three parts: one stream, two that meet, and one with events that are parked."""
STREAMS = {"one": 1, "left": 2, "right": 3, "picky": 4}


def made(*parts: tuple[str, str], slow: Behaviour) -> Machine:
    """A job in which each part is a tenant's: a slow task if its stream is called so, and an output."""
    slots = [
        each
        for at, (stream, _) in enumerate(parts)
        for each in (slot(10 * at + 2, "count", 10 * at + 1), slot(10 * at + 3, "output", 10 * at + 2))
    ]
    plain = entry(slots, [enters(stream, 10 * at + 1) for at, (stream, _) in enumerate(parts)])
    deliveries = tuple(
        Delivery(instance=10 * at + 3, tenant=tenant, dataflow="d", sink=str(at))
        for at, (_, tenant) in enumerate(parts)
    )
    found = behaviours(slots) | {10 * at + 2: slow for at, (stream, _) in enumerate(parts) if stream.startswith("slow")}
    return Machine(entry=replace(plain, plan=replace(plain.plan, deliveries=deliveries)), made=found)


def rows(count: int) -> list[dict[str, Any]]:
    return [{"b": b, "k": "k"} for b in range(count)]


def time_of(seconds: float) -> BatchTime:
    """The time of a first batch."""
    time = BatchTime()
    time.begin(seconds)
    return time


def run(job: Machine, time: BatchTime, count: int, **stamps: int) -> Record:
    """A batch of so many events of each stream."""
    streams = [each.stream for each in job.entry.plan.ingress]
    items = [arrived(rows(count), stream, stamp=stamps.get(stream, 0)) for stream in streams]
    return job.run(items, end=Offset(entry=1, at=dict.fromkeys(streams, count)), batch_time=time)


def test_events_that_take_long_wait_and_all_others_go_on() -> None:
    """Nothing was known of the slow task: it takes what a batch has time for, none of its events becomes a letter."""
    job = made(("slow", "eve"), ("quick", "ann"), slow=spending(0.01, []))
    record = run(job, time_of(0.1), 100, slow=7)
    assert 100 == len(left(record, 13)) == record.end.at["quick"]
    assert len(left(record, 3)) == record.end.at["slow"]
    assert 1 <= record.end.at["slow"] <= 30
    assert ({"slow": 7}, []) == (record.waiting, dead(record))


def test_the_parts_of_a_tenant_have_the_time_of_a_batch_together() -> None:
    """Many slow parts take as long as one, in turns; the tenant's own quick one, once known, goes before them."""
    calls = list[int]()
    slow = [(f"slow{at}", "eve") for at in range(10)]
    job = made(*slow, ("quick", "eve"), slow=spending(0.03, calls))
    time, ran, quick = BatchTime(), set[str](), 0
    for _ in range(30):
        calls.clear()
        time.begin(0.1)
        record = run(job, time, 5)
        assert sum(calls) <= 10
        ran |= {stream for stream, at in record.end.at.items() if at}
        quick += record.end.at["quick"] == 5
    assert ran == {stream for stream, _ in slow} | {"quick"}
    assert quick >= 20


def test_an_event_that_takes_longer_than_a_batch_is_followed_by_batches_without_its_part() -> None:
    """They are as many as make up for it; the others have short batches meanwhile."""
    calls = list[int]()
    job, time = made(("slow", "eve"), ("quick", "ann"), slow=spending(0.2, calls)), BatchTime()
    came = []
    for _ in range(12):
        time.begin(0.05)
        record = run(job, time, 5)
        assert 5 == record.end.at["quick"]
        came.append(record.end.at["slow"])
    assert set(came) == {0, 1}
    assert 3 <= sum(came) <= 4


def test_a_part_at_its_cut_comes_to_it() -> None:
    """What is cut has read all that came before, however long that takes."""
    job = made(("slow", "eve"), ("slower", "ann"), slow=spending(0.002, []))
    at = {"slow": 20, "slower": 20}
    end = Offset(entry=1, at=at, cuts={"c": ("slow",)}, held={"slower": "c"})
    record = job.run([arrived(rows(20), "slow"), arrived(rows(20), "slower")], end=end, batch_time=time_of(0))
    assert (20, {"c": ("slow",)}) == (record.end.at["slow"], record.end.cuts)
    assert record.end.at["slower"] < 20
    assert {} == record.end.held


def test_a_part_that_writes_whole_batches_comes_to_their_ends() -> None:
    """A batch that is repeated, perhaps by a process that knows nothing yet, has to write the same events."""
    calls = list[int]()

    def write(_port: str, events: pa.RecordBatch, _state: Staged, _names: EventNames) -> Mapping[str, PortEmission]:
        calls.append(len(events))
        return {"out": PortEmission(events)}

    job = made(("slow", "eve"), slow=ActingBehaviour(act=write, whole=True))
    assert 100 == run(job, time_of(0), 100).end.at["slow"] == max(calls)


@given(st.randoms(use_true_random=False), st.lists(st.tuples(st.sampled_from(sorted(STREAMS)), st.integers(1, 5))))
def test_early_ends_change_nothing_but_when(chance: Random, sent: list[tuple[str, int]]) -> None:
    """Whatever waits in whichever batch, the same events leave under the same numbers, and the same ones are parked."""
    items, ends = list[Arrived](), dict.fromkeys(STREAMS, 0)
    for stamp, (stream, count) in enumerate(sent):
        events = [{"b": ends[stream] + at, "k": f"k{at % 2}"} for at in range(count)]
        items.append(arrived(events, stream, first=ends[stream], stamp=stamp))
        ends[stream] += count
    made = entry(SLOTS, [enters(stream, instance) for stream, instance in STREAMS.items()])
    whole, parted = Machine(entry=made), Machine(entry=made)
    expected = whole.run(items, end=Offset(entry=1, at=ends))
    at, records = dict.fromkeys(STREAMS, 0), list[Record]()
    for batch in range(200):
        if at == ends:
            break
        # Chance may keep all of them waiting.
        drawn = DrawnTime(chance) if batch < 20 else None
        waiting = [rest for each in items if (rest := after(each, at[each.stream])) is not None]
        records.append(parted.run(waiting, end=Offset(entry=1, at=ends), batch_time=drawn))
        at = dict(records[-1].end.at)
    assert at == ends
    for instance in (12, 22, 32):
        assert left(expected, instance) == [event for record in records for event in left(record, instance)]
    assert sorted(dead(expected)) == sorted(letter for record in records for letter in dead(record))
    assert whole.state.kept == parted.state.kept


def after(item: Arrived, position: int) -> Arrived | None:
    """What of an item is not read yet at a position."""
    done = max(0, position - item.first)
    if done >= item.count:
        return None
    rest = packed(unpacked(item.payload).slice(done))
    return item._replace(first=item.first + done, count=item.count - done, payload=rest)
