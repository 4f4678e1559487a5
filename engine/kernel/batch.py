"""The kernel: runs one batch of a whole plan in one Python call, from the events that arrived to the record.

The slots run in topological order, each with all its events of the batch. The order of events is that of the raw
events: an emitted event has the cause of the event that it was emitted for, and a task takes its events in the order of
their causes, then of its edges. So with one ingress stream, the boundaries of batches make no difference.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bridge import unpacked
from bridge.events.raw_events import arrow_schema
from dags import Schema
from engine.behaviour import Behaviour
from engine.event_streams import Arrived, EventStream, PortRun, conformed, gathered, in_order, joined, runs
from engine.kernel.batch_births import BatchBirths
from engine.kernel.dead_letter_feed import fitting, unshaped_rows
from engine.kernel.entering_events import entering
from engine.kernel.layout import Layout, by_port, layout_of
from engine.kernel.markers import cut_markers, cuts_at, switch_markers
from engine.kernel.state_changes import change_states, in_effect, untransformed
from engine.kernel.task_run import Reason, TaskInput, TaskOutcome, TaskRun, reason_of
from engine.offset import Offset
from engine.plan import Entry, Feed, Ingress, Port, Slot, SlotState
from engine.records.record import Dead, EmittedEvents, InstanceMeter, Record, Table
from engine.records.staged_state import NUMBERS
from engine.records.state import InstanceStates
from engine.side_effect import NOWHERE, ActingBehaviour, Origins
from engine.supply import Bridged
from engine.task_cpu import task_cpu_ns
from engine.task_watch import TaskWatch, Unwatched

__all__ = ["Arrived", "run_batch"]

_UNWATCHED = Unwatched()
_SEEN = "\0fields of what enters"
"""The state's key for the fields of a stream that no plan declares. No task has such a key."""


def run_batch(  # noqa: PLR0913, PLR0917 - a batch depends on all of these
    batch: int,
    entry: Entry,
    start: Offset,
    end: Offset,
    rows: Sequence[Arrived],
    state: InstanceStates,
    behaviours: Mapping[int, Behaviour],
    *,
    imports: Sequence[Table] = (),
    feeds: Sequence[Feed] = (),
    begun: Sequence[Entry] = (),
    attempt: TaskWatch = _UNWATCHED,
    deployment: str = "",
) -> Record:
    """Run the plan of an entry over the events between two offsets, and return the record.

    `behaviours` are those of the active slots, `begun` the entries of the log that begin with this batch. `feeds` come
    after the events that arrived. The state is staged, not settled. `deployment` is the id of the job's root.
    """
    layout = layout_of(entry, behaviours)
    dropped = sorted(set(state.kept) - layout.members)
    for table in imports:
        _bring(table, state)
    beginning = tuple(in_effect(begun))
    change_states(beginning, state)
    arrived = list(in_order(rows))
    fed = list(_fed(feeds, sum(item.count for item in rows)))

    def origins() -> Origins:
        return Origins.of(_places(arrived, fed), deployment=deployment, job=entry.plan.job, batch=batch)

    kernel = _Kernel(layout, state, attempt, origins)
    kernel.enter(arrived)
    kernel.feed(fed)
    kernel.run()
    cuts = tuple(cuts_at(layout, end))
    opened = tuple(_opened(entry, state)) if start.entry != end.entry else ()
    # Before any event that the new plan emits.
    switched = tuple(switch_markers(beginning, state))
    return Record(
        batch=batch,
        start=start,
        end=end,
        dropped=tuple(dropped),
        opened=opened,
        emitted=(*switched, *kernel.leaving(BatchBirths(arrived)), *cut_markers(layout, cuts, state)),
        dead=tuple(kernel.dead),
        meters=kernel.meters,
        cuts=cuts,
        # Last, because numbering the events that leave changes the state too.
        changes=state.changes(),
    )


class _Fed(NamedTuple):
    """Events of a dead letter that are taken again."""

    cause: int
    """The cause of the first event."""
    feed: Feed
    events: list[Any]


