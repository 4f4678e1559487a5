"""Plans, behaviours and batches for tests of the kernel."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from bridge.raw_events import arrow_schema
from bridge.spools.log import packed
from dags import Kind, Schema
from engine.behaviour import Behaviour, EachEvent, PortEmission, TaskWatch, Unwatched, behaviours_of, each_event
from engine.kernel.batch import Arrived, BatchTime, run_batch
from engine.kernel.plans import PartLayout
from engine.kernel.task_bounds import EventCost
from engine.offset import Offset
from engine.plan import Delivery, Edge, Entry, Feed, Forward, Ingress, Plan, Slot, SlotState, Subscribed
from engine.port_events import PortSampling
from engine.records.record import Record, Table
from engine.records.state import InstanceStates, Staged
from engine.tasks import TYPES

PLACES = {
    "block_window_average": "engine.implementations.stream_statistics:block_window_average",
    "count": "engine.implementations.stream_statistics:count",
    "output": "engine.implementations.compute:output",
    "pi_viete": "engine.implementations.compute:pi_viete",
    "range_filter": "engine.implementations.filters:range_filter",
}
VERSIONS = {each.name: each.version for each in TYPES}
FIELDS = {"a": Kind.FLOAT, "b": Kind.INTEGER, "k": Kind.STRING}
_UNWATCHED = Unwatched()


def _echo(_port: str, event: dict[str, Any], _state: Staged) -> Iterable[tuple[str, dict[str, Any]]]:
    for copy in range(2):
        yield "out", {**event, "copy": copy}


def _split(_port: str, event: dict[str, Any], _state: Staged) -> Iterable[tuple[str, dict[str, Any]]]:
    yield "odd" if (event["b"] or 0) % 2 else "even", event


def _join(port: str, event: dict[str, Any], state: Staged) -> Iterable[tuple[str, dict[str, Any]]]:
    if port == "right":
        state.put(("right",), event["b"])
    else:
        yield "out", {"left": event["b"], "right": state.get(("right",))}


def _picky(_port: str, event: dict[str, Any], state: Staged) -> Iterable[tuple[str, dict[str, Any]]]:
    seen = (state.get(()) or 0) + 1
    # Before it looks, so that only what is rolled back is not counted.
    state.put((), seen)
    if (event["b"] or 0) % 5 == 4:
        raise ValueError(f"b is {event['b']}")
    yield "out", {"seen": seen, "b": event["b"]}


def _either(_port: str, event: dict[str, Any], _state: Staged) -> Iterable[tuple[str, dict[str, Any]]]:
    yield "out", {"b": event["b"]}


def _route(ways: Sequence[str]) -> EachEvent:
    def route(_port: str, event: dict[str, Any], _state: Staged) -> Iterable[tuple[str, dict[str, Any]]]:
        yield ways[event["b"] % len(ways)], event

    return route


JOINED = pa.schema({"left": pa.int64(), "right": pa.int64()})
SEEN = pa.schema({"seen": pa.int64(), "b": pa.int64()})
WAYS = ("one", "ways with / and #")
OWN: Mapping[str, Behaviour] = {
    "echo": each_event(_echo, lambda schema: {"out": schema.append(pa.field("copy", pa.int64()))}),
    "split": each_event(_split, lambda schema: {"odd": schema, "even": schema}),
    "join": each_event(_join, lambda _schema: {"out": JOINED}),
    "either": each_event(_either, lambda _schema: {"out": pa.schema({"b": pa.int64()})}),
    "route": each_event(_route(WAYS), lambda schema: dict.fromkeys(WAYS, schema)),
    "picky": each_event(_picky, lambda _schema: {"out": SEEN}),
}
"""What the library has no task for yet: several events for one, several ports, errors."""


def slot(instance: int, type_: str, *inputs: Edge | int, state: SlotState = SlotState.ACTIVE, **config: Any) -> Slot:
    edges = tuple(each if isinstance(each, Edge) else Edge(parent=each) for each in inputs)
    reason = "it was stopped" if state is SlotState.FAILED else ""
    version = VERSIONS.get(type_, 1)
    return Slot(
        instance=instance,
        type=type_,
        version=version,
        config=json.dumps(config),
        inputs=edges,
        state=state,
        reason=reason,
    )


def enters(stream: str, instance: int, fields: Mapping[str, Kind] | None = None) -> Ingress:
    supply = Subscribed(topic=stream, fields=FIELDS if fields is None else fields)
    return Ingress(stream=stream, instance=instance, supply=supply)


def entry(
    slots: Sequence[Slot],
    ingress: Sequence[Ingress] = (enters("s", 1),),
    forwards: Sequence[Forward] = (),
    number: int = 1,
) -> Entry:
    """A plan that delivers what each output takes."""
    plan = Plan(
        job="j",
        host="h",
        version=number,
        slots=tuple(slots),
        ingress=tuple(ingress),
        forwards=tuple(forwards),
        deliveries=tuple(
            Delivery(instance=each.instance, tenant="ann", dataflow="d", sink=str(each.instance))
            for each in slots
            if each.type == "output"
        ),
    )
    return Entry(number=number, plan=plan, starts={})


def behaviours(slots: Iterable[Slot]) -> dict[int, Behaviour]:
    slots = [each for each in slots if each.state is SlotState.ACTIVE]
    own = {each.instance: OWN[each.type] for each in slots if each.type in OWN}
    return own | behaviours_of([each for each in slots if each.type not in OWN], PLACES)


def events(rows: Sequence[Mapping[str, Any]], fields: Mapping[str, Kind] | None = None) -> pa.RecordBatch:
    schema = arrow_schema(Schema.of(FIELDS if fields is None else fields))
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=schema)


def arrived(
    rows: Sequence[Mapping[str, Any]] | pa.RecordBatch, stream: str = "s", first: int = 0, stamp: int = 0
) -> Arrived:
    batch = rows if isinstance(rows, pa.RecordBatch) else events(rows)
    return Arrived(stream, first, batch.num_rows, stamp, packed(batch))


def spending(seconds: float, calls: list[int]) -> Behaviour:
    """Uses so much CPU for each event."""

    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        calls.append(len(rows))
        until = time.thread_time() + seconds * len(rows)
        while time.thread_time() < until:
            pass
        return {"out": PortEmission(rows)}

    return behave


class DrawnTime(BatchTime):
    """A time that is up at any moment, and chunks of any size."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._chance = chance

    def is_long(self, part: PartLayout, events: int) -> bool:
        del part, events
        return self._chance.random() < 0.5

    def is_up(self, part: PartLayout, *, is_long: bool) -> bool:
        del part, is_long
        return self._chance.random() < 0.3

    def first_chunk(self, part: PartLayout) -> int:
        del part
        return self._chance.randint(1, 3)

    def next_chunk(self, part: PartLayout, events: int, ns: int) -> int:
        del events, ns
        return self.first_chunk(part)


