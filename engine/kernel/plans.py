"""A plan in the kernel: its layout, what becomes of states when it takes effect, and the markers of batches.

**The layout** is worked out once per entry: the order of the slots, and the fields of the streams. The fields of a
stream must not depend on the events of a batch: if several streams enter one port, they determine what the next task
sees. So every behaviour is called with an empty batch to find its fields.

**States** are brought in from cuts, copied to forks, transformed or dropped. All of this is staged and recorded with
the batch that first runs the plan, so a repeated batch repeats it. A transformation that raises leaves the state as it
was, and the instance parks its events until its next change. Each shard changes its own part of a state, and notes the
key groups that could not be transformed.

**Markers** are those of cuts that are aligned at the end of a batch, and of the switches that plans announce.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from bridge.raw_events import marked
from dags import Outside
from engine.behaviour import AnyImplementation, Behaviour, NoBehaviour, TaskWatch, implementation_of
from engine.event_streams import nothing, shared
from engine.kernel.entering_events import EVERYTHING, Portion
from engine.kernel.task_run import reason_of
from engine.offset import Offset
from engine.plan import (
    Bridged,
    Entry,
    FormerTask,
    Plan,
    PlanPart,
    Port,
    Slot,
    SlotState,
    StateChange,
    StateImport,
    is_switch,
)
from engine.records.record import Cut, EmittedEvents
from engine.records.state import NUMBERS, InstanceStates, Overlay, Staged, packed_value
from engine.side_effect import MESSAGES, ActingBehaviour

T = TypeVar("T")
Schemas: TypeAlias = Mapping[Port, pa.Schema]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The fields of the streams inside a plan; made by `Layout.inside`."""

    inputs: Mapping[int, Mapping[str, pa.Schema]]
    """The fields at each slot's input ports, except ports whose fields are not known yet."""
    outputs: Mapping[int, Mapping[str, pa.Schema]]
    """The fields at each active slot's output ports."""
    unable: Mapping[int, str]
    """Slots that cannot take even an empty batch, with the reason."""


class PartLayout(NamedTuple):
    """A part of a plan that takes events, and what runs in it; made by `Layout`."""

    owner: str | frozenset[int]
    """The tenant that it serves; its instances if it may serve several."""
    instances: frozenset[int]
    streams: frozenset[str] = frozenset()
    entering: tuple[Port, ...] = ()
    slots: tuple[Slot, ...] = ()
    leaving: tuple[Port, ...] = ()
    is_whole: bool = False
    """Whether one of its tasks writes all events of a batch in one call."""


class Layout:
    """The order and streams of an entry's plan."""

    def __init__(self, entry: Entry, behaviours: Mapping[int, Behaviour]) -> None:
        plan = entry.plan
        self.entry = entry
        self.behaviours = behaviours
        self.active = plan.active
        self.failed = tuple(slot for slot in plan.slots if slot.state is SlotState.FAILED)
        self.parts: tuple[PlanPart, ...] = plan.parts()
        self.members = plan.instances
        forwarded = [forward.origin for forward in plan.forwards]
        delivered = [Port(delivery.instance, "out") for delivery in plan.deliveries]
        published = [Port(slot.instance, MESSAGES) for slot in plan.active]
        self.leaving = tuple(dict.fromkeys(forwarded + delivered + published))
        """The streams that leave the job."""
        self.entering = {slot.instance: by_port(slot) for slot in (*self.active, *self.failed)}
        """The streams that enter each slot, by port."""
        self.streams_of = {instance: part.streams for part in self.parts for instance in part.instances}
        """The streams that enter the part of an instance."""
        self.part_layouts = tuple(_part_layouts(self))
        self._inside: tuple[Schemas, Inside] | None = None

    def inside(self, entering: Schemas, state: InstanceStates, watch: TaskWatch) -> Inside:
        """The fields of every stream, given those of the streams that enter."""
        if self._inside is None or self._inside[0] != entering:
            inside = self._find_inside(entering, state, watch)
            if any(watch.parked(slot.instance) for slot in self.active):
                # Valid for this batch only.
                return inside
            self._inside = (dict(entering), inside)
        return self._inside[1]

    def _find_inside(self, entering: Schemas, state: InstanceStates, watch: TaskWatch) -> Inside:
        known = dict(entering)
        inputs: dict[int, Mapping[str, pa.Schema]] = {}
        outputs: dict[int, Mapping[str, pa.Schema]] = {}
        unable: dict[int, str] = {}
        for slot in (*self.active, *self.failed):
            inputs[slot.instance] = takes = _takes(slot, known)
            if slot.state is SlotState.FAILED:
                continue
            outputs[slot.instance] = {}
            if why := watch.parked(slot.instance):
                unable[slot.instance] = why
                continue
            watch.running(slot.instance)
            schemas = _output_schemas(self.behaviours[slot.instance], takes, state.of(slot.instance))
            if isinstance(schemas, str):
                unable[slot.instance] = schemas
            else:
                outputs[slot.instance] = schemas
                known |= {Port(slot.instance, port): schema for port, schema in schemas.items()}
        watch.idle()
        return Inside(inputs=inputs, outputs=outputs, unable=unable)


