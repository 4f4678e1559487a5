"""The kernel: runs one batch of a whole plan in one Python call, from the events that arrived to the record.

The slots run in topological order, each with all its events of the batch. The order of events is that of the raw
events: an emitted event has the cause of the event that it was emitted for, and a task takes its events in the order of
their causes, then of its edges. So with one ingress stream, the boundaries of batches make no difference.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

import pyarrow as pa

from bridge import unpacked
from bridge.events.raw_events import arrow_schema
from bridge.message_bounds import LARGEST_EVENT
from engine.behaviour import Behaviour, pass_on
from engine.event_streams import Arrived, EventStream, PortRun, gathered, in_order, joined, runs, without_metadata
from engine.kernel.batch_births import BatchBirths
from engine.kernel.entering_events import EnteringEvents, entering, from_bridge
from engine.kernel.fed_events import FedEvents
from engine.kernel.kept_dead_letters import newest
from engine.kernel.layout import Layout, layout_of
from engine.kernel.markers import cut_markers, cuts_at, switch_markers
from engine.kernel.portion import EVERYTHING, Portion
from engine.kernel.state_changes import change_states, in_effect, untransformed
from engine.kernel.task_bounds import Allowance, EventCost, StateRoom, seconds_of
from engine.kernel.task_run import Reason, TaskInput, TaskOutcome, TaskRun
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
    portion: Portion = EVERYTHING,
    costs: dict[int, EventCost] | None = None,
) -> Record:
    """Run the plan of an entry over the events between two offsets, or the portion of one shard; returns the record.

    `behaviours` are those of the active slots, `begun` the entries of the log that begin with this batch. `feeds` come
    after the events that arrived. The state is staged, not settled. `deployment` is the id of the job's root. `costs`
    are what an event of each instance cost before; this batch's are noted there.
    """
    layout = layout_of(entry, behaviours)
    dropped = sorted(set(state.kept) - layout.members)
    for table in imports:
        _bring(table, state, portion)
    beginning = tuple(in_effect(begun))
    change_states(beginning, state)
    arrived = list(in_order(rows))
    dead: list[Dead] = []
    fed = FedEvents(feeds, sum(item.count for item in rows), portion, dead)

    def origins() -> Origins:
        places = chain(((cause, item.stream, item.first) for cause, item in arrived), fed.places())
        return Origins.of(places, deployment=deployment, job=entry.plan.job, batch=batch)

    kernel = _Kernel(layout, state, attempt, origins, portion, fed, dead, {} if costs is None else costs)
    kernel.enter(arrived, start, end)
    fed.park_others({slot.instance for slot in (*layout.active, *layout.failed)})
    kernel.run()
    cuts = tuple(cuts_at(layout, end))
    opened = tuple(_opened(entry, state)) if start.entry != end.entry else ()
    # Before any event that the new plan emits.
    switched = tuple(switch_markers(beginning, state)) if portion.is_first else ()
    return Record(
        batch=batch,
        start=start,
        end=end,
        dropped=tuple(dropped),
        opened=opened,
        emitted=(
            *switched,
            *kernel.leaving(BatchBirths(arrived)),
            *(cut_markers(layout, cuts, state) if portion.is_first else ()),
        ),
        dead=tuple(dead),
        meters=kernel.meters,
        grouped=kernel.grouped,
        cuts=cuts,
        # Last, because numbering the events that leave changes the state too.
        changes=state.changes(),
    )


_STRAYED = (
    "its state is kept under something else than the fields of its key, so the task cannot run in several shards; "
    "its type has to declare one state for the whole stream"
)


class _Kernel:
    """The streams of a plan in one batch."""

    def __init__(  # noqa: PLR0913, PLR0917 - a plan, what it works on, what is known, and where its outcome goes are eight things
        self,
        layout: Layout,
        state: InstanceStates,
        watch: TaskWatch,
        origins: Callable[[], Origins],
        portion: Portion,
        fed: FedEvents,
        dead: list[Dead],
        costs: dict[int, EventCost],
    ) -> None:
        self._costs = costs
        self._portion = portion
        self._fed = fed
        self._dead = dead
        self.meters: dict[int, InstanceMeter] = {}
        self.grouped: Counter[int] = Counter()
        self._layout = layout
        self._state = state
        self._watch = watch
        self._find_origins = origins
        self._streams: dict[Port, EventStream] = {}
        self._entering: dict[Port, pa.Schema] = {}

    def enter(self, arrived: Sequence[tuple[int, Arrived]], start: Offset, end: Offset) -> None:
        """Take the items that arrived between two offsets, each with the cause of its first event."""
        items: dict[str, list[tuple[int, Arrived]]] = {}
        for cause, item in arrived:
            items.setdefault(item.stream, []).append((cause, item))
        for ingress in self._layout.entry.plan.ingress:
            events = [(cause, item.first, unpacked(item.payload)) for cause, item in items.get(ingress.stream, ())]
            schema = self._schema(ingress, [batch.schema for _, _, batch in events])
            if schema is None:
                continue
            self._entering[ingress.origin] = schema
            streams = []
            for cause, first, batch in events:
                fits = self._fitting(ingress, batch, schema)
                for at, unfit in fits.unfit:
                    if self._portion.parks_at(ingress.stream, first + at, start, end):
                        self._dead.append(
                            Dead(instance=ingress.instance, port=ingress.port, reason=unfit.reason, events=unfit.events)
                        )
                whole = EventStream(fits.rows, fits.kept + cause)
                if not self._portion.is_all:
                    positions = fits.kept + first
                    whole = whole.take(
                        self._portion.taken(ingress.stream, positions, fits.rows, start, end, self.grouped)
                    )
                streams.append(whole)
            self._streams[ingress.origin] = joined(streams, schema)

    def _fitting(self, ingress: Ingress, batch: pa.RecordBatch, schema: pa.Schema) -> EnteringEvents:
        if isinstance(ingress.supply, Bridged):
            return from_bridge(batch, schema)
        return entering(batch, ingress.supply.schema)

    def run(self) -> None:
        """Run every slot."""
        inside = self._layout.inside(self._entering, self._state, self._watch)
        room = StateRoom(self._layout.entry.plan, self._state.sizes)
        for slot in (*self._layout.active, *self._layout.failed):
            begun = task_cpu_ns()
            self._watch.running(slot.instance)
            taken = self._taken(slot, inside.inputs[slot.instance])
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
                self._streams[Port(slot.instance, port)] = stream
            if outcome.dead:
                self._dead += newest(outcome.dead)
            self.meters[slot.instance] = InstanceMeter(
                cpu_ns=task_cpu_ns() - begun,
                taken=len(taken),
                emitted=sum(map(len, outcome.emitted.values())),
                dead=sum(each.events.num_rows for each in outcome.dead),
            )
        self._watch.idle()

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
        plan = self._layout.entry.plan
        allowance = Allowance(
            seconds=seconds_of(plan), emitted=plan.limits.emitted_bytes, known=self._costs.get(slot.instance)
        )
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
        self._costs[slot.instance] = allowance.cost_of(len(taken))
        room.note(slot.instance, staged.growth)
        if self._portion.strays(slot.instance, staged):
            staged.rollback(token)
            return _all_parked(slot, taken, _STRAYED)
        return outcome

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
        fed = self._fed.taken(slot.instance, takes, self._layout.streams_of(slot.instance))
        for port, edges in self._layout.entering[slot.instance].items():
            streams = [(self._streams[origin], times) for origin, times in edges if origin in self._streams]
            streams += [(stream, 1) for stream in fed.get(port, ())]
            if streams and port in takes:
                ports.append(PortRun(port, gathered(streams, takes[port])))
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


def _opened(entry: Entry, state: InstanceStates) -> Iterator[tuple[Port, int]]:
    for forward in entry.plan.forwards:
        yield forward.origin, state.of(forward.instance).number(forward.port)


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