@dataclass(kw_only=True)
class Machine:
    """A job's state, and one batch after the other."""

    entry: Entry
    made: Mapping[int, Behaviour] | None = None
    state: InstanceStates = field(default_factory=InstanceStates)
    costs: dict[int, EventCost] = field(default_factory=dict)
    begun: int = 0
    """The entry that the last batch ran."""
    records: list[Record] = field(default_factory=list)

    def run(  # noqa: PLR0913 - what a batch takes
        self,
        items: Sequence[Arrived] = (),
        *,
        end: Offset | None = None,
        imports: Sequence[Table] = (),
        feeds: Sequence[Feed] = (),
        begun: Sequence[Entry] = (),
        watch: TaskWatch = _UNWATCHED,
        batch_time: BatchTime | None = None,
        sampling: PortSampling | None = None,
    ) -> Record:
        if self.made is None:
            self.made = behaviours(self.entry.plan.slots)
        record = run_batch(
            self.state.version + 1,
            self.entry,
            Offset(entry=self.begun),
            end or Offset(entry=self.entry.number),
            items,
            self.state,
            self.made,
            imports=imports,
            feeds=feeds,
            begun=begun,
            attempt=watch,
            costs=self.costs,
            time=batch_time,
            sampling=sampling,
        )
        self.begun = self.entry.number
        self.records.append(self.state.settle(record))
        return record

    def become(self, entry: Entry) -> None:
        self.entry, self.made = entry, None


def left(record: Record, instance: int, port: str = "out") -> list[dict[str, Any]]:
    """The events that left at a port."""
    return [
        row
        for each in record.emitted
        if each.origin == (instance, port) and each.events is not None
        for row in each.events.to_pylist()
    ]


def dead(record: Record) -> list[tuple[int, str, str, Any]]:
    """Each parked event: instance, port, reason, and its field b."""
    return [
        (each.instance, each.port, each.reason, row.get("b")) for each in record.dead for row in each.events.to_pylist()
    ]
