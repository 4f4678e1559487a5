"""The feed of dead letters: their events are taken again, each once and in order, as they were parked."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.output_messages import dead_letter
from bridge.raw_events import DEEPEST_PARKED
from engine.kernel.entering_events import fitting, new_feeds
from engine.plan import Edge, Entry, Feed, SlotState
from engine.plan_messages import RefusedPlan, read_plan, written_plan
from tests.engine.kernels import Machine, arrived, entry, left, slot

RUNS = entry([slot(2, "picky", 1), slot(3, "output", 2)])
"""A task that raises where `b` is 4 beyond a multiple of 5, and counts what it took."""


def feed(number: int, *rows: Any, instance: int = 2, port: str = "in") -> Feed:
    return Feed(id=number, instance=instance, port=port, events=json.dumps(rows))


def letters(machine: Machine) -> list[dict[str, Any]]:
    """The dead letters of the last batch, as they are sent."""
    return [
        json.loads(payload)
        for each in machine.records[-1].dead
        for payload in dead_letter(each.instance, each.port, each.reason, 0, each.events)
    ]


def test_fed_events_are_taken_last_and_in_order() -> None:
    """The events that the task emits for them go on to the tasks after it."""
    machine = Machine(entry=RUNS)
    record = machine.run([arrived([{"b": 0}, {"b": 1}])], feeds=[feed(8, {"b": 2}, {"b": 3}), feed(9, {"b": 5})])
    assert [(1, 0), (2, 1), (3, 2), (4, 3), (5, 5)] == [(row["seen"], row["b"]) for row in left(record, 3)]
    assert () == record.dead


def test_events_of_several_feeds_keep_the_order_of_the_feeds() -> None:
    """The second of two fed tasks takes events in the order of the letters, from either of them."""
    machine = Machine(entry=entry([slot(2, "echo", 1), slot(3, "output", 2)]))
    fed = [feed(5, {"b": 1}, instance=3), feed(6, {"b": 1}), feed(7, {"b": 1}, instance=3)]
    copies = [row["copy"] for row in left(machine.run(feeds=fed), 3)]
    assert [None, 0, 1, None] == copies


def test_events_come_back_to_their_task_only_and_once_whatever_edge_brought_them() -> None:
    """Neither to tasks beside it, nor in the copies that its edges make."""
    slots = [slot(2, "count", Edge(parent=1, times=3), by=["k"]), slot(3, "output", 2), slot(4, "output", 1)]
    record = Machine(entry=entry(slots)).run(feeds=[feed(5, {"k": "x"})])
    assert ([1], []) == ([row["count"] for row in left(record, 3)], left(record, 4))


def test_what_cannot_be_taken_again_is_a_dead_letter_again() -> None:
    """Its task raises again, has failed, has no such port, or does not run. The letter has the same events."""
    failed = slot(4, "count", 1, by=["k"], state=SlotState.FAILED)
    machine = Machine(entry=entry([slot(2, "picky", 1), slot(3, "output", 2), failed]))
    rows = ({"b": 3, "x": {"y": [1]}}, {"b": 4, "x": 2})
    record = machine.run(
        feeds=[
            feed(5, *rows),
            feed(6, *rows, instance=4),
            feed(7, *rows, port="side"),
            feed(8, *rows, instance=9),
            feed(9, {"b": "many"}, 7),
        ]
    )
    assert [3] == [row["b"] for row in left(record, 3)]
    parked = {(each["instance"], each["port"], each["reason"]): each["events"] for each in letters(machine)}
    none = {"a": None, "k": None}
    assert {
        (9, "in", "its task no longer runs"): list(rows),
        (2, "side", "no stream enters its task at port 'side'"): list(rows),
        (2, "in", "the event cannot be fed again: its field 'b' should be int64"): [{"b": "many"}],
        (2, "in", "the event cannot be fed again: it is not a JSON object"): [{"_rest": 7}],
        (2, "in", "ValueError: b is 4"): [{**none, **rows[1]}],
        (4, "in", "its task has failed: it was stopped"): [{**none, **row} for row in rows],
    } == parked


def test_json_is_written_as_json_and_comes_back_unchanged() -> None:
    """Objects, lists and texts in JSON columns are part of a dead letter's events."""
    task = replace(slot(2, "picky", 1), json_fields=(("in", "k"),))
    machine = Machine(entry=entry([task, replace(slot(3, "output", 1), json_fields=(("in", "k"),))]))
    values = [{"x": [1]}, "text", None, 2]
    machine.run([arrived([{"b": 4, "k": None if value is None else json.dumps(value)} for value in values])])
    parked = [event for letter in letters(machine) for event in letter["events"]]
    assert values == [event["k"] for event in parked]
    record = machine.run(feeds=[feed(5, *parked, instance=3)])
    assert [None if value is None else json.dumps(value, separators=(",", ":")) for value in values] == [
        row["k"] for row in left(record, 3)
    ]


