"""Behaviours: the code that runs tasks, how hosts and workers find it, and what is known of it while it runs.

A description of a task type, in `engine/tasks`, imports no implementation. An `Implementation` connects a description
to its code. Packages provide theirs through the entry point group `braid.behaviours`, under the name of the type. A
host reads the group and passes the names to its workers, so that a worker imports only what its plans need. An entry
whose name ends in a star implements a whole namespace, such as `opmw:*`.

Rules for a behaviour:

- Its outputs depend only on its config, the events, their order and the state, and not on the boundaries of batches.
- For an empty batch it returns an empty batch at each output port. Its schemas are found in this way.
- It keeps its memory in the given state and nowhere else.
- If it writes outside, it is an `ActingBehaviour`, and writes nothing twice even if its batch is repeated.
"""

import importlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dags import Config, FieldFates, Outside, TaskType
from engine.plan import Slot
from engine.records.state import Staged

elsewhere_ns = 0
"""The CPU used so far by processes that worked for tasks of this one, and the time for which tasks held up a batch."""


def task_cpu_ns() -> int:
    """The CPU used so far by this thread and by processes that worked for its tasks, and what counts as such."""
    return time.thread_time_ns() + elsewhere_ns


def count_elsewhere(nanoseconds: int) -> None:
    """Count what another process used for the running task, or for how long the whole batch waited for the task."""
    global elsewhere_ns  # noqa: PLW0603 - a worker has one thread that runs tasks, and so one clock
    elsewhere_ns += nanoseconds


EventName: TypeAlias = tuple[int, int]
"""An event that an instance takes: its cause, and its place among those of this cause, whatever is parked upstream."""


class TaskWatch(Protocol):
    """Notes which task runs, and knows which tasks killed the worker before. By default nothing did."""

    def alone(self, instance: int) -> bool:  # noqa: ARG002 - for those that know better
        """True if an instance must run event by event."""
        return False

    def parked(self, instance: int, event: EventName | None = None) -> str:  # noqa: ARG002 - for those that know better
        """Why an event, or the whole instance, must not run; empty if it may."""
        return ""

    def running(self, instance: int, event: EventName | None = None) -> None:  # noqa: ARG002 - the same
        """Note that an instance begins to run, with one event or with many, and no other runs any more."""
        return

    def idle(self) -> None:
        """Note that no task runs."""
        return


class Unwatched(TaskWatch):
    """A watch that does nothing; for tests, and where no worker can die."""


_GROUP = "braid.behaviours"
"""The entry point group. Each entry has the name of a task type and names its `Implementation`."""


class PortEmission(NamedTuple):
    """The events that a behaviour emits at one port for a batch."""

    rows: pa.RecordBatch
    origin: npt.NDArray[np.int64] | None = None
    """The index of the event that caused each row, in ascending order; None if each event causes exactly one row."""


Behaviour: TypeAlias = Callable[[str, pa.RecordBatch, Staged], Mapping[str, PortEmission]]
"""Takes an input port, the events in order and the instance's state; returns the emission at each output port."""

C = TypeVar("C", bound=Config)