def _part_layouts(layout: Layout) -> Iterator[PartLayout]:
    plan = layout.entry.plan
    place = {instance: at for at, part in enumerate(layout.parts) for instance in part.instances}

    def by_part(members: Iterable[T], instance: Callable[[T], int]) -> list[list[T]]:
        parts: list[list[T]] = [[] for _ in layout.parts]
        for member in members:
            if (at := place.get(instance(member))) is not None:
                parts[at].append(member)
        return parts

    slots = by_part((*layout.active, *layout.failed), lambda slot: slot.instance)
    entering = by_part((ingress.origin for ingress in plan.ingress), lambda origin: origin.instance)
    leaving = by_part(layout.leaving, lambda origin: origin.instance)
    deliveries = by_part(plan.deliveries, lambda delivery: delivery.instance)
    forwards = by_part(plan.forwards, lambda forward: forward.instance)
    for at, part in enumerate(layout.parts):
        tenants = {delivery.tenant for delivery in deliveries[at]}
        made = (layout.behaviours[slot.instance] for slot in slots[at] if slot.state is SlotState.ACTIVE)
        yield PartLayout(
            # Who reads a stream in another job is not known here.
            owner=part.instances if forwards[at] or len(tenants) != 1 else tenants.pop(),
            instances=part.instances,
            streams=part.streams,
            entering=tuple(entering[at]),
            slots=tuple(slots[at]),
            leaving=tuple(leaving[at]),
            is_whole=any(isinstance(behaviour, ActingBehaviour) and behaviour.whole for behaviour in made),
        )


def by_port(slot: Slot) -> dict[str, list[tuple[Port, int]]]:
    """The streams that enter at each input port, in the order in which the slot takes their events, and how often."""
    streams: dict[str, list[tuple[Port, int]]] = {}
    for edge in slot.inputs:
        streams.setdefault(edge.port, []).append((edge.origin, edge.times))
    return streams


def _takes(slot: Slot, known: Schemas) -> dict[str, pa.Schema]:
    schemas = {port: [known[origin] for origin, _ in edges if origin in known] for port, edges in by_port(slot).items()}
    return {
        port: marked(shared(entering), [name for at, name in slot.json_fields if at == port])
        for port, entering in schemas.items()
        if entering
    }


def _output_schemas(
    behaviour: Behaviour, takes: Mapping[str, pa.Schema], state: Staged
) -> Mapping[str, pa.Schema] | str:
    """The fields that a behaviour emits for an empty batch; or what is wrong with them."""
    token = state.mark()
    outputs: dict[str, pa.Schema] = {}
    try:
        for port, schema in takes.items():
            for name, emission in behaviour(port, nothing(schema), state).items():
                given = emission.rows.schema.remove_metadata()
                if not outputs.setdefault(name, given).equals(given):
                    return f"the task emits other fields at port {name!r} for input port {port!r} than for other ports"
    except NoBehaviour as error:
        return reason_of(error)
    except Exception as error:  # noqa: BLE001 - a task may raise anything
        return f"{reason_of(error)}; raised for an empty batch, which every task has to take"
    finally:
        state.rollback(token)
    return outputs


_MOST_LAYOUTS = 64
_LAYOUTS: OrderedDict[int, Layout] = OrderedDict()


def layout_of(entry: Entry, behaviours: Mapping[int, Behaviour]) -> Layout:
    """The layout of an entry. It is cached, because most batches run the same entry."""
    kept = _LAYOUTS.get(id(entry))
    if kept is None or kept.entry is not entry or kept.behaviours is not behaviours:
        kept = _LAYOUTS[id(entry)] = Layout(entry, behaviours)
        while len(_LAYOUTS) > _MOST_LAYOUTS:
            _LAYOUTS.popitem(last=False)
    return kept


def brought(begun: Iterable[Entry], before: Plan | None) -> Iterator[StateImport]:
    """The imports of a batch in which entries take effect; `before` is the plan until then, if any."""
    here = before.instances if before is not None else frozenset()
    for entry in begun:
        # An instance that returns and never left goes on as it is.
        yield from (wish for wish in entry.plan.imports if wish.job != entry.plan.job or wish.instance not in here)


_UNCHANGED = "why its state could not be transformed, in group "
"""The note of a key group whose transformation failed begins with this, before the group."""
_unpack = msgspec.msgpack.Decoder().decode


def in_effect(begun: Sequence[Entry]) -> Iterator[Entry]:
    """Those entries that take effect: the last one, and any before it that did not wait for something."""
    for entry in begun:
        plan = entry.plan
        waits = plan.at or plan.at_cut or (plan.switch is not None and plan.switch.awaits)
        if entry is begun[-1] or not waits:
            yield entry