class _Kernel:
    """The streams of a plan in one batch."""

    def __init__(self, layout: Layout, state: InstanceStates, watch: TaskWatch, origins: Callable[[], Origins]) -> None:
        self.dead: list[Dead] = []
        self.meters: dict[int, InstanceMeter] = {}
        self._layout = layout
        self._state = state
        self._watch = watch
        self._find_origins = origins
        self._streams: dict[Port, EventStream] = {}
        self._entering: dict[Port, pa.Schema] = {}
        self._fed: dict[int, list[_Fed]] = {}

    def enter(self, arrived: Sequence[tuple[int, Arrived]]) -> None:
        """Take the items that arrived, each with the cause of its first event."""
        items: dict[str, list[tuple[int, Arrived]]] = {}
        for cause, item in arrived:
            items.setdefault(item.stream, []).append((cause, item))
        for ingress in self._layout.entry.plan.ingress:
            events = [(cause, unpacked(item.payload)) for cause, item in items.get(ingress.stream, ())]
            schema = self._schema(ingress, [batch.schema for _, batch in events])
            if schema is None:
                continue
            self._entering[ingress.origin] = schema
            streams = []
            for cause, batch in events:
                if not isinstance(ingress.supply, Bridged):
                    streams.append(self._raw(ingress, ingress.supply.schema, cause, batch))
                    continue
                try:
                    one = conformed(batch, schema)
                except pa.ArrowException as error:
                    self.dead.append(
                        Dead(instance=ingress.instance, port=ingress.port, reason=reason_of(error), events=batch)
                    )
                else:
                    streams.append(EventStream(one, np.arange(cause, cause + len(one))))
            self._streams[ingress.origin] = joined(streams, schema)

    def _raw(self, ingress: Ingress, schema: Schema, cause: int, batch: pa.RecordBatch) -> EventStream:
        """Raw events by the schema that the plan has for them; what does not fit is parked."""
        found = entering(batch, schema)
        for at, reason in found.unfit:
            self.dead.append(
                Dead(instance=ingress.instance, port=ingress.port, reason=reason, events=batch.slice(at, 1))
            )
        return EventStream(found.rows, np.array(found.kept, np.int64) + cause)

    def feed(self, fed: Sequence[_Fed]) -> None:
        """Give events of dead letters to their instances again."""
        run = {slot.instance for slot in (*self._layout.active, *self._layout.failed)}
        for each in fed:
            if each.feed.instance in run:
                self._fed.setdefault(each.feed.instance, []).append(each)
            else:
                self._park_again(each.feed, each.events, "its task no longer runs")

    def run(self) -> None:
        """Run every slot."""
        inside = self._layout.inside(self._entering, self._state, self._watch)
        for slot in (*self._layout.active, *self._layout.failed):
            begun = task_cpu_ns()
            self._watch.running(slot.instance)
            taken = self._taken(slot, inside.inputs[slot.instance])
            if not len(taken):
                continue
            if slot.state is SlotState.FAILED:
                outcome = _all_parked(slot, taken, f"its task has failed: {slot.reason}")
            elif why := inside.unable.get(slot.instance) or untransformed(self._state, slot.instance):
                outcome = _all_parked(slot, taken, why)
            else:
                behaviour = self._layout.behaviours[slot.instance]
                outcome = TaskRun(
                    instance=slot.instance,
                    behaviour=behaviour,
                    outputs=inside.outputs[slot.instance],
                    state=self._state.of(slot.instance),
                    taken=taken,
                    watch=self._watch,
                    origins=self._origins if isinstance(behaviour, ActingBehaviour) else NOWHERE,
                ).work_off()
            self._streams |= {Port(slot.instance, port): stream for port, stream in outcome.emitted.items()}
            self.dead += outcome.dead
            self.meters[slot.instance] = InstanceMeter(
                cpu_ns=task_cpu_ns() - begun,
                taken=len(taken),
                emitted=sum(map(len, outcome.emitted.values())),
                dead=sum(each.events.num_rows for each in outcome.dead),
            )
        self._watch.idle()

    def leaving(self, births: BatchBirths) -> Iterator[EmittedEvents]:
        """The events that leave the job, with their numbers and births."""
        for origin in self._layout.leaving:
            stream = self._streams.get(origin)
            if stream is not None and len(stream):
                first = self._state.of(origin.instance).advance(origin.port, len(stream))
                yield EmittedEvents(origin=origin, first=first, events=stream.rows, births=births.of(stream.causes))

    @cached_property
    def _origins(self) -> Origins:
        """Found on demand, because most batches have no acting behaviour."""
        return self._find_origins()

    def _taken(self, slot: Slot, takes: Mapping[str, pa.Schema]) -> TaskInput:
        ports = []
        fed = self._fed_to(slot, takes)
        for port, edges in by_port(slot).items():
            streams = [(self._streams[edge.origin], edge.times) for edge in edges if edge.origin in self._streams]
            streams += [(stream, 1) for stream in fed.get(port, ())]
            if streams and port in takes:
                ports.append(PortRun(port, gathered(streams, takes[port])))
        return TaskInput(runs(ports))

    def _fed_to(self, slot: Slot, takes: Mapping[str, pa.Schema]) -> dict[str, list[EventStream]]:
        """The events fed to a slot, at each of its ports. Events that do not fit are parked again."""
        found: dict[str, list[EventStream]] = {}
        for cause, feed, events in self._fed.get(slot.instance, ()):
            if feed.port not in takes:
                self._park_again(feed, events, f"no stream enters its task at port {feed.port!r}")
                continue
            fits = fitting(events, takes[feed.port])
            for at, reason in fits.unfit:
                self._park_again(feed, events[at : at + 1], reason)
            found.setdefault(feed.port, []).append(EventStream(fits.rows, np.array(fits.kept, np.int64) + cause))
        return found

    def _park_again(self, feed: Feed, events: Sequence[Any], reason: str) -> None:
        self.dead.append(Dead(instance=feed.instance, port=feed.port, reason=reason, events=unshaped_rows(events)))

    def _schema(self, ingress: Ingress, seen: Sequence[pa.Schema]) -> pa.Schema | None:
        """The fields of a stream that enters: as declared, else as last seen; None before its first event."""
        if not isinstance(ingress.supply, Bridged):
            return arrow_schema(ingress.supply.schema)
        staged = self._state.of(ingress.instance)
        key = (_SEEN, ingress.port)
        kept = staged.get(key)
        if not seen:
            return pa.ipc.read_schema(pa.py_buffer(kept)) if kept else None
        schema = seen[-1].remove_metadata()
        if (fields := schema.serialize().to_pybytes()) != kept:
            staged.put(key, fields)
        return schema


