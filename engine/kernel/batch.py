"""The kernel: runs one batch of a whole plan in one Python call, from the events that arrived to the record.

The slots of a part run in topological order, each with all its events of the batch, or of a chunk of it. The order of
events is that of the raw events: an emitted event has the cause of the event that it was emitted for, and a task takes
its events in the order of their causes, then of its edges. So with one ingress stream, the boundaries of batches and
chunks make no difference.

**Births.** An emitted event has the birth of its cause. Causes never decrease along a stream, so a few look-ups give
the births of all events that leave, however many there are.

**The early end.** What a task takes for an event is known only afterwards. So the events of a part run in chunks, each
as large as the last ones allow. All parts that serve one tenant share the time of a batch; those that need little of it
run first. Once the time is used, the remaining events wait in their streams, and the record says where the batch ended
for them. So nobody's tasks hold up the other parts of a job for longer, even if nothing was known of them. If one event
took longer than that, its tenant has less time in the next batches. Of several shards each has that time for its own
events; where one ends early, those that have read on run again, up to there (`engine.records.files`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bridge import unpacked
from bridge.messages import LARGEST_EVENT
from bridge.raw_events import arrow_schema
from bridge.wire import UNKNOWN_BIRTH, Birth
from dags import Outside
from engine.behaviour import Behaviour, TaskWatch, Unwatched, pass_on, task_cpu_ns
from engine.event_streams import (
    Arrived,
    EventStream,
    Numbers,
    PortRun,
    gathered,
    in_order,
    joined,
    runs,
    without_metadata,
)
from engine.kernel.entering_events import EVERYTHING, EnteringEvents, FedEvents, Portion, entering, from_bridge
from engine.kernel.plans import (
    Inside,
    Layout,
    PartLayout,
    change_states,
    cut_markers,
    cuts_at,
    in_effect,
    layout_of,
    switch_markers,
    untransformed,
)
from engine.kernel.task_bounds import Allowance, EventCost, StateRoom, newest_dead, seconds_of
from engine.kernel.task_run import Reason, TaskInput, TaskOutcome, TaskRun
from engine.offset import NO_EARLY_END, EarlyEnd, Offset
from engine.plan import Bridged, Entry, Feed, Ingress, Port, Slot, SlotState
from engine.port_events import PortSampling
from engine.records.record import Dead, EmittedEvents, InstanceMeter, Record, Table
from engine.records.state import NUMBERS, InstanceStates
from engine.side_effect import NOWHERE, ActingBehaviour, Origins

_MOST_BIRTHS = 32
"""The most births that are kept for one stream in one batch."""


class BatchBirths:
    """The births of the events that arrived in a batch; made by the kernel."""

    def __init__(self, arrived: Iterable[tuple[int, Arrived]]) -> None:
        """Each item comes with the cause of its first event, in the order of causes."""
        begins, born, cause = [], [], 0
        for first, item in arrived:
            cause = first
            for many, at in item.births or (Birth(item.count, UNKNOWN_BIRTH),):
                begins.append(cause)
                born.append(at)
                cause += many
        # Events of dead letters come after all that arrived, and their births are unknown.
        self._begins = np.array([*begins, cause], np.int64)
        self._born = np.array([*born, UNKNOWN_BIRTH], np.int64)

    def of(self, causes: Numbers) -> tuple[Birth, ...]:
        """The births of a stream's events, by their causes. If there are too many, neighbours get the oldest one."""
        ends = np.append(np.searchsorted(causes, self._begins[1:]), len(causes))
        many = np.diff(ends, prepend=0)
        filled = many > 0
        return _condensed_births(many[filled], self._born[filled])