def pass_on(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
    """The behaviour that emits all events as they are; the kernel knows it, and does the same without a call."""
    return {"out": PortEmission(events)}


class NoBehaviour(RuntimeError):
    """A task cannot run here. Says what is missing, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation(Generic[C]):
    """A task type with its code."""

    type: TaskType[C]
    make: Callable[[C], Behaviour]
    """Makes the behaviour for one config; called once per plan and worker."""
    transform: Callable[[C, C, tuple[Any, ...], Any], Any] | None = None
    """Adapts the state to a new config, for changes with the fate `TRANSFORMED`. Pure.

    Takes the old and the new config, and a key with its value, as in `Staged.get`. Returns the new value, or None to
    drop the key. Called once for every key of the instance.
    """
    transform_all: Callable[[C, C, Sequence[tuple[tuple[Any, ...], Any]]], Sequence[Any]] | None = None
    """Instead of `transform`, for types that adapt all keys together. Takes every key with its value, and returns a
    value or None for each."""
    continues: Mapping[str, Callable[[Mapping[str, Any], C, tuple[Any, ...], Any], Any]] = field(default_factory=dict)
    """Makes the state from that of each type that the type continues. Pure; as `transform`, but the old config is
    that of the other type, as JSON."""

    def __post_init__(self) -> None:
        change = self.type.state_change
        can_transform = self.transform is not None or self.transform_all is not None
        if not can_transform and isinstance(change, FieldFates) and change.transforms:
            raise ValueError(
                f"task type {self.type.name!r} declares that its state is transformed, but its implementation has no "
                "transform; give it one, or declare another fate"
            )
        declared = {continued.type for continued in self.type.continues}
        if odd := sorted(declared ^ self.continues.keys()):
            raise ValueError(
                f"task type {self.type.name!r} and its implementation do not agree whether it continues {odd[0]!r}; "
                "name it in both"
            )

    def transformed(self, old: C, new: C, kept: Sequence[tuple[tuple[Any, ...], Any]]) -> Sequence[Any]:
        """What each key's value becomes under the new config; None drops the key."""
        if self.transform_all is not None:
            return self.transform_all(old, new, kept)
        if self.transform is None:
            raise TypeError(f"the implementation of {self.type.name!r} has no transform; give it one")
        return [self.transform(old, new, key, value) for key, value in kept]

    def behaviour(self, slot: Slot, outside: Outside | None = None) -> Behaviour:
        """The behaviour of a slot. Secrets and places in its config are resolved `outside`."""
        if slot.version != self.type.version:
            raise NoBehaviour(
                f"version {self.type.version} of {slot.type!r} is installed, but the plan needs version {slot.version};"
                " install the package that provides it on every worker"
            )
        return self.make(self.type.config.model_validate_json(slot.config, context={"outside": outside}))


AnyImplementation: TypeAlias = Implementation[Any]


def installed_behaviours() -> dict[str, str]:
    """The implementation of each task type, as `module:attribute`. Hosts call this."""
    places: dict[str, str] = {}
    for entry in sorted(entry_points(group=_GROUP), key=lambda entry: (entry.name, entry.value)):
        if places.setdefault(entry.name, entry.value) != entry.value:
            raise NoBehaviour(
                f"task type {entry.name!r} is implemented by {places[entry.name]} and by {entry.value}; "
                "uninstall one of the two packages"
            )
    return places


def place_of(name: str, places: Mapping[str, str]) -> str | None:
    """The place of a task type's implementation: its own, else that of the longest namespace that contains it.

    >>> place_of("acme:clean", {"acme:*": "acme:step", "acme:load": "acme:load"})
    'acme:step'
    """
    wholes = [whole for whole in places if whole.endswith("*") and name.startswith(whole[:-1])]
    return places.get(name) or max(((len(whole), places[whole]) for whole in wholes), default=(0, None))[1]


_UNWATCHED = Unwatched()


def behaviours_of(
    slots: Iterable[Slot], places: Mapping[str, str], watch: TaskWatch = _UNWATCHED, outside: Outside | None = None
) -> dict[int, Behaviour]:
    """The behaviour of each instance; that of a task that cannot run refuses every event and says why."""
    behaviours = {}
    for slot in slots:
        watch.running(slot.instance)
        behaviours[slot.instance] = _behaviour(slot, places, watch, outside)
    watch.idle()
    return behaviours


def _behaviour(slot: Slot, places: Mapping[str, str], watch: TaskWatch, outside: Outside | None) -> Behaviour:
    if reason := watch.parked(slot.instance):
        return _refuses(reason)
    try:
        return implementation_of(slot.type, places).behaviour(slot, outside)
    except NoBehaviour as error:
        return _refuses(str(error))
    except Exception as error:  # noqa: BLE001 - imports and calls third parties' code
        # Braid's own code comes from the host, so a third party's is missing.
        missing = (
            "; install its package with all dependencies on every worker" if isinstance(error, ImportError) else ""
        )
        return _refuses(f"the behaviour of {slot.type!r} cannot be made: {type(error).__name__}: {error}{missing}")


def implementation_of(name: str, places: Mapping[str, str]) -> AnyImplementation:
    """Import the implementation of a task type from its place."""
    place = place_of(name, places)
    if place is None:
        raise NoBehaviour(f"no package implements the task type {name!r}; install the one that does, and restart")
    module, _, attribute = place.partition(":")
    try:
        implementation = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        # An earlier release had it elsewhere, and the plan is from that time.
        moved = place_of(name, installed_behaviours())
        if error.name != module or moved in {None, place}:
            raise
        return implementation_of(name, {name: moved})
    if not isinstance(implementation, Implementation):
        what = type(implementation).__name__
        raise NoBehaviour(f"{place} is {what}, not an Implementation; repair or uninstall its package")
    return implementation


def _refuses(reason: str) -> Behaviour:
    def refuse(_port: str, _events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        raise NoBehaviour(reason)

    return refuse


EachEvent: TypeAlias = Callable[[str, dict[str, Any], Staged], Iterable[tuple[str, Mapping[str, Any]]]]
"""Takes an input port, one event and the state; yields output ports, each with an event."""


def each_event(function: EachEvent, outputs: Callable[[pa.Schema], Mapping[str, pa.Schema]]) -> Behaviour:
    """Make a behaviour from a function of one event, and one from the schema of events to that at each output port.

    A field that an event lacks becomes null; a field that the schema lacks is an error.
    """

    def behave(port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        schemas = outputs(events.schema)
        rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in schemas}
        origins: dict[str, list[int]] = {name: [] for name in schemas}
        for index, event in enumerate(events.to_pylist()):
            for name, emitted in function(port, event, state):
                if name not in schemas:
                    raise ValueError(f"the task emits at port {name!r}, which it does not have")
                if unknown := sorted(set(emitted) - set(schemas[name].names)):
                    raise ValueError(f"the task emits the field {unknown[0]!r}, which port {name!r} does not have")
                rows[name].append(emitted)
                origins[name].append(index)
        return {
            name: PortEmission(pa.RecordBatch.from_pylist(rows[name], schema=schema), np.array(origins[name], np.int64))
            for name, schema in schemas.items()
        }

    return behave


class Refusal(NamedTuple):
    """An event that a behaviour cannot take."""

    at: int
    """The index of the event among those of the call."""
    reason: str
    traceback: str = ""
    """The lines of code that led there, for the owner of the code only."""


class TakeOutcome(NamedTuple):
    """The emission of a call, and the events that the behaviour refuses."""

    emission: PortEmission
    refusals: list[Refusal]
    """The refused events, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusingBehaviour:
    """A behaviour of one input and one output port, which says itself which events it cannot take.

    These leave no trace in its state.
    """

    take: Callable[[pa.RecordBatch, Staged], TakeOutcome]
    owner: str
    """The tenant who may read its tracebacks; empty for operators."""

    def __call__(self, _port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        """The emission, without what it refuses."""
        return {"out": self.take(events, state).emission}
