"""The bounds of one task, and the early end of a batch: what takes long waits and holds up nobody."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from bridge import unpacked
from bridge.messages import LARGEST_EVENT
from bridge.spools.log import packed
from engine.behaviour import Behaviour, PortEmission, task_cpu_ns
from engine.event_streams import Arrived
from engine.kernel.batch import BatchTime
from engine.kernel.task_bounds import FIRST_EVENTS, Allowance, EventCost, is_overspent
from engine.offset import Offset
from engine.plan import Delivery, Limits
from engine.records.record import Record
from engine.records.state import KEY_BYTES, InstanceStates, Staged
from engine.side_effect import ActingBehaviour, EventNames
from tests.engine.kernels import DrawnTime, Machine, arrived, behaviours, dead, enters, entry, left, slot, spending

SLOTS = [slot(2, "output", 1), slot(3, "output", 1), slot(4, "output", 2)]


def machine(behaviour: Behaviour, limits: Limits) -> Machine:
    """A job in which this behaviour stands between two outputs, within limits."""
    made = entry(SLOTS)
    return Machine(
        entry=replace(made, plan=replace(made.plan, limits=limits)), made={**behaviours(SLOTS), 2: behaviour}
    )


def numbers(record: Record, instance: int) -> list[Any]:
    return [row["b"] for row in left(record, instance)]


def keeping(_port: str, rows: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
    """Keeps ten bytes for each value."""
    for b in rows.column("b").to_pylist():
        state.put((b,), "x" * 10)
    return {"out": PortEmission(rows)}


def test_a_state_at_its_bound_takes_only_what_does_not_let_it_grow() -> None:
    """New keys are dead letters with the reason; known keys go on, in this batch and the next, and so do neighbours."""
    one = KEY_BYTES + 2 + 11
    job = machine(keeping, Limits(state_bytes=5 * one))
    record = job.run([arrived([{"b": b} for b in (0, 1, 2, 3, 4, 5, 1, 6, 0)])])
    assert [0, 1, 2, 3, 4, 1, 0] == numbers(record, 4)
    assert [(f"its state would have more than {5 * one:,} bytes", b) for b in (5, 6)] == [
        (reason.partition(";")[0], b) for *_, reason, b in dead(record)
    ]
    assert [0, 1, 2, 3, 4, 5, 1, 6, 0] == numbers(record, 3)
    after = job.run([arrived([{"b": b} for b in (4, 9, 3)])])
    assert ([4, 3], [9]) == (numbers(after, 4), [b for *_, b in dead(after)])


def test_a_flood_of_new_keys_at_the_bound_is_parked_in_few_calls() -> None:
    """Each event is a dead letter or goes on; known keys go on where 64 of them come together."""
    calls = list[int]()

    def counted(port: str, rows: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        calls.append(len(rows))
        return keeping(port, rows, state)

    job = machine(counted, Limits(state_bytes=100 * (KEY_BYTES + 2 + 11)))
    job.run([arrived([{"b": b} for b in range(100)])])
    calls.clear()
    # A task that can take none of the first events takes none at all.
    sent = [0, *range(1_000, 21_000), *(b % 100 for b in range(20_000)), *range(1_000, 1_500)]
    record = job.run([arrived([{"b": b} for b in sent])])
    went_on, parked = numbers(record, 4), [b for *_, b in dead(record)]
    assert sorted(sent) == sorted([*went_on, *parked])
    assert all(b < 100 for b in went_on)
    assert 20_000 - 2 * 64 <= len(went_on)
    assert len(calls) < 4_000


def test_a_state_of_a_tenant_that_has_as_much_as_it_may_has_a_bound_of_its_own() -> None:
    """Known keys go on, the reason names the quota, a neighbour's state grows, and later so does its own."""
    job = machine(keeping, Limits())
    job.run([arrived([{"b": b} for b in (0, 1)])])
    whole = job.entry
    job.entry = replace(whole, plan=replace(whole.plan, state_bounds={2: job.state.sizes[2] + 3}))
    record = job.run([arrived([{"b": b} for b in (0, 2, 1)])])
    assert ([0, 1], [0, 2, 1]) == (numbers(record, 4), numbers(record, 3))
    ((_, _, reason, b),) = dead(record)
    assert (2, True) == (b, "the quota `state_mb`" in reason)
    job.entry = whole
    assert [2] == numbers(job.run([arrived([{"b": 2}])]), 4)


def keeping_of(parts: int) -> Behaviour:
    """Keeps ten bytes for each of so many values of ten."""

    def take(_port: str, rows: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        for b in rows.column("b").to_pylist():
            if b % 10 < parts:
                state.put((b,), "x" * 10)
        return {"out": PortEmission(rows)}

    return take


@given(st.lists(st.integers(0, 10), min_size=1, max_size=12), st.lists(st.integers(1, 60), max_size=6))
@example([10] * 12, [60] * 4)
@example([10, 1] * 6, [60] * 4)
def test_the_states_of_a_job_have_a_bound_and_each_has_its_part(keeps: list[int], batches: list[int]) -> None:
    """However many tasks keep however much; nothing of a task that has less than its equal part is a dead letter."""
    one = KEY_BYTES + 3 + 11
    limits = Limits(state_bytes=30 * one)
    tasks = [slot(number, "output", 1) for number in range(2, 2 + len(keeps))]
    made = entry(tasks)
    keeping_all: dict[int, Behaviour] = {
        each.instance: keeping_of(keep) for each, keep in zip(tasks, keeps, strict=True)
    }
    job = Machine(
        entry=replace(made, plan=replace(made.plan, limits=limits)), made={**behaviours(tasks), **keeping_all}
    )
    part = limits.job_state_bytes // (len(keeps) + 1)
    first = 1_000
    for events in batches:
        record = job.run([arrived([{"b": b} for b in range(first, first + events)])])
        first += events
        assert sum(job.state.sizes.values()) <= 2 * limits.job_state_bytes + limits.state_bytes
        for instance in {each.instance for each in record.dead}:
            assert job.state.sizes[instance] + one >= min(part, limits.state_bytes)


Changes = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "many", "mark", "undo"]), st.integers(0, 5), st.integers(0, 300)),
    max_size=30,
)


