"""The kernel with small plans, whose results are worked out by hand."""

from typing import Any

import pyarrow as pa
import pytest

from bridge.spools.log import packed
from dags import Kind
from engine.kernel.batch import Arrived
from engine.offset import Offset
from engine.plan import Bridged, Edge, Forward, Ingress, Port, SlotState
from engine.records.record import Cut, EmittedEvents, Record
from engine.records.state import NUMBERS, packed_key, packed_value
from tests.engine.kernels import WAYS, Machine, arrived, dead, enters, entry, events, left, slot


def values(record: Record, instance: int, field: str = "b") -> list[Any]:
    return [row[field] for row in left(record, instance)]


def numbered(*numbers: int, stream: str = "s", first: int = 0, stamp: int = 0) -> Arrived:
    return arrived([{"b": number} for number in numbers], stream, first, stamp)


def test_events_go_through_a_chain() -> None:
    """Through a filter into an output, with the positions of the remaining events."""
    some = slot(2, "range_filter", 1, field="b", min=2, max=3, outside="drop")
    machine = Machine(entry=entry([some, slot(3, "output", 2)]))
    record = machine.run([numbered(1, 2, 3, 4)])
    assert [2, 3] == values(record, 3)
    assert {2: (4, 2, 0), 3: (2, 2, 0)} == {
        instance: (meter.taken, meter.emitted, meter.dead) for instance, meter in record.meters.items()
    }
    assert all(meter.cpu_ns > 0 for meter in record.meters.values())


def test_a_tasks_edges_follow_each_other_for_each_cause() -> None:
    """All events of one cause come before those of the next, edge by edge, with copies side by side."""
    slots = [
        slot(2, "echo", 1),
        slot(3, "range_filter", 2, field="copy", min=0, max=0, outside="drop"),
        slot(4, "output", Edge(parent=3), Edge(parent=2, times=2)),
    ]
    record = Machine(entry=entry(slots)).run([numbered(7, 8)])
    expected = [(b, copy) for b in (7, 8) for copy in (0, 0, 0, 1, 1)]
    assert expected == [(row["b"], row["copy"]) for row in left(record, 4)]


def test_ports_follow_each_other_for_each_cause() -> None:
    """A task with two ports takes events by cause, then in the order of its edges."""
    edges = [Edge(port="left", parent=1, times=2), Edge(port="right", parent=1)]
    record = Machine(entry=entry([slot(2, "join", *edges), slot(3, "output", 2)])).run([numbered(1, 2, 3)])
    assert [(1, None), (1, None), (2, 1), (2, 1), (3, 2), (3, 2)] == [
        (row["left"], row["right"]) for row in left(record, 3)
    ]


def test_a_task_runs_with_the_ports_that_are_fed_and_those_that_its_config_names() -> None:
    """A port without a stream does not stop the others. Ports may have any name."""
    from_second = Edge(port="side", parent=2, parent_port=WAYS[1])
    slots = [
        slot(2, "route", 1),
        slot(3, "either", Edge(parent=2, parent_port=WAYS[0])),
        slot(4, "either", from_second),
        slot(5, "either", Edge(parent=2, parent_port=WAYS[0]), from_second),
        *(slot(each + 3, "output", each) for each in (3, 4, 5)),
    ]
    record = Machine(entry=entry(slots)).run([numbered(0, 1, 2)])
    assert [[0, 2], [1], [0, 1, 2]] == [[row["b"] for row in left(record, each)] for each in (6, 7, 8)]


def test_streams_interleave_as_they_arrived() -> None:
    """By stamp, then by name. The order within a stream is kept even if its clock went back."""
    machine = Machine(entry=entry([slot(3, "output", 1, 2)], [enters("s", 1), enters("t", 2)]))
    items = [
        numbered(1, stamp=10),
        numbered(4, first=1, stamp=5),
        numbered(2, stream="t", stamp=10),
        numbered(0, stream="t", first=1, stamp=11),
        numbered(5, first=2, stamp=12),
    ]
    assert [1, 4, 2, 0, 5] == values(machine.run(items), 3)
    assert [1, 4, 2, 0, 5] == values(machine.run(list(reversed(items))), 3)


def test_a_port_has_the_fields_that_all_its_streams_have() -> None:
    """Even in a batch with events only in the richer stream."""
    poorer = enters("t", 2, {"b": Kind.INTEGER, "a": Kind.INTEGER})
    machine = Machine(entry=entry([slot(3, "output", 1, 2)], [enters("s", 1), poorer]))
    assert [{"b": 1, "_rest": None}] == left(machine.run([numbered(1)]), 3)


