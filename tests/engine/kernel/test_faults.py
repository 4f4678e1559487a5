"""Tasks that raise or return nonsense: their bad events are parked, and taken again when they are fed."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.output_messages import dead_letter
from bridge.raw_events import DEEPEST_PARKED
from engine.behaviour import Behaviour, EventName, PortEmission, Unwatched
from engine.kernel.batch import Arrived
from engine.kernel.entering_events import fitting, new_feeds
from engine.plan import Edge, Entry, Feed, Forward, SlotState
from engine.plan_messages import RefusedPlan, read_plan, written_plan
from engine.records.record import Record
from engine.records.state import Staged
from tests.engine.kernels import OWN, Machine, arrived, behaviours, dead, entry, events, left, slot


def numbered(*numbers: int) -> Arrived:
    return arrived([{"b": number} for number in numbers])


def run(behaviour: Behaviour, *numbers: int) -> Record:
    """A batch in which this behaviour stands between two outputs."""
    slots = [slot(2, "output", 1), slot(3, "output", 1), slot(4, "output", 2)]
    return Machine(entry=entry(slots), made={**behaviours(slots), 2: behaviour}).run([numbered(*numbers)])


def refusing(*bad: int, error: type[Exception] = ValueError) -> Behaviour:
    """Passes everything on, unless one of these is among it."""

    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        for b in rows.column("b").to_pylist():
            if b in bad:
                raise error(f"{b} is bad")
        return {"out": PortEmission(rows)}

    return behave


def numbers_left(record: Record, instance: int) -> list[Any]:
    return [row["b"] for row in left(record, instance)]


@pytest.mark.parametrize("bad", [(0,), (7,), (3, 4), (0, 2, 7), tuple(range(8))])
def test_just_the_events_that_raise_are_parked(bad: tuple[int, ...]) -> None:
    """Each with its own reason, in order. The others go on in order, and the neighbour gets all of them."""
    record = run(refusing(*bad), *range(8))
    assert [(2, "in", f"ValueError: {b} is bad", b) for b in bad] == dead(record)
    assert [b for b in range(8) if b not in bad] == numbers_left(record, 4)
    assert list(range(8)) == numbers_left(record, 3)
    meter = record.meters[2]
    assert (8, 8 - len(bad), len(bad)) == (meter.taken, meter.emitted, meter.dead)


def test_parked_events_leave_no_trace_in_the_state() -> None:
    """Changes before an error are undone, and later events see only those of good events."""
    machine = Machine(entry=entry([slot(2, "picky", 1), slot(3, "output", 2)]))
    record = machine.run([numbered(1, 4, 2, 9, 3)])
    assert [(1, 1), (2, 2), (3, 3)] == [(row["b"], row["seen"]) for row in left(record, 3)]
    assert [4, 9] == [b for *_, b in dead(record)]
    assert [4] == [row["seen"] for row in left(machine.run([numbered(5)]), 3)]


def test_neighbours_that_failed_for_one_reason_are_parked_together() -> None:
    """A dead letter contains as many events as possible."""

    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        if set(rows.column("b").to_pylist()) & {1, 2, 4}:
            raise KeyError("no")
        return {"out": PortEmission(rows)}

    record = run(behave, *range(6))
    assert [[1, 2], [4]] == [each.events.column("b").to_pylist() for each in record.dead]


def test_events_are_parked_at_their_port() -> None:
    """If a task has several."""

    def behave(port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        if len(rows) and port == "right":
            raise RuntimeError("never from there")
        return {"out": PortEmission(rows)}

    slots = [slot(2, "join", Edge(port="left", parent=1), Edge(port="right", parent=1)), slot(3, "output", 2)]
    record = Machine(entry=entry(slots), made={**behaviours(slots), 2: behave}).run([numbered(1, 2)])
    assert [("right", 1), ("right", 2)] == [(port, b) for _, port, _, b in dead(record)]
    assert [1, 2] == numbers_left(record, 3)


def test_a_task_that_does_nothing_but_raise_is_parked_whole() -> None:
    """After twenty first events with the same error, the rest is parked without a try, with the last reason."""
    calls: list[int] = []

    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        if len(rows) == 1:
            calls.extend(rows.column("b").to_pylist())
        if len(rows):
            raise ValueError(f"not {rows.column('b')[0]}")
        return {"out": PortEmission(rows)}

    record = run(behave, *range(1_000))
    assert list(range(20)) == calls
    assert [(f"ValueError: not {min(b, 19)}", b) for b in range(1_000)] == [
        (reason, b) for *_, reason, b in dead(record)
    ]
    assert 1_000 == record.meters[2].dead


def test_a_task_that_once_worked_is_tried_to_the_end() -> None:
    """So is one that raised different errors."""
    bad = range(1, 41)
    assert [0, *range(41, 50)] == numbers_left(run(refusing(*bad), *range(50)), 4)

    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        found = rows.column("b").to_pylist()
        if found and min(found) < 30:
            raise (KeyError if min(found) == 10 else ValueError)(min(found))
        return {"out": PortEmission(rows)}

    assert list(range(30, 50)) == numbers_left(run(behave, *range(50)), 4)


@pytest.mark.parametrize("error", [MemoryError, pa.ArrowMemoryError, RecursionError])
def test_running_out_of_memory_is_an_error_like_any_other(error: type[Exception]) -> None:
    """The event that asks for too much is parked."""
    record = run(refusing(1, error=error), 0, 1, 2)
    assert ([0, 2], [1]) == (numbers_left(record, 4), [b for *_, b in dead(record)])


def test_a_task_that_takes_only_few_events_at_a_time_loses_none() -> None:
    """Its batch is halved until it succeeds."""

    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        if len(rows) > 3:
            raise MemoryError
        return {"out": PortEmission(rows)}

    record = run(behave, *range(100))
    assert (list(range(100)), ()) == (numbers_left(record, 4), record.dead)


def test_a_reason_is_short_and_can_be_written() -> None:
    """Even if the message is long or contains lone surrogates."""

    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        if len(rows):
            raise ValueError("\ud800" + "x" * 1_000)
        return {"out": PortEmission(rows)}

    record = run(behave, 1)
    [(_, _, reason, _)] = dead(record)
    assert "ValueError: \\ud800" + "x" * 482 == reason


def _nonsense(answer: Callable[[pa.RecordBatch], Any]) -> Behaviour:
    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Any:
        good = {"out": PortEmission(rows.slice(0, 0), np.array([], np.int64))}
        return answer(rows) if 9 in rows.column("b").to_pylist() else good

    return behave


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            lambda rows: {"out": PortEmission(pa.concat_batches([rows, rows]))},
            "the task emits 2 events at port 'out' for 1; name",
        ),
        (
            lambda rows: {"out": PortEmission(rows, np.array([0, 0, 0, 0]))},
            "the task emits 1 events at port 'out' and names the origins of 4",
        ),
        (
            lambda rows: {"out": PortEmission(rows, np.array([1]))},
            "the origins at port 'out' are not in ascending order, or outside the batch",
        ),
        (
            lambda rows: {"out": PortEmission(rows, np.array([-1]))},
            "the origins at port 'out' are not in ascending order, or outside the batch",
        ),
        (lambda rows: {"up": PortEmission(rows)}, "the task emits at port 'up', but not for an empty batch"),
        (
            lambda rows: {"out": PortEmission(rows.select(["b"]))},
            "the task emits b: int64 at port 'out', but for an empty batch a: double, b: int64",
        ),
        (
            lambda rows: {"out": PortEmission(pa.table(rows.to_pydict()))},
            "the task emits Table at port 'out', not a RecordBatch",
        ),
        (lambda _rows: None, "AttributeError: 'NoneType' object has no attribute 'items'"),
        (lambda rows: {"out": rows}, "too many values to unpack"),
    ],
)
def test_a_task_that_returns_nonsense_is_at_fault(answer: Any, reason: str) -> None:
    """The events concerned are parked with the reason, and nothing of its result is used."""
    record = run(_nonsense(answer), 1, 9, 2)
    [(instance, _, found, b)] = dead(record)
    assert (2, 9, True) == (instance, b, reason in found)
    assert ([], [1, 9, 2]) == (left(record, 4), numbers_left(record, 3))


def test_origins_must_be_in_order() -> None:
    """Emitted events have the order of their causes."""

    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        return {"out": PortEmission(rows, np.arange(len(rows))[::-1])}

    slots = [slot(2, "output", 1), slot(3, "output", 2, 1)]
    record = Machine(entry=entry(slots), made={**behaviours(slots), 2: behave}).run([numbered(1, 2)])
    # Alone, each has an origin that cannot fall.
    assert ([1, 1, 2, 2], ()) == (numbers_left(record, 3), record.dead)


def test_a_task_that_cannot_take_an_empty_batch_is_at_fault() -> None:
    """Its fields would be unknown, so all its events are parked, with the reason."""

    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        rows.column("b")[0]
        return {"out": PortEmission(rows)}

    record = run(behave, 1, 2)
    reason = "IndexError: index out of bounds; raised for an empty batch, which every task has to take"
    assert [(2, "in", reason, 1), (2, "in", reason, 2)] == dead(record)
    assert [1, 2] == numbers_left(record, 3)


def test_ports_must_agree_about_what_is_emitted() -> None:
    """A stream has the same fields for all causes."""
    slots = [slot(2, "join", Edge(port="left", parent=1), Edge(port="right", parent=1)), slot(3, "output", 2)]

    def behave(port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        return {"out": PortEmission(rows.select(["b"] if port == "left" else ["a"]))}

    record = Machine(entry=entry(slots), made={**behaviours(slots), 2: behave}).run([numbered(1)])
    reason = "the task emits other fields at port 'out' for input port 'right' than for other ports"
    assert {reason} == {reason for _, _, reason, _ in dead(record)}
    assert 2 == record.meters[2].dead


def test_asking_what_is_emitted_changes_no_state() -> None:
    """Even that of a task that counts its calls."""

    def behave(_port: str, rows: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        state.put((), (state.get(()) or 0) + 1)
        return {"out": PortEmission(rows)}

    slots = [slot(2, "output", 1)]
    machine = Machine(entry=entry(slots), made={2: behave})
    machine.run()
    machine.run([numbered(1)])
    assert 1 == machine.state.of(2).get(())


def test_events_that_leave_carry_no_metadata() -> None:
    """A task cannot write to the frames of its events."""

    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        return {"out": PortEmission(rows.replace_schema_metadata({"epoch": "7"}))}

    rows = events([{"b": 1}]).replace_schema_metadata({"first": "7"})
    slots = [slot(2, "output", 1)]
    machine = Machine(entry=entry(slots, forwards=[Forward(instance=1)]), made={2: behave})
    sent = [each.events for each in machine.run([arrived(rows)]).emitted]
    assert [None, None] == [each.schema.metadata for each in sent if each is not None]


def test_faults_depend_only_on_the_events() -> None:
    """A batch that runs later in another process gives the same record."""
    slots = [slot(2, "picky", 1), slot(3, "output", 2)]
    items = [arrived(events([{"b": b} for b in (4, 1, 9, 14, 2)]))]
    records = [Machine(entry=entry(slots)).run(items) for _ in range(2)]
    outcomes = [(dead(record), left(record, 3), record.changes) for record in records]
    assert outcomes[0] == outcomes[1]
    assert OWN["picky"] is behaviours(slots)[2]


class Accuses(Unwatched):
    """Suspects an instance, and knows an event to park."""

    def __init__(self, instance: int, event: EventName) -> None:
        self._accused = instance, event
        self.noted: list[tuple[int, EventName | None]] = []

    def alone(self, instance: int) -> bool:
        return instance == self._accused[0]

    def parked(self, instance: int, event: EventName | None = None) -> str:
        return "killed its worker" if (instance, event) == self._accused else ""

    def running(self, instance: int, event: EventName | None = None) -> None:
        self.noted.append((instance, event))


def test_an_event_is_named_by_its_cause_and_its_place_among_those_of_it() -> None:
    """A suspect runs event by event, each noted before it runs, and only the named event is parked."""
    slots = [slot(2, "count", Edge(parent=1, times=2)), slot(3, "output", 2)]
    watch = Accuses(2, (1, 1))
    record = Machine(entry=entry(slots)).run([numbered(5, 6, 7)], watch=watch)
    assert [(2, "in", "killed its worker", 6)] == dead(record)
    assert [1, 2, 3, 4, 5] == [row["count"] for row in left(record, 3)]
    names = [event for instance, event in watch.noted if instance == 2 and event is not None]
    assert [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)] == names


def test_a_task_that_was_made_anew_runs() -> None:
    """New behaviours of an entry replace the old ones."""
    plan = entry([slot(2, "output", 1)])
    first = Machine(entry=plan, made={2: refusing(1)})
    assert 1 == len(dead(first.run([numbered(1)])))
    assert () == Machine(entry=plan, made={2: refusing(2)}).run([numbered(1)]).dead


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
    for text in ("{}", "[", ""):
        wrong = replace(plan, feeds=(replace(plan.feeds[0], events=text),))
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