COLUMNS = {
    "boolean": ([True, None], pa.bool_()),
    "integer": ([2**63 - 1, -1], pa.int64()),
    "float": ([5.0, 0.1], pa.float64()),
    "text": (["ä\0", ""], pa.string()),
    "bytes": ([b"\xff", b""], pa.binary()),
    "moment": ([datetime(2026, 1, 2, 3, 4, 5, 6000, UTC), None], pa.timestamp("ms", tz="UTC")),
    "local": ([datetime(2026, 1, 2, 3, 4, 5, 6), None], pa.timestamp("us")),  # noqa: DTZ001 - a column without a zone
    "day": ([datetime(2026, 1, 2, tzinfo=UTC).date(), None], pa.date32()),
    "list": ([[1, 2], []], pa.list_(pa.int64())),
    "struct": ([{"x": 1.5}, {"x": None}], pa.struct([("x", pa.float64())])),
    "_rest": (['{"p":{"q":1}}', None], pa.string()),
    "rest is text": (["[1]", "{}"], pa.string()),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_events_come_back_as_they_were_parked(name: str) -> None:
    """With the same values, for columns of any type."""
    values, kind = COLUMNS[name]
    rows = pa.record_batch({name: pa.array(values, kind), "other": pa.array([1, 2], pa.int64())})
    (letter,) = dead_letter(7, "in", "why", 3, rows)
    found = fitting(json.loads(letter)["events"], rows.schema)
    assert (rows, [0, 1], ()) == (found.rows, found.kept.tolist(), found.unfit)


def test_events_without_fields_come_back_as_many() -> None:
    """A port without fields gets the same number of events."""
    assert 3 == fitting([{"a": 1}, {}, {}], pa.schema([])).rows.num_rows


@given(
    begins=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 4)), max_size=5),
    turns=st.lists(st.integers(1, 4), min_size=1, max_size=12),
)
def test_each_feed_is_taken_once_whatever_entries_are_skipped(
    begins: Sequence[tuple[int, int]], turns: Sequence[int]
) -> None:
    """A feed is in the plans at least until a batch has run one of them, and is taken in that batch."""
    ends = [sum(turns[: at + 1]) for at in range(len(turns))]
    stands: dict[int, range] = {}
    for number, (begin, more) in enumerate(begins):
        taken = next((end for end in ends if end >= begin), begin)
        stands[number] = range(begin, taken + more + 1)
    entries = [
        Entry(
            number=number,
            plan=replace(RUNS.plan, feeds=tuple(feed(each) for each in stands if number in stands[each])),
            starts={},
        )
        for number in range(1, ends[-1] + 1)
    ]
    fed: list[int] = []
    for start, end in zip([0, *ends], ends, strict=False):
        before = entries[start - 1] if start else None
        fed += [each.id for each in new_feeds(entries[start:end], before)]
    assert sorted(each for each in stands if stands[each].start <= ends[-1]) == sorted(fed)


def test_a_plan_with_feeds_is_refused_unless_they_are_arrays() -> None:
    """A valid one survives its message."""
    plan = replace(RUNS.plan, feeds=(feed(5, {"b": 1}),))
    assert plan == read_plan(written_plan(plan))
    for events in ("{}", "[", ""):
        wrong = replace(plan, feeds=(replace(plan.feeds[0], events=events),))
        with pytest.raises(RefusedPlan, match="the events of feed 5 are not a JSON array"):
            read_plan(written_plan(wrong))


@pytest.mark.parametrize("levels", [DEEPEST_PARKED, DEEPEST_PARKED + 1, 960, 5_000])
def test_a_plan_is_refused_if_a_feed_is_nested_too_deeply(levels: int) -> None:
    """A worker could not read it, and its job would end."""
    events = f'[{{"b":1,"x":{"[" * (levels - 1)}{"]" * (levels - 1)}}}]'
    plan = replace(RUNS.plan, feeds=(replace(feed(5), events=events),))
    if levels <= DEEPEST_PARKED:
        assert plan == read_plan(written_plan(plan))
    else:
        with pytest.raises(RefusedPlan, match=r"of feed 5 (is nested deeper|are not a JSON array)"):
            read_plan(written_plan(plan))