def test_streams_may_have_no_field_in_common() -> None:
    """Then events have no fields, but can still be counted."""
    slots = [slot(2, "pi_viete", 1), slot(3, "count", 1), slot(4, "count", 2, 3), slot(5, "output", 4)]
    assert [1, 2, 3, 4] == values(Machine(entry=entry(slots)).run([numbered(1, 1)]), 5, "count")


def test_the_fields_of_a_bridged_stream_are_those_of_its_events() -> None:
    """They are remembered in batches without events. Before the first event, the other streams decide."""
    bridged = Ingress(stream="t", instance=2, supply=Bridged())
    machine = Machine(entry=entry([slot(3, "output", 1, 2)], [enters("s", 1), bridged]))
    assert [{"a": None, "b": 1, "k": None, "_rest": None}] == left(machine.run([numbered(1)]), 3)
    other = pa.record_batch({"b": pa.array([2]), "z": pa.array([1])})
    assert [2] == values(machine.run([Arrived("t", 0, 1, 0, packed(other))]), 3)
    assert [{"b": 3}] == left(machine.run([numbered(3)]), 3)


def test_a_bridge_that_changes_its_fields_is_followed() -> None:
    """The latest fields hold for the batch. Missing ones are null, and events that cannot be converted are parked."""
    machine = Machine(entry=entry([slot(3, "output", 2)], [Ingress(stream="t", instance=2, supply=Bridged())]))
    old = pa.record_batch({"b": pa.array([1])})
    text = pa.record_batch({"b": pa.array(["x"])})
    new = pa.record_batch({"b": pa.array([2]), "z": pa.array([1])})
    items = [Arrived("t", at, 1, 0, packed(each)) for at, each in enumerate((old, text, new))]
    record = machine.run(items)
    assert [{"b": 1, "z": None}, {"b": 2, "z": 1}] == left(record, 3)
    [(instance, port, reason, b)] = dead(record)
    assert (2, "out", "x") == (instance, port, b)
    assert reason.startswith("pyarrow.lib.ArrowInvalid: Failed to parse string: 'x'")


def test_numbers_go_on_from_batch_to_batch() -> None:
    """They count per port since the instance began, including markers."""
    forwards = [Forward(instance=2, port="odd"), Forward(instance=2, port="even"), Forward(instance=1)]
    machine = Machine(entry=entry([slot(2, "split", 1)], forwards=forwards))
    first = machine.run([numbered(1, 2, 3)])
    second = machine.run([numbered(5, first=3)], end=Offset(entry=1, at={"s": 5}, cuts={"m": ("s",)}))
    third = machine.run([numbered(7, 8, first=5)])
    outcomes = [
        [(each.origin.instance, each.origin.port, each.first, each.count, each.marker) for each in record.emitted]
        for record in (first, second, third)
    ]
    assert [(2, "odd", 0, 2, ""), (2, "even", 0, 1, ""), (1, "out", 0, 3, "")] == outcomes[0]
    markers = [(2, "odd", 3, 1, "m"), (2, "even", 1, 1, "m"), (1, "out", 4, 1, "m")]
    assert [(2, "odd", 2, 1, ""), (1, "out", 3, 1, ""), *markers] == outcomes[1]
    assert [(2, "odd", 4, 1, ""), (2, "even", 2, 1, ""), (1, "out", 5, 2, "")] == outcomes[2]


def test_a_marker_cuts_the_parts_that_it_went_through() -> None:
    """Other parts of the plan get no marker, and their states are not in the cut."""
    slots = [slot(3, "count", 1), slot(4, "count", 2), slot(5, "count", 4, state=SlotState.PAUSED)]
    forwards = [Forward(instance=3), Forward(instance=4)]
    machine = Machine(entry=entry(slots, [enters("s", 1), enters("t", 2)], forwards))
    record = machine.run(end=Offset(entry=1, at={"s": 9, "t": 4}, cuts={"z": ("t",), "m": ("t",)}))
    assert (
        Cut(name="m", instances=(2, 4), positions={"t": 4}),
        Cut(name="z", instances=(2, 4), positions={"t": 4}),
    ) == record.cuts
    assert (
        EmittedEvents(origin=Port(4, "out"), first=0, marker="m"),
        EmittedEvents(origin=Port(4, "out"), first=1, marker="z"),
    ) == record.emitted