def _condensed_births(many: Numbers, born: Numbers) -> tuple[Birth, ...]:
    if len(many) > _MOST_BIRTHS:
        groups = np.arange(0, len(many), -(-len(many) // _MOST_BIRTHS))
        many, born = np.add.reduceat(many, groups), np.minimum.reduceat(born, groups)
    return tuple(map(Birth, many.tolist(), born.tolist()))


_CHUNKS = 8
"""The chunks in which a batch uses its time."""
_CHUNK_GROWTH = 8
"""The most by which a chunk is larger than the one before."""
_COST_REMEMBERED = 0.5
"""The part of a cost that still counts in the next batch with events of the part."""


class BatchTime:
    """The time that each batch of a job has, and who uses how much of it; kept by a worker from batch to batch.

    >>> time, part = BatchTime(), PartLayout(owner="ann", instances=frozenset({1, 2}))
    >>> time.begin(1.0)
    >>> time.first_chunk(part), time.next_chunk(part, 1, 100), time.next_chunk(part, 8, 2_500_000_000)
    (1, 8, 1)
    >>> time.is_up(part, is_long=True)
    True
    """

    def __init__(self) -> None:
        self._most = self._chunk = 0
        self._used = Counter[str | frozenset[int]]()
        self._costs: dict[frozenset[int], float] = {}
        """What an event of each part cost at most lately, in ns."""
        self._noted = set[frozenset[int]]()
        """The parts that ran in this batch."""

    def begin(self, seconds: float) -> None:
        """Begin a batch that has so many seconds of CPU for each owner, without what it used too much before."""
        self._used = Counter({owner: used - self._most for owner, used in self._used.items() if used > self._most})
        self._most = int(seconds * 1e9)
        self._chunk = self._most // _CHUNKS
        self._noted.clear()

    def is_long(self, part: PartLayout, events: int) -> bool:
        """Whether so many events may need more than a chunk."""
        cost = self._costs.get(part.instances)
        return cost is None or cost * events > self._chunk

    def is_up(self, part: PartLayout, *, is_long: bool) -> bool:
        """Whether those whom a part serves have used it; a chunk is kept for what is long, as that runs last."""
        return self._used[part.owner] >= (self._most if is_long else self._most - self._chunk)

    def first_chunk(self, part: PartLayout) -> int:
        """The events of a part that run first."""
        cost = self._costs.get(part.instances)
        return 1 if cost is None else max(1, int(self._chunk / cost))

    def next_chunk(self, part: PartLayout, events: int, ns: int) -> int:
        """The events that run after some that took so much CPU."""
        self._used[part.owner] += ns
        known = self._costs.get(part.instances, 0.0)
        if part.instances not in self._noted:
            self._noted.add(part.instances)
            known *= _COST_REMEMBERED
        self._costs[part.instances] = max(known, ns / events)
        return max(1, min(events * _CHUNK_GROWTH, events * self._chunk // max(1, ns)))


def causes_in(entering: Mapping[Port, EventStream]) -> Numbers:
    """The causes of the events that enter a part, each once and in order."""
    streams = [stream.causes for stream in entering.values()]
    return streams[0] if len(streams) == 1 else np.unique(np.concatenate([np.empty(0, np.int64), *streams]))


def events_between(entering: Mapping[Port, EventStream], low: int, high: int | None) -> dict[Port, EventStream]:
    """The events whose causes are at least `low` and less than `high`."""
    return {
        origin: stream.slice(
            int(np.searchsorted(stream.causes, low)),
            len(stream) if high is None else int(np.searchsorted(stream.causes, high)),
        )
        for origin, stream in entering.items()
    }


def early_ends(cause: int, items: Iterable[tuple[int, Arrived]], streams: frozenset[str]) -> dict[str, EarlyEnd]:
    """Where a batch ends in those streams that have events from a cause on; each item comes with its first cause."""
    ends: dict[str, EarlyEnd] = {}
    for first, item in items:
        if item.stream in streams and first + item.count > cause:
            ends.setdefault(item.stream, EarlyEnd(item.first + max(0, cause - first), item.stamp))
    return ends


__all__ = ["Arrived", "run_batch"]

_UNWATCHED = Unwatched()
_NO_WORK = InstanceMeter()
_SEEN = "fields of what enters at "
"""The note of the fields of a stream that no plan declares begins with this, before its port."""


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
    outside: Outside | None = None,
    portion: Portion = EVERYTHING,
    costs: dict[int, EventCost] | None = None,
    time: BatchTime | None = None,
    early: Mapping[str, EarlyEnd] = NO_EARLY_END,
    repeats: int = 0,
    sampling: PortSampling | None = None,
) -> Record:
    """Run the plan of an entry over the events between two offsets, or the portion of one shard; returns the record.

    `behaviours` are those of the active slots, `begun` the entries of the log that begin with this batch. `feeds` come
    after the events that arrived. The state is staged, not settled. `deployment` is the id of the job's root, and
    `outside` what configs of changed tasks refer to. `costs` are what an event of each instance cost before; this
    batch's are noted there. With a `time` the batch may end early for a part; `early` are the places where other shards
    have ended, and `repeats` how often this one ran before. What enters and leaves the instances that somebody looks at
    is noted in `sampling`.
    """
    layout = layout_of(entry, behaviours)
    dropped = sorted(set(state.kept) - layout.members)
    for table in imports:
        _bring(table, state, portion)
    beginning = tuple(in_effect(begun))
    change_states(beginning, state, outside)
    arrived = list(in_order(rows))
    dead: list[Dead] = []
    fed = FedEvents(feeds, sum(item.count for item in rows), portion, dead)

    def origins() -> Origins:
        places = chain(((cause, item.stream, item.first) for cause, item in arrived), fed.places())
        return Origins.of(places, deployment=deployment, job=entry.plan.job, batch=batch)

    kernel = _Kernel(
        layout, state, attempt, origins, portion, fed, dead, {} if costs is None else costs, early, sampling
    )
    kernel.enter(arrived, start, end)
    fed.park_others({slot.instance for slot in (*layout.active, *layout.failed)})
    # What is fed comes after all that arrived, and a cut part has come to its cut.
    kernel.run(batch, None if feeds else time, frozenset().union(*end.cuts.values()))
    read = {} if portion.is_all else kernel.read_between(start, end)
    end = end.ended_early(kernel.early)
    cuts = tuple(cuts_at(layout, end))
    begins = start.entry != end.entry
    opened = [
        (forward.origin, state.of(forward.instance).number(forward.port)) for forward in entry.plan.forwards if begins
    ]
    # Before any event that the new plan emits.
    switched = tuple(switch_markers(beginning, state)) if portion.is_first else ()
    return Record(
        batch=batch,
        start=start,
        end=end,
        dropped=tuple(dropped),
        opened=tuple(opened),
        emitted=(
            *switched,
            *kernel.leaving(BatchBirths(arrived)),
            *(cut_markers(layout, cuts, state) if portion.is_first else ()),
        ),
        dead=tuple(dead),
        meters=kernel.meters,
        grouped=kernel.grouped,
        cuts=cuts,
        waiting={stream: first.stamp for stream, first in kernel.early.items()},
        read=read,
        repeats=repeats,
        # Last, because numbering the events that leave changes the state too.
        changes=state.changes(),
    )


_STRAYED = (
    "its state is kept under something else than the fields of its key, so the task cannot run in several shards; "
    "its type has to declare one state for the whole stream"
)


class _TimedPart(NamedTuple):
    """A part, and what it takes in a batch that has a time."""

    part: PartLayout
    entering: dict[Port, EventStream]
    causes: Numbers
    is_long: bool
    """Whether it may need long."""


class _Kernel:
    """The streams of a plan in one batch."""

    def __init__(  # noqa: PLR0913, PLR0917 - a plan, what it works on, what is known, and where its outcome goes are ten things
        self,
        layout: Layout,
        state: InstanceStates,
        watch: TaskWatch,
        origins: Callable[[], Origins],
        portion: Portion,
        fed: FedEvents,
        dead: list[Dead],
        costs: dict[int, EventCost],
        early: Mapping[str, EarlyEnd],
        sampling: PortSampling | None,
    ) -> None:
        self._costs = costs
        self._sampling = sampling
        self._portion = portion
        self._fed = fed
        self._dead = dead
        self.meters: dict[int, InstanceMeter] = {}
        self.grouped: Counter[int] = Counter()
        self._layout = layout
        self._state = state
        self._watch = watch
        self._find_origins = origins
        self._allowances: dict[int, Allowance] = {}
        self._entered: dict[Port, EventStream] = {}
        self._entering: dict[Port, pa.Schema] = {}
        self._left: dict[Port, list[EventStream]] = {}
        """What left at each port, from all its chunks."""
        self._arrived: Sequence[tuple[int, Arrived]] = ()
        self._unfit: list[tuple[str, int, Dead]] = []
        """What cannot be read, with its stream and first cause."""
        self.early = dict(early)
        """Where the batch ended for streams whose events wait."""
        self._read: dict[str, int] = {}
        """The position after the last event of each stream that is this shard's own."""

    def enter(self, arrived: Sequence[tuple[int, Arrived]], start: Offset, end: Offset) -> None:
        """Take the items that arrived between two offsets, each with the cause of its first event."""
        self._arrived = arrived
        items: dict[str, list[tuple[int, Arrived]]] = {}
        for cause, item in arrived:
            items.setdefault(item.stream, []).append((cause, item))
        for ingress in self._layout.entry.plan.ingress:
            stream = ingress.stream
            events = [(cause, item.first, unpacked(item.payload)) for cause, item in items.get(stream, ())]
            if (early := self.early.get(stream)) is not None:
                ends = early.position
                events = [(cause, first, rows.slice(0, ends - first)) for cause, first, rows in events if first < ends]
            schema = self._schema(ingress, [batch.schema for _, _, batch in events])
            if schema is None:
                continue
            self._entering[ingress.origin] = schema
            streams = []
            for cause, first, batch in events:
                fits = self._fitting(ingress, batch, schema)
                for at, reason, unfit in fits.unfit:
                    if self._portion.parks_at(stream, first + at, start, end):
                        letter = Dead(instance=ingress.instance, port=ingress.port, reason=reason, events=unfit)
                        self._unfit.append((stream, cause + at, letter))
                        self._note_read(stream, first + at)
                entered = EventStream(fits.rows, fits.kept + cause)
                if not self._portion.is_all:
                    positions = fits.kept + first
                    own = self._portion.taken(stream, positions, fits.rows, start, end, self.grouped)
                    entered = entered.take(own)
                    if len(own):
                        self._note_read(stream, int(positions[own[-1]]))
                streams.append(entered)
            self._entered[ingress.origin] = joined(streams, schema)

    def read_between(self, start: Offset, end: Offset) -> dict[str, int]:
        """The position after the last own event of each stream that had events between two offsets."""
        ends = {stream: early.position for stream, early in self.early.items()}
        return {
            stream: min(self._read.get(stream, start.at.get(stream, 0)), ends.get(stream, position))
            for stream, position in end.at.items()
            if position > start.at.get(stream, 0)
        }

    def _note_read(self, stream: str, position: int) -> None:
        self._read[stream] = max(self._read.get(stream, 0), position + 1)

    def _fitting(self, ingress: Ingress, batch: pa.RecordBatch, schema: pa.Schema) -> EnteringEvents:
        if isinstance(ingress.supply, Bridged):
            return from_bridge(batch, schema)
        return entering(batch, ingress.supply.schema)

    def run(self, batch: int, time: BatchTime | None, cut: AbstractSet[str]) -> None:
        """Run every part; those with `cut` streams to the end, whatever time that takes.

        So does a part that writes all events of a batch in one call: a repeated batch has to write the same ones.
        """
        inside = self._layout.inside(self._entering, self._state, self._watch)
        room = StateRoom(self._layout.entry.plan, self._state.sizes)
        parts = self._layout.part_layouts
        if time is None:
            for part in parts:
                self._run_chunk(part, self._events_of(part), inside, room)
        else:
            first = batch % max(1, len(parts))
            timed = [self._timed(part, time) for part in (*parts[first:], *parts[:first])]
            # What is short first, and what is long in turns.
            for timed_part in sorted(timed, key=attrgetter("is_long")):
                if timed_part.part.is_whole or timed_part.part.streams & cut:
                    self._run_chunk(timed_part.part, timed_part.entering, inside, room)
                else:
                    self._run_in_chunks(timed_part, inside, room, time)
        self._dead[:0] = [letter for _, _, letter in self._unfit]
        self._watch.idle()

    def _events_of(self, part: PartLayout) -> dict[Port, EventStream]:
        return {origin: self._entered[origin] for origin in part.entering if origin in self._entered}

    def _timed(self, part: PartLayout, time: BatchTime) -> _TimedPart:
        entering = self._events_of(part)
        causes = causes_in(entering)
        return _TimedPart(part, entering, causes, is_long=time.is_long(part, len(causes)))

    def _run_in_chunks(self, timed: _TimedPart, inside: Inside, room: StateRoom, time: BatchTime) -> None:
        part, entering, causes, is_long = timed
        at, chunk = 0, time.first_chunk(part)
        while at < len(causes):
            low, end = int(causes[at]), min(at + chunk, len(causes))
            if time.is_up(part, is_long=is_long):
                self.early |= early_ends(low, self._arrived, part.streams)
                self._unfit = [unfit for unfit in self._unfit if unfit[0] not in part.streams or unfit[1] < low]
                break
            begun = task_cpu_ns()
            is_all = (at, end) == (0, len(causes))
            high = int(causes[end]) if end < len(causes) else None
            self._run_chunk(part, entering if is_all else events_between(entering, low, high), inside, room)
            chunk = time.next_chunk(part, end - at, task_cpu_ns() - begun)
            at = end

    def _run_chunk(self, part: PartLayout, streams: dict[Port, EventStream], inside: Inside, room: StateRoom) -> None:
        """Run the slots of a part over some events that enter it."""
        for slot in part.slots:
            begun = task_cpu_ns()
            self._watch.running(slot.instance)
            taken = self._taken(slot, streams, inside.inputs[slot.instance])
            if not len(taken):
                continue
            if slot.state is SlotState.FAILED:
                outcome = _all_parked(slot, taken, f"its task has failed: {slot.reason}")
            elif why := inside.unable.get(slot.instance) or untransformed(self._state, slot.instance, self._portion):
                outcome = _all_parked(slot, taken, why)
            elif (passed := self._passed_on(slot, taken)) is not None:
                outcome = passed
            else:
                outcome = self._worked_off(slot, taken, inside.outputs[slot.instance], room)
            for port, stream in outcome.emitted.items():
                streams[Port(slot.instance, port)] = stream
            if outcome.dead:
                self._dead += newest_dead(outcome.dead)
            self.meters[slot.instance] = self.meters.get(slot.instance, _NO_WORK) + InstanceMeter(
                cpu_ns=task_cpu_ns() - begun,
                taken=len(taken),
                emitted=sum(map(len, outcome.emitted.values())),
                dead=sum(letter.events.num_rows for letter in outcome.dead),
            )
        self._note_left(part, streams)

    def _note_left(self, part: PartLayout, streams: Mapping[Port, EventStream]) -> None:
        if self._sampling is not None:
            for (instance, port), stream in streams.items():
                self._sampling.note(instance, port, stream.rows, is_input=False)
        for origin in part.leaving:
            if (left := streams.get(origin)) is not None and len(left):
                self._left.setdefault(origin, []).append(left)

    def _passed_on(self, slot: Slot, taken: TaskInput) -> TaskOutcome | None:
        """The outcome of a task that passes all events on, as outputs do; None if it has to be worked off.

        There is nothing to call or to undo, and in many plans a third of the tasks are outputs. What together is no
        larger than one event may be needs no other bound.
        """
        stream = taken.only_stream
        if self._layout.behaviours[slot.instance] is not pass_on or stream is None:
            return None
        if stream.rows.get_total_buffer_size() > LARGEST_EVENT:
            return None
        return TaskOutcome({"out": EventStream(without_metadata(stream.rows), stream.causes)}, ())

    def _worked_off(
        self, slot: Slot, taken: TaskInput, outputs: Mapping[str, pa.Schema], room: StateRoom
    ) -> TaskOutcome:
        behaviour = self._layout.behaviours[slot.instance]
        staged = self._state.of(slot.instance)
        token = staged.mark()
        if (allowance := self._allowances.get(slot.instance)) is None:
            plan = self._layout.entry.plan
            allowance = self._allowances[slot.instance] = Allowance(
                seconds=seconds_of(plan), emitted=plan.limits.emitted_bytes, known=self._costs.get(slot.instance)
            )
        allowance.resume()
        outcome = TaskRun(
            instance=slot.instance,
            behaviour=behaviour,
            outputs=outputs,
            state=staged,
            taken=taken,
            watch=self._watch,
            allowance=allowance,
            room=room.bound_of(slot.instance),
            origins=self._origins if isinstance(behaviour, ActingBehaviour) else NOWHERE,
        ).work_off()
        self._costs[slot.instance] = allowance.pause(len(taken))
        room.note(slot.instance, staged.growth)
        if self._portion.strays(slot.instance, staged):
            staged.rollback(token)
            return _all_parked(slot, taken, _STRAYED)
        return outcome

    def leaving(self, births: BatchBirths) -> Iterator[EmittedEvents]:
        """The events that leave the job, with their numbers and births."""
        for origin in self._layout.leaving:
            if pieces := self._left.get(origin):
                stream = joined(pieces, pieces[0].rows.schema)
                first = self._state.of(origin.instance).advance(origin.port, len(stream))
                yield EmittedEvents(origin=origin, first=first, events=stream.rows, births=births.of(stream.causes))

    @cached_property
    def _origins(self) -> Origins:
        """Found on demand, because most batches have no acting behaviour."""
        return self._find_origins()

    def _taken(self, slot: Slot, streams: Mapping[Port, EventStream], takes: Mapping[str, pa.Schema]) -> TaskInput:
        ports = []
        fed = self._fed.taken(slot.instance, takes, self._layout.streams_of.get(slot.instance, frozenset()))
        for port, edges in self._layout.entering[slot.instance].items():
            come = [(streams[origin], times) for origin, times in edges if origin in streams]
            come += [(stream, 1) for stream in fed.get(port, ())]
            if come and port in takes:
                ports.append(PortRun(port, gathered(come, takes[port])))
        if self._sampling is not None:
            for port, stream in ports:
                self._sampling.note(slot.instance, port, stream.rows, is_input=True)
        return TaskInput(runs(ports))

    def _schema(self, ingress: Ingress, seen: Sequence[pa.Schema]) -> pa.Schema | None:
        """The fields of a stream that enters: as declared, else as last seen; None before its first event."""
        if not isinstance(ingress.supply, Bridged):
            return arrow_schema(ingress.supply.schema)
        staged = self._state.of(ingress.instance)
        name = _SEEN + ingress.port
        kept = staged.note(name)
        if not seen:
            return pa.ipc.read_schema(pa.py_buffer(kept)) if kept else None
        schema = seen[-1].remove_metadata()
        if (fields := schema.serialize().to_pybytes()) != kept:
            staged.put_note(name, fields)
        return schema


def _all_parked(slot: Slot, taken: TaskInput, reason: str) -> TaskOutcome:
    return TaskOutcome({}, taken.parked(slot.instance, [Reason(at, reason) for at in range(len(taken))]))


def _bring(table: Table, state: InstanceStates, portion: Portion) -> None:
    """Stage the states of instances from elsewhere, which replace their earlier ones here."""
    for instance in table:
        for group, items in state.kept.get(instance, {}).items():
            if group != NUMBERS:
                state.of(instance).put_many(list(items), [None] * len(items))
    state.bring(
        {
            instance: {group: items for group, items in groups.items() if portion.owns(instance, group)}
            for instance, groups in table.items()
        }
    )
