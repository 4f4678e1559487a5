"""The kernel with small plans: results worked out by hand, births, dead letters, and figures of shards."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import Item, Spool
from bridge.spools.log import packed
from bridge.spools.reader import read
from bridge.wire import UNKNOWN_BIRTH, Birth
from dags import Kind
from dags.dataflow import evenly
from engine.behaviour import installed_behaviours
from engine.catalogue import installed_catalogue
from engine.event_streams import Arrived
from engine.kernel.batch import _MOST_BIRTHS, BatchBirths
from engine.kernel.batch_rows import read_rows, written_rows
from engine.kernel.entering_events import groups_of
from engine.kernel.task_bounds import newest_dead
from engine.offset import Offset, Span
from engine.plan import Bridged, Edge, Feed, Forward, Ingress, Plan, Port, SlotState
from engine.records.job_folder import spool_folder
from engine.records.record import Cut, Dead, EmittedEvents, Record
from engine.records.state import NUMBERS, packed_key, packed_value
from tests.chaos.chain import COUNTED, Chain
from tests.engine.kernels import WAYS, Machine, arrived, dead, enters, entry, events, left, slot
from tests.engine.kernels import events as arrow_events
from tests.twins.twin_job import TwinJob


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


COUNTS = st.integers(1, 5)


@st.composite
def items(draw: st.DrawFn, most: int) -> list[Arrived]:
    """What arrived, some of it of unknown birth."""
    births = st.lists(st.builds(Birth, COUNTS, st.integers(1, 99)), min_size=1, max_size=3).map(tuple)
    found = []
    for at in range(draw(st.integers(0, most))):
        known: tuple[Birth, ...] = draw(births | st.just(()))
        count = sum(birth.many for birth in known) or draw(COUNTS)
        found.append(Arrived("s", at, count, 0, b"", known))
    return found


def each(births: Sequence[Birth]) -> list[int]:
    return [at for many, at in births for _ in range(many)]


def born(arrived: Sequence[Arrived], causes: Sequence[int]) -> list[int]:
    """When each of some events was born, straight from what that means."""
    of_cause = [at for item in arrived for at in each(item.births or (Birth(item.count, UNKNOWN_BIRTH),))]
    return [of_cause[cause] if cause < len(of_cause) else UNKNOWN_BIRTH for cause in causes]


def found(arrived: Sequence[Arrived], causes: Sequence[int]) -> tuple[Birth, ...]:
    firsts = accumulate((item.count for item in arrived), initial=0)
    return BatchBirths(zip(firsts, arrived, strict=False)).of(np.array(causes, np.int64))


CAUSES = st.lists(st.integers(0, 60), max_size=40).map(sorted)


@given(items(most=6), CAUSES)
def test_an_event_was_born_when_its_cause_was(came: list[Arrived], causes: list[int]) -> None:
    """Whatever is emitted for it, however often; what came from no spool is of unknown birth."""
    assert born(came, causes) == each(found(came, causes))


@given(items(most=60), st.integers(1, 7))
def test_too_many_births_become_few_that_are_no_younger(came: list[Arrived], step: int) -> None:
    """However many items came, each event has a birth, and none is younger than it is."""
    causes = list(range(0, sum(item.count for item in came), step))
    births = found(came, causes)
    assert len(births) <= _MOST_BIRTHS
    assert len(causes) == len(each(births))
    assert all(least <= at for least, at in zip(each(births), born(came, causes), strict=True))


def test_what_a_task_emits_later_was_born_with_the_event_that_it_is_emitted_for() -> None:
    """An average of a window with the event that fills it; what is fed again at no known time."""
    slots = [slot(2, "block_window_average", 1, field="a", window=2), slot(3, "picky", 1)]
    machine = Machine(entry=entry(slots, [enters("s", 1)], [Forward(instance=2), Forward(instance=3)]))
    rows = [{"a": 1.0, "b": number} for number in range(3)]
    first = arrived(rows)._replace(births=(Birth(2, 100), Birth(1, 200)))
    outcome = machine.run([first])
    assert [((Birth(1, 100),)), ((Birth(2, 100), Birth(1, 200)))] == [each.births for each in outcome.emitted]
    second = arrived(rows[:1], first=3)._replace(births=(Birth(1, 300),))
    feed = Feed(id=1, instance=3, port="in", events='[{"a": 1.0, "b": 1}]')
    outcome = machine.run([second], feeds=[feed])
    assert [((Birth(1, 300),)), ((Birth(1, 300), Birth(1, UNKNOWN_BIRTH)))] == [each.births for each in outcome.emitted]


def test_births_survive_as_rows() -> None:
    """What Spark carries from the spools to the kernel has them, and has none where they are not known."""
    span = Span(Offset(), Offset(at={"s": 4}))
    items = [Arrived("s", 0, 3, 9, b"x", (Birth(1, 5), Birth(2, 6))), Arrived("s", 3, 1, 9, b"y")]
    assert [(7, span, items, 3, [5], True)] == list(read_rows(written_rows(7, span, items, 3, [5], timed=True)))


def test_births_travel_from_the_raw_spool_to_the_subscribers(tmp_path: Path) -> None:
    """Over record, sender, broker and receiver, though the subscriber's spool has stamps of its own."""
    chain = Chain(tmp_path)
    try:
        for _ in range(2):
            chain.events()
            chain.pass_time(10.0)
        chain.settle()
        chain.check()
        spooled = [item for _, item in read(chain.spools[COUNTED].folder, 0, 1 << 40)]
        assert {1_000_000, 1_010_000} == {at for item in spooled for at in each(item.births)}
        assert [item.count for item in spooled] == [len(each(item.births)) for item in spooled]
        assert all(item.stamp >= 1_020_000 for item in spooled)
        # The broker's last answers are still to be heard.
        chain.whole()
        report = chain.follower.latencies.report(chain.clock.now())
        assert {"d": {"out": report.all}} == report.outputs
        assert (True, True) == (10.0 <= report.all["p50"], 20.0 <= report.all["p99"] < 25.0)
    finally:
        chain.close()


