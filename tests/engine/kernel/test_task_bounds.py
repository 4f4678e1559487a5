"""The bounds of one task: what is too much becomes its dead letters, and costs its neighbours nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.messages import LARGEST_EVENT
from engine.behaviour import Behaviour, PortEmission, task_cpu_ns
from engine.kernel.task_bounds import FIRST_EVENTS, Allowance, EventCost, is_overspent
from engine.plan import Limits
from engine.records.record import Record
from engine.records.state import KEY_BYTES, InstanceStates, Staged
from tests.engine.kernels import Machine, arrived, behaviours, dead, entry, left, slot, spending

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
