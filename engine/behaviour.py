"""Behaviours: what implements a task, and how a host and its workers find it.

A description of a task type, in `engine/tasks`, imports no implementation. An `Implementation` joins a description to
the code that computes it; packages offer theirs through the entry point group `braid.behaviours`, named as the type is.
A host looks the group up and tells its workers the names, so that a worker only imports what its plans need. An entry
whose name ends in a star implements a whole namespace, such as `opmw:*`.

What a behaviour has to keep to:

- Its outputs hang on its config, the events, their order and the state alone, and not on where batches are cut.
- It takes an empty batch too, and answers with an empty batch for each output port: that is how its schemas are known.
- It keeps what it remembers in the state it is given and nowhere else.
- Where it writes outside, it is an `engine.side_effect.ActingBehaviour`, and writes nothing twice though its batch be run again.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dags import Config, Outside, TaskType
from engine.kernel.task_watch import TaskWatch, Unwatched
from engine.plan import Slot
from engine.records.staged_state import Staged

_GROUP = "braid.behaviours"
"""The entry point group: each entry is named as a task type and names its `Implementation`."""


class PortEmission(NamedTuple):
    """What a behaviour emits at one port for a batch of events."""

    rows: pa.RecordBatch
    origin: npt.NDArray[np.int64] | None = None
    """For each row the index of the event that caused it, never falling; None where each event causes just one row."""


Behaviour: TypeAlias = Callable[[str, pa.RecordBatch, Staged], Mapping[str, PortEmission]]
"""Takes an input port, the events in order and the instance's state; gives what is emitted at each output port."""

C = TypeVar("C", bound=Config)


class NoBehaviour(RuntimeError):
    """A task cannot be run here; says what is missing and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation(Generic[C]):
    """A task type and what computes it; written by the task library and by third parties."""

    type: TaskType[C]
    make: Callable[[C], Behaviour]
    """Makes the behaviour of one config; called once for each plan in each worker."""

    def behaviour(self, slot: Slot, outside: Outside | None = None) -> Behaviour:
        """What a slot runs; its config's secrets and places are looked up outside."""
        if slot.version != self.type.version:
            raise NoBehaviour(
                f"{slot.type!r} is installed in version {self.type.version} and the plan wants version {slot.version}; "
                "install the package that has it on every worker"
            )
        return self.make(self.type.config.model_validate_json(slot.config, context={"outside": outside}))


AnyImplementation: TypeAlias = Implementation[Any]


def installed_behaviours() -> dict[str, str]:
    """For each task type the place of its implementation, as `module:attribute`; looked up by hosts."""
    found: dict[str, str] = {}
    for entry in sorted(entry_points(group=_GROUP), key=lambda entry: (entry.name, entry.value)):
        if found.setdefault(entry.name, entry.value) != entry.value:
            raise NoBehaviour(
                f"task type {entry.name!r} is implemented by {found[entry.name]} and by {entry.value}; "
                "uninstall one of the packages that offer them"
            )
    return found


def place_of(name: str, places: Mapping[str, str]) -> str | None:
    """The place of a task type's implementation: its own, else that of the longest namespace that it lies in.

    >>> place_of("acme:clean", {"acme:*": "acme:step", "acme:load": "acme:load"})
    'acme:step'
    """
    wholes = [each for each in places if each.endswith("*") and name.startswith(each[:-1])]
    return places.get(name) or max(((len(each), places[each]) for each in wholes), default=(0, None))[1]


_UNWATCHED = Unwatched()


def behaviours_of(
    slots: Iterable[Slot],
    places: Mapping[str, str],
    watch: TaskWatch = _UNWATCHED,
    outside: Outside | None = None,
) -> dict[int, Behaviour]:
    """What each instance runs; made in a worker, whose host knows what configs name outside.

    A task that cannot be run spoils no other: its behaviour refuses every event and says why.
    """
    found = {}
    for slot in slots:
        watch.running(slot.instance)
        found[slot.instance] = _behaviour(slot, places, watch, outside)
    watch.idle()
    return found


def _behaviour(slot: Slot, places: Mapping[str, str], watch: TaskWatch, outside: Outside | None) -> Behaviour:
    if reason := watch.parked(slot.instance):
        return _refuses(reason)
    try:
        return implementation_of(slot.type, places).behaviour(slot, outside)
    except NoBehaviour as error:
        return _refuses(str(error))
    except ImportError as error:
        # Braid's own code comes from the host; what this one lacks is somebody else's.
        return _refuses(
            f"the behaviour of {slot.type!r} cannot be made: {type(error).__name__}: {error}; "
            "install its package on every worker, with all that it needs"
        )
    except Exception as error:  # noqa: BLE001 - third parties' code is imported and called here
        return _refuses(f"the behaviour of {slot.type!r} cannot be made: {type(error).__name__}: {error}")


def implementation_of(name: str, places: Mapping[str, str]) -> AnyImplementation:
    """What implements a task type, imported from its place."""
    place = place_of(name, places)
    if place is None:
        raise NoBehaviour(f"nothing implements the task type {name!r}; install the package that offers it and restart")
    module, _, attribute = place.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, Implementation):
        raise NoBehaviour(f"{place} is {type(found).__name__} and no Implementation; repair or uninstall its package")
    return found


def _refuses(reason: str) -> Behaviour:
    def refuse(_port: str, _events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        raise NoBehaviour(reason)

    return refuse


EachEvent: TypeAlias = Callable[[str, dict[str, Any], Staged], Iterable[tuple[str, Mapping[str, Any]]]]
"""Takes an input port, one event and the state; yields output ports, each with an event."""


def each_event(function: EachEvent, outputs: Callable[[pa.Schema], Mapping[str, pa.Schema]]) -> Behaviour:
    """A behaviour written for one event at a time.

    `outputs` gives the schema at each output port from that of the events. Whatever an event lacks becomes null; a
    field that the schema does not have is an error.
    """

    def behave(port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        schemas = outputs(events.schema)
        rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in schemas}
        origins: dict[str, list[int]] = {name: [] for name in schemas}
        for index, event in enumerate(events.to_pylist()):
            for name, emitted in function(port, event, state):
                if name not in schemas:
                    raise ValueError(f"it emits at port {name!r}, which it does not have")
                if unknown := sorted(set(emitted) - set(schemas[name].names)):
                    raise ValueError(f"it emits the field {unknown[0]!r}, which port {name!r} does not have")
                rows[name].append(emitted)
                origins[name].append(index)
        return {
            name: PortEmission(pa.RecordBatch.from_pylist(rows[name], schema=schema), np.array(origins[name], np.int64))
            for name, schema in schemas.items()
        }

    return behave