@given(st.lists(Changes, max_size=3), st.integers(0, 900))
def test_the_size_of_a_state_is_that_of_its_keys_whatever_was_undone(batches: list[list[Any]], most: int) -> None:
    """It is known at each moment of each batch, and exceeds a bound just where the state has grown beyond it."""
    states = InstanceStates()
    for number, changes in enumerate(batches):
        state, kept = states.of(7), dict(_content(states))
        marks: list[tuple[int, dict[bytes, bytes]]] = [(state.mark(), dict(kept))]
        for what, key, size in changes:
            packed = bytes([key])
            if what in {"put", "many"}:
                state.put_many([packed], [b"x" * size])
                kept[packed] = b"x" * size
            elif what == "delete":
                state.put_many([packed], [None])
                kept.pop(packed, None)
            elif what == "mark":
                marks.append((state.mark(), dict(kept)))
            else:
                token, before = marks[-1]
                state.rollback(token)
                kept = dict(before)
            token, before = marks[-1]
            assert (_size(kept) > most and _size(kept) > _size(before)) == state.growth.exceeds(most, token)
        states.follow(number, dropped=(), changes=states.changes(), imaged=(), credit=0)
        assert kept == _content(states)


def _content(states: InstanceStates) -> dict[bytes, bytes]:
    return {key: value for items in states.kept.get(7, {}).values() for key, value in items.items()}


def _size(kept: Mapping[bytes, bytes]) -> int:
    return sum(KEY_BYTES + len(key) + len(value) for key, value in kept.items())


def test_an_event_that_would_be_too_large_is_not_emitted() -> None:
    """The event that it was made of is a dead letter; the others go on."""

    def blowing(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        long = [
            "x" * (LARGEST_EVENT + 1) if b == 2 else "x" * (LARGEST_EVENT // 3) for b in rows.column("b").to_pylist()
        ]
        return {"out": PortEmission(rows.append_column("s", pa.array(long, pa.string())))}

    record = machine(blowing, Limits()).run([arrived([{"b": b} for b in range(5)])])
    assert [0, 1, 3, 4] == numbers(record, 4)
    ((_, _, reason, b),) = dead(record)
    assert (2, True) == (b, reason.startswith(f"it would emit an event of {LARGEST_EVENT + 1:,} bytes"))


def test_a_task_that_has_used_its_cpu_is_not_called_again_in_a_batch() -> None:
    """What is left becomes dead letters that say so, and the neighbour gets all events."""
    calls = list[int]()
    record = machine(spending(0.004, calls), Limits(task_seconds=0.2)).run([arrived([{"b": b} for b in range(500)])])
    taken = sum(calls)
    assert FIRST_EVENTS == next(filter(None, calls))
    assert (True, list(range(taken))) == (50 <= taken < 500, numbers(record, 4))
    letters = dead(record)
    assert list(range(taken, 500)) == [b for *_, b in letters]
    assert {True} == {is_overspent(reason) for *_, reason, _ in letters}
    assert list(range(500)) == numbers(record, 3)


def test_a_quick_task_takes_a_batch_in_few_calls_and_the_next_one_at_once() -> None:
    """Its cost is known from then on."""
    calls = list[int]()
    job = machine(spending(0.0, calls), Limits(task_seconds=60.0))
    job.run([arrived([{"b": b} for b in range(5_000)])])
    assert [8, 64, 512, 4_096, 320] == [count for count in calls if count]
    calls.clear()
    job.run([arrived([{"b": b} for b in range(5_000)])])
    assert [5_000] == [count for count in calls if count]


def test_a_task_that_emits_too_much_for_a_batch_takes_no_more_of_it() -> None:
    """Else one that makes a thousand of each byte would fill the memory of all."""

    def amplifying(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        return {"out": PortEmission(rows.append_column("s", pa.array(["x" * 1_000] * len(rows), pa.string())))}

    record = machine(amplifying, Limits(emitted_bytes=100_000)).run([arrived([{"b": b} for b in range(500)])])
    kept = numbers(record, 4)
    assert (list(range(len(kept))), True) == (kept, 100 <= len(kept) < 200)
    assert {True} == {"bytes for what it emits" in reason and is_overspent(reason) for *_, reason, _ in dead(record)}
    assert list(range(500)) == numbers(record, 3)


def test_a_slow_task_is_called_with_one_event_and_a_quick_one_with_all() -> None:
    """A slow one that is quick again gets more with each call."""
    assert (FIRST_EVENTS, True) == (
        Allowance(seconds=5.0, emitted=1).at_once,
        Allowance(seconds=5.0, emitted=1_000_000_000, known=EventCost(1.0, 1.0)).at_once > 1_000_000,
    )
    slow = Allowance(seconds=5.0, emitted=1_000_000_000, known=EventCost(1e12, 1.0))
    assert (1, False) == (slow.at_once, slow.spent)
    slow.note_call(task_cpu_ns())
    assert 8 == slow.at_once


SLOW_SLOTS = (
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
    made = entry(SLOW_SLOTS, [enters(stream, instance) for stream, instance in STREAMS.items()])
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