def _fed(feeds: Sequence[Feed], cause: int) -> Iterator[_Fed]:
    """The feeds with their causes, which begin with this one, after those of the events that arrived."""
    for feed in feeds:
        events = json.loads(feed.events)
        yield _Fed(cause, feed, events)
        cause += len(events)


def _places(arrived: Sequence[tuple[int, Arrived]], fed: Sequence[_Fed]) -> Iterator[tuple[int, str, int]]:
    """The cause, stream and position of the first event of every item."""
    yield from ((cause, item.stream, item.first) for cause, item in arrived)
    yield from ((each.cause, f"feed/{each.feed.id}", 0) for each in fed)


def _opened(entry: Entry, state: InstanceStates) -> Iterator[tuple[Port, int]]:
    for forward in entry.plan.forwards:
        yield forward.origin, state.of(forward.instance).number(forward.port)


def _all_parked(slot: Slot, taken: TaskInput, reason: str) -> TaskOutcome:
    return TaskOutcome({}, taken.parked(slot.instance, [Reason(at, reason) for at in range(len(taken))]))


def _bring(table: Table, state: InstanceStates) -> None:
    """Stage the states of instances from elsewhere, which replace their earlier ones here."""
    for instance in table:
        for group, items in state.kept.get(instance, {}).items():
            if group != NUMBERS:
                state.of(instance).put_many(list(items), [None] * len(items))
    state.bring(table)