@given(st.lists(st.integers(1, 20), max_size=8), st.integers(1, 6), st.integers(1, 800))
def test_the_newest_are_kept_in_order(counts: list[int], most: int, most_bytes: int) -> None:
    """Within both bounds, but for one event at least; and no older one if a newer one is not kept."""
    numbers = iter(range(1_000))
    dead = [
        Dead(
            instance=2, port="in", reason=str(at), events=pa.record_batch({"n": [next(numbers) for _ in range(count)]})
        )
        for at, count in enumerate(counts)
    ]
    kept = newest_dead(dead, most=most, most_bytes=most_bytes)
    events = list(chain.from_iterable(each.events["n"].to_pylist() for each in kept))
    every = list(range(sum(counts)))
    assert every[len(every) - len(events) :] == events
    assert bool(dead) == bool(events)
    assert len(kept) <= most
    assert sum(each.events.nbytes for each in kept) <= max(most_bytes, 8)
    if sum(counts) * 8 <= most_bytes and len(dead) <= most:
        assert dead == kept


EVENTS = [{"k": key, "n": number} for number, key in enumerate("aabacadaaabbe")]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_record_counts_the_events_of_each_key_group(tmp_path: Path, shards: int) -> None:
    """With one shard nothing is counted, because nothing could move."""
    twin = TwinJob(tmp_path, "j", installed_behaviours(), installed_catalogue())
    spool = Spool(spool_folder(tmp_path, "s"), most_bytes=1_000_000)
    twin.log(
        Plan(
            job="j",
            host="h",
            version=1,
            ingress=(enters("s", 1),),
            slots=(slot(2, "count", 1, by=["k"]),),
            shards=shards,
        )
    )
    rows: pa.RecordBatch = arrow_events(EVENTS)
    spool.append([Item(count=len(rows), stamp=0, payload=packed(rows))])
    twin.settle()
    headers = [twin.store.file(batch).header for batch in twin.store.batches()]
    counted = sum((Counter(header.grouped) for header in headers), Counter[int]())
    assert counted == (Counter(groups_of(rows, ("k",)).tolist()) if shards > 1 else Counter())
    if shards > 1:
        # Each shard has counted its own; all of their CPU is in the meters of the batch.
        assert {evenly(shards)[group] for group in counted} <= set(range(shards))
        for header in headers:
            assert sum(part.cpu_ns for part in header.shards) == sum(each.cpu_ns for each in header.meters.values())
    spool.close()