def change_states(entries: Iterable[Entry], state: InstanceStates, outside: Outside | None = None) -> None:
    """Stage the changes of states of the entries that take effect."""
    for entry in entries:
        slots = {slot.instance: slot for slot in entry.plan.slots}
        for change in entry.plan.changes:
            _change(change, slots[change.instance], entry.behaviours, state, outside)


def untransformed(state: InstanceStates, instance: int, portion: Portion = EVERYTHING) -> str:
    """The reason why the state of an instance could not be transformed, in this shard; empty if it could."""
    failed = _untransformed_groups(state, instance)
    return next((why.decode() for group, why in failed.items() if portion.owns(instance, group)), "")


def _untransformed_groups(state: InstanceStates, instance: int) -> dict[int, bytes]:
    noted = state.of(instance).notes(_UNCHANGED)
    return {int(name.removeprefix(_UNCHANGED)): why for name, why in noted.items()}


def _change(
    change: StateChange, slot: Slot, places: Mapping[str, str], state: InstanceStates, outside: Outside | None
) -> None:
    staged = state.of(change.instance)
    content = _content(state, change.instance if change.source is None else change.source)
    numbers = content.pop(NUMBERS, {})
    if change.source is not None:
        staged.bring({NUMBERS: numbers, **content})
    if change.fresh:
        for items in content.values():
            staged.put_many(list(items), [None] * len(items))
        return
    if change.former is None:
        return
    for group in _untransformed_groups(state, change.instance).keys() & content.keys():
        # The state is still that of the task before the former one, to which the instance returns.
        staged.put_note(f"{_UNCHANGED}{group}", b"")
        del content[group]
    token = staged.mark()
    try:
        implementation = implementation_of(slot.type, places)
        kept = {key: value for items in content.values() for key, value in items.items() if value is not None}
        staged.put_many(list(kept), _transformed(kept, implementation, change.former, slot, outside))
    except Exception as error:  # noqa: BLE001 - a transformation may raise anything
        staged.rollback(token)
        for group in content:
            staged.put_note(f"{_UNCHANGED}{group}", f"its state cannot be transformed: {reason_of(error)}".encode())


def _transformed(
    kept: Mapping[bytes, bytes],
    implementation: AnyImplementation,
    former: FormerTask,
    slot: Slot,
    outside: Outside | None,
) -> list[bytes | None]:
    """What the value of each key becomes."""
    if not kept:
        return []
    read = partial(implementation.type.config.model_validate_json, context={"outside": outside})
    new = read(slot.config)
    values = [(tuple(_unpack(key)), _unpack(value)) for key, value in kept.items()]
    if former.type == slot.type:
        changed = implementation.transformed(read(former.config), new, values)
    elif former.type in implementation.continues:
        continued = partial(implementation.continues[former.type], json.loads(former.config), new)
        changed = [continued(key, value) for key, value in values]
    else:
        raise TypeError(f"the implementation of {slot.type!r} does not continue {former.type!r}; let it")
    return [None if value is None else packed_value(value) for value in changed]


def _content(state: InstanceStates, instance: int) -> dict[int, Overlay]:
    """The state of an instance by key group, with what is staged."""
    content: dict[int, Overlay] = {group: dict(items) for group, items in state.kept.get(instance, {}).items()}
    for group, overlay in state.of(instance).changes().items():
        content.setdefault(group, {}).update(overlay)
    return content


def cuts_at(layout: Layout, end: Offset) -> Iterator[Cut]:
    """The cuts that are aligned at the end of a batch. A switch takes none."""
    # Instances whose streams enter over a bridge have their states in the other job.
    elsewhere = {ingress.instance for ingress in layout.entry.plan.ingress if isinstance(ingress.supply, Bridged)}
    for name, streams in sorted(end.cuts.items()):
        if is_switch(name):
            continue
        parts = [part for part in layout.parts if part.streams & set(streams)]
        yield Cut(
            name=name,
            instances=tuple(sorted(instance for part in parts for instance in part.instances - elsewhere)),
            positions={stream: end.at[stream] for part in parts for stream in sorted(part.streams) if stream in end.at},
        )


def cut_markers(layout: Layout, cuts: Sequence[Cut], state: InstanceStates) -> Iterator[EmittedEvents]:
    """The markers, which follow the events of every stream that leaves a part with a cut."""
    forwarded = dict.fromkeys(forward.origin for forward in layout.entry.plan.forwards)
    for cut in cuts:
        yield from _marked((origin for origin in forwarded if origin.instance in cut.instances), cut.name, state)


def switch_markers(entries: Sequence[Entry], state: InstanceStates) -> Iterator[EmittedEvents]:
    """The markers of switches, at the place where their plans take effect."""
    for entry in entries:
        if (switch := entry.plan.switch) is not None:
            yield from _marked(switch.announces, switch.marker, state)


def _marked(origins: Iterable[Port], marker: str, state: InstanceStates) -> Iterator[EmittedEvents]:
    for origin in origins:
        first = state.of(origin.instance).advance(origin.port, 1)
        yield EmittedEvents(origin=origin, first=first, marker=marker)
