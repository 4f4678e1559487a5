"""The layout of a plan, worked out once per entry: the order of its slots, and the fields of its streams.

The fields of a stream must not depend on the events of a batch: if several streams enter one port, they determine what
the next task sees. So every behaviour is called with an empty batch to find its fields.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from bridge.raw_events import marked
from engine.behaviour import Behaviour, NoBehaviour
from engine.event_streams import nothing, shared
from engine.kernel.task_run import reason_of
from engine.plan import Entry, PlanPart, Port, Slot, SlotState
from engine.records.staged_state import Staged
from engine.records.state import InstanceStates
from engine.side_effect import MESSAGES, ActingBehaviour
from engine.task_watch import TaskWatch

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
        self.leaving = tuple(
            dict.fromkeys(
                [each.origin for each in plan.forwards]
                + [Port(each.instance, "out") for each in plan.deliveries]
                + [Port(each.instance, MESSAGES) for each in plan.active]
            )
        )
        """The streams that leave the job."""
        self.entering = {slot.instance: by_port(slot) for slot in (*self.active, *self.failed)}
        """The streams that enter each slot, by port."""
        self._streams_of = {instance: part.streams for part in self.parts for instance in part.instances}
        self.part_layouts = tuple(_part_layouts(self))
        self._inside: tuple[Schemas, Inside] | None = None

    def streams_of(self, instance: int) -> frozenset[str]:
        """The streams that enter the part of an instance."""
        return self._streams_of.get(instance, frozenset())

    def inside(self, entering: Schemas, state: InstanceStates, watch: TaskWatch) -> Inside:
        """The fields of every stream, given those of the streams that enter."""
        if self._inside is None or self._inside[0] != entering:
            found = self._find_inside(entering, state, watch)
            if any(watch.parked(slot.instance) for slot in self.active):
                # Valid for this batch only.
                return found
            self._inside = (dict(entering), found)
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
            unable[slot.instance] = watch.parked(slot.instance)
            if not unable[slot.instance]:
                watch.running(slot.instance)
                found = _output_schemas(self.behaviours[slot.instance], takes, state.of(slot.instance))
                if isinstance(found, str):
                    unable[slot.instance] = found
                else:
                    outputs[slot.instance] = found
                    known |= {Port(slot.instance, port): schema for port, schema in found.items()}
        watch.idle()
        return Inside(inputs=inputs, outputs=outputs, unable={each: why for each, why in unable.items() if why})


def _part_layouts(layout: Layout) -> Iterator[PartLayout]:
    plan = layout.entry.plan
    place = {instance: at for at, part in enumerate(layout.parts) for instance in part.instances}

    def by_part(members: Iterable[T], instance: Callable[[T], int]) -> list[list[T]]:
        found: list[list[T]] = [[] for _ in layout.parts]
        for each in members:
            if (at := place.get(instance(each))) is not None:
                found[at].append(each)
        return found

    slots = by_part((*layout.active, *layout.failed), lambda slot: slot.instance)
    entering = by_part((each.origin for each in plan.ingress), lambda origin: origin.instance)
    leaving = by_part(layout.leaving, lambda origin: origin.instance)
    deliveries = by_part(plan.deliveries, lambda delivery: delivery.instance)
    forwards = by_part(plan.forwards, lambda forward: forward.instance)
    for at, part in enumerate(layout.parts):
        tenants = {each.tenant for each in deliveries[at]}
        made = (layout.behaviours[slot.instance] for slot in slots[at] if slot.state is SlotState.ACTIVE)
        yield PartLayout(
            # Who reads a stream in another job is not known here.
            owner=part.instances if forwards[at] or len(tenants) != 1 else tenants.pop(),
            instances=part.instances,
            streams=part.streams,
            entering=tuple(entering[at]),
            slots=tuple(slots[at]),
            leaving=tuple(leaving[at]),
            is_whole=any(isinstance(each, ActingBehaviour) and each.whole for each in made),
        )


def by_port(slot: Slot) -> dict[str, list[tuple[Port, int]]]:
    """The streams that enter at each input port, in the order in which the slot takes their events, and how often."""
    found: dict[str, list[tuple[Port, int]]] = {}
    for edge in slot.inputs:
        found.setdefault(edge.port, []).append((edge.origin, edge.times))
    return found


def _takes(slot: Slot, known: Schemas) -> dict[str, pa.Schema]:
    schemas = {port: [known[origin] for origin, _ in edges if origin in known] for port, edges in by_port(slot).items()}
    return {
        port: marked(shared(found), [name for at, name in slot.json_fields if at == port])
        for port, found in schemas.items()
        if found
    }


def _output_schemas(
    behaviour: Behaviour, takes: Mapping[str, pa.Schema], state: Staged
) -> Mapping[str, pa.Schema] | str:
    """The fields that a behaviour emits for an empty batch; or what is wrong with them."""
    token = state.mark()
    found: dict[str, pa.Schema] = {}
    try:
        for port, schema in takes.items():
            for name, emission in behaviour(port, nothing(schema), state).items():
                given = emission.rows.schema.remove_metadata()
                if not found.setdefault(name, given).equals(given):
                    return f"the task emits other fields at port {name!r} for input port {port!r} than for other ports"
    except NoBehaviour as error:
        return reason_of(error)
    except Exception as error:  # noqa: BLE001 - a task may raise anything
        return f"{reason_of(error)}; raised for an empty batch, which every task has to take"
    finally:
        state.rollback(token)
    return found


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