def test_nothing_reaches_a_paused_task() -> None:
    """It keeps its state, and continues when it is active again. Its neighbours lose nothing."""
    slots = [slot(2, "count", 1), slot(3, "count", 1), slot(4, "output", 2), slot(5, "output", 3)]
    machine = Machine(entry=entry(slots))
    machine.run([numbered(1, 1)])
    paused = [slot(3, "count", 1, state=SlotState.PAUSED), slot(5, "output", 3, state=SlotState.PAUSED)]
    machine.become(entry([slots[0], paused[0], slots[2], paused[1]], number=2))
    record = machine.run([numbered(1, 1)])
    assert ([3, 4], [], (), {2, 4}) == (
        values(record, 4, "count"),
        left(record, 5),
        record.dead,
        set(record.meters),
    )
    machine.become(entry(slots, number=3))
    record = machine.run([numbered(1)])
    assert ([5], [3]) == (values(record, 4, "count"), values(record, 5, "count"))


def test_events_of_a_failed_task_are_parked() -> None:
    """With the reason of its failure. Tasks after it continue without them."""
    slots = [slot(2, "count", 1, state=SlotState.FAILED), slot(3, "output", 2), slot(4, "output", 1)]
    record = Machine(entry=entry(slots)).run([numbered(1, 2)])
    reason = "its task has failed: it was stopped"
    assert [(2, "in", reason, 1), (2, "in", reason, 2)] == dead(record)
    assert ([], [1, 2]) == (left(record, 3), values(record, 4))
    assert (2, 0, 2) == (record.meters[2].taken, record.meters[2].emitted, record.meters[2].dead)


def test_an_instance_that_leaves_the_plan_is_forgotten() -> None:
    """Once, when the next plan begins. An instance that stays keeps its state."""
    slots = [slot(2, "count", 1), slot(3, "count", 1)]
    machine = Machine(entry=entry(slots))
    assert () == machine.run([numbered(1)]).dropped
    assert {2, 3} == set(machine.state.kept)
    machine.become(entry([*slots[:1], slot(4, "output", 2)], number=2))
    record = machine.run([numbered(1)])
    assert ((3,), [2]) == (record.dropped, values(record, 4, "count"))
    assert {2, 4} == set(machine.state.kept)
    assert () == machine.run().dropped


def test_a_source_that_is_forwarded_keeps_its_number() -> None:
    """Even if the plan changes, although it has no slot."""
    machine = Machine(entry=entry([], forwards=[Forward(instance=1)]))
    machine.run([numbered(1, 2)])
    machine.become(entry([slot(2, "output", 1)], forwards=[Forward(instance=1)], number=2))
    record = machine.run([numbered(3)])
    assert ([2, 0], ()) == ([each.first for each in record.emitted], record.dropped)


def test_an_instance_brings_its_state_along() -> None:
    """With its numbers, before its first event, in place of any state that it had here."""
    slots = [slot(2, "count", 1, by=["k"]), slot(3, "output", 2)]
    machine = Machine(entry=entry(slots))
    machine.run([arrived([{"k": "old"}])])
    key = packed_key(("new",))
    table = {2: {7: {key: packed_value(40)}}, 3: {NUMBERS: {b"out": packed_value(100)}}}
    machine.become(entry(slots, number=2))
    record = machine.run([arrived([{"k": "new"}, {"k": "old"}])], imports=[table])
    assert [{"k": "new", "count": 41}, {"k": "old", "count": 1}] == left(record, 3)
    assert [100] == [each.first for each in record.emitted]
    assert [42, 2] == values(machine.run([arrived([{"k": "new"}, {"k": "old"}])]), 3, "count")


def test_the_outcome_does_not_depend_on_earlier_batches_of_the_process() -> None:
    """A batch that is repeated from the same state gives the same record."""
    slots = [slot(2, "block_window_average", 1, field="b", window=2), slot(3, "output", 2, 1)]
    machines = [Machine(entry=entry(slots)) for _ in range(2)]
    machines[0].run([numbered(1)])
    machines[0].state.clear(-1)
    records = [machine.run([numbered(1, 2, 3)]) for machine in machines]
    outcomes = [(record.changes, left(record, 3), record.dead) for record in records]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("items", [[], [arrived(events([]))]])
def test_a_batch_without_events_does_nothing(items: list[Arrived]) -> None:
    """It only warms up the worker."""
    record = Machine(entry=entry([slot(2, "count", 1), slot(3, "output", 2)])).run(items)
    assert ((), (), {}, {}) == (record.emitted, record.dead, record.meters, record.changes)
