"""Tasks that raise or return nonsense: exactly their bad events are parked, without effect on others."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.behaviour import Behaviour, EventName, PortEmission, Unwatched
from engine.kernel.batch import Arrived
from engine.plan import Edge, Forward
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
