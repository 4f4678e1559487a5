"""Task types: records that say what tasks of a type read, keep and emit; and the catalogue, in which they have names.

They import no implementation. A type also says what its ports are, by the config if need be, and the fate of a running
task's state when the task gets a new config or another version of its type. Most types say that as their `state_change`
field by field, with `FieldFates`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, Self, TypeVar

from dags.config import Config, NamesSource
from dags.schema import ANY, Kind, Schema

LONGEST_PORT = 200
MOST_PORTS = 250
"""The most ports on each side of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of a task; made by task types whose ports depend on the config."""

    inputs: tuple[str, ...] = ("in",)
    outputs: tuple[str, ...] = ("out",)
    optional: frozenset[str] = frozenset()
    """The input ports that need no stream."""


def unfit(inputs: tuple[str, ...], outputs: tuple[str, ...], optional: frozenset[str]) -> Iterator[str]:
    """Faults in the ports of a task type, each as the rest of a sentence that begins with the type.

    >>> list(unfit(("in",), ("out",), frozenset({"side"})))
    ["calls 'side' optional, which is not one of its input ports; add it there, or leave it out"]
    """
    if not inputs and not outputs:
        yield "has no ports; give it inputs or outputs"
    # Third parties may not use a type checker.
    sides: tuple[Any, ...] = (inputs, outputs)
    for ports in sides:
        if not isinstance(ports, tuple) or not all(isinstance(port, str) for port in ports):
            yield "has ports that are not a tuple of texts; give their names in a tuple"
        elif len(ports) > MOST_PORTS:
            yield f"has {len(ports):,} ports on one side; the most allowed are {MOST_PORTS}"
        elif len(set(ports)) < len(ports):
            yield "names a port twice; give each port on a side its own name"
        elif any(not 0 < len(port) <= LONGEST_PORT for port in ports):
            yield f"has a port whose name is empty or longer than {LONGEST_PORT} characters; rename it"
    if unknown := sorted(set(optional) - set(inputs)):
        yield f"calls {unknown[0]!r} optional, which is not one of its input ports; add it there, or leave it out"


class StateFate(StrEnum):
    """The fate of a task's state: it stays as it is, is adapted to the new config, or is dropped."""

    KEPT = "kept"
    TRANSFORMED = "transformed"
    FRESH = "fresh"


def undeclared(_old: Config, _new: Config) -> StateFate | None:
    """The `state_change` of a type that declares no fate."""
    return None


@dataclass(frozen=True, slots=True)
class Resized:
    """The fates for a field whose value can grow or shrink. A tuple grows if it keeps its items and gets others."""

    grown: StateFate | None
    shrunk: StateFate | None

    def of(self, old: Any, new: Any) -> StateFate | None:
        """The fate for two different values."""
        grows = set(new) >= set(old) if isinstance(new, tuple) else new > old
        return self.grown if grows else self.shrunk


@dataclass(frozen=True, slots=True)
class Continuation:
    """Another type whose state a type can go on from, once a running task changes from that one to it."""

    type: str
    same: tuple[str, ...] = ()
    """The config fields of both types that must be equal for that."""
    versions: frozenset[int] = frozenset({1})
    """The versions of the other type whose configs and states are known."""


class FieldFates:
    """A `state_change` that looks at the fields that differ. The least favourable of their fates counts.

    A field without a fate may be changed only if the tenant gives up the state.

    >>> class Smoothing(Config):
    ...     field: str
    ...     noise: float = 0.5
    >>> fates = FieldFates(noise=StateFate.KEPT)
    >>> fates(Smoothing(field="t"), Smoothing(field="t", noise=0.1))
    <StateFate.KEPT: 'kept'>
    >>> fates(Smoothing(field="t"), Smoothing(field="u", noise=0.1))
    """

    def __init__(self, others: StateFate | None = None, /, **fields: StateFate | Resized | None) -> None:
        self.others = others
        """The fate for all other fields, including those that the config's schema does not name."""
        self.fields: Mapping[str, StateFate | Resized | None] = fields

    def __call__(self, old: Config, new: Config) -> StateFate | None:
        """The fate for two configs."""
        return min(self._fates(old, new), key=_ORDER.index, default=StateFate.KEPT)

    @property
    def transforms(self) -> bool:
        """True if it can answer `TRANSFORMED`."""
        fates = {self.others}
        for fate in self.fields.values():
            fates |= {fate.grown, fate.shrunk} if isinstance(fate, Resized) else {fate}
        return StateFate.TRANSFORMED in fates

    def _fates(self, old: Config, new: Config) -> Iterator[StateFate | None]:
        before, after = _values(old), _values(new)
        for name in before.keys() | after.keys():
            was, becomes = before.get(name), after.get(name)
            if was == becomes:
                continue
            fate = self.fields.get(name, self.others)
            yield fate.of(was, becomes) if isinstance(fate, Resized) else fate


_ORDER = (None, StateFate.FRESH, StateFate.TRANSFORMED, StateFate.KEPT)
"""The least favourable first."""


def _values(config: Config) -> dict[str, Any]:
    """The values of all fields, including those that the schema does not name."""
    return {name: getattr(config, name) for name in type(config).model_fields} | (config.model_extra or {})


class State(StrEnum):
    """The state that a task keeps from event to event: none, one per key, or one for the whole stream."""

    NONE = "none"
    KEY = "key"
    STREAM = "stream"


class Effect(StrEnum):
    """A task's effect on the world outside its streams, or what it reads from there."""

    NONE = "none"
    READS_OUTSIDE = "reads outside"
    WRITES_OUTSIDE = "writes outside"


class Emission(StrEnum):
    """The number of events that a task may emit for one event."""

    AT_MOST_ONE = "at most one"
    ONE_PER_PORT = "one per port"
    MANY = "many"


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One field that a task reads from the events at an input port."""

    at: str
    """The config field that names it, for the problem's pointer; empty if the type fixes the name."""
    field: str
    kinds: frozenset[Kind] = ANY
    port: str = "in"


class Unsuitable(ValueError):
    """A config that does not fit the task's input, or that allows no ports. The tenant gets it as a problem.

    Raised by `output_schema` and by `ports`.
    """

    def __init__(self, message: str, remedy: str, at: str = "") -> None:
        super().__init__(f"{message}; {remedy}")
        self.message = message
        self.remedy = remedy
        self.at = at
        """The config field to blame, as in `Read`."""


C = TypeVar("C", bound=Config)
Schemas = Mapping[str, Schema]


def passes_on(_config: Config, inputs: Schemas) -> Schemas:
    """The output schema of a task that passes its events on."""
    return {"out": inputs["in"]}


def reads_nothing(_config: Config) -> tuple[Read, ...]:
    """The `reads` of a task that reads no field by name."""
    return ()


def no_keys(_config: Config) -> tuple[str, ...]:
    """The `key_fields` of a task that keeps no state per key."""
    return ()


def sets_nothing(_config: Config) -> tuple[str, ...]:
    """The `sets` of a task that changes no field of the events that it emits."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskType(Generic[C]):
    """The description of a task type; written by the task library and by third parties.

    A type without inputs is a source, one without outputs a sink. A source whose config derives from `NamesSource`
    emits the events of a registered source, with its schema. Any other source makes its events itself.
    """

    name: str
    version: int = 1
    """Raise it whenever the same config would compute something else."""
    summary: str = ""
    """One sentence for tenants."""
    config: type[C]
    inputs: tuple[str, ...] = ("in",)
    """Input ports. Each needs a stream, unless it is optional."""
    outputs: tuple[str, ...] = ("out",)
    optional: frozenset[str] = frozenset()
    """The input ports that need no stream."""
    ports: Callable[[C], Ports] | None = None
    """The ports of a task by its config, instead of those above. Pure; a change of it raises the version."""
    output_schema: Callable[[C, Schemas], Schemas] = passes_on
    """The schema at each output port, given those at the connected input ports, which have every field in `reads`."""
    reads: Callable[[C], tuple[Read, ...]] = reads_nothing
    """The fields that the task needs upstream."""
    state: State = State.NONE
    key_fields: Callable[[C], tuple[str, ...]] = no_keys
    """The fields that make the key, if the state is kept per key. Each key of the state is the values of these fields,
    as `engine.implementations.values.keyed` gives them."""
    sets: Callable[[C], tuple[str, ...]] | None = None
    """The fields whose values may differ between an event that is emitted and the one that caused it; None for any.

    All others that leave are as they entered. So Braid knows by which fields of a raw stream work can be divided."""
    state_change: Callable[[C, C], StateFate | None] = undeclared
    """The fate of a running task's state, given its old and its new config; None to refuse the change. Pure."""
    keeps_state_of: frozenset[int] = frozenset()
    """The earlier versions of the type whose configs and states this version can read."""
    continues: tuple[Continuation, ...] = ()
    """The other types from whose states its implementation makes one of its own."""
    keeps_events: bool = False
    """True if the state holds whole events. It then goes with no other schema than theirs."""
    deterministic: bool = True
    effect: Effect = Effect.NONE
    emission: Emission = Emission.AT_MOST_ONE
    unique_by: Callable[[C], tuple[str, ...] | None] | None = None
    """The fields by which a task emits once; None if it emits again and again.

    A task that emits once by some fields takes any number of events with the same values in them, at any of its input
    ports and at any time, and emits one event at most while it takes them, over all output ports together. So it has to
    keep in its state that it has emitted. If these fields are the same in all that an event of a source led to, the
    task emits at most one event for that event of the source, whatever came of it on the way.
    """
    selectivity: str = "one for one"
    """The ratio of events out to events in, in words for tenants."""
    joins: bool = False
    """True if it works once per complete set of events, one from each input port, instead of once per event."""
    tags: frozenset[str] = frozenset()
    """Tags that a host must offer to run it."""
    config_tags: Callable[[C], frozenset[str]] | None = None
    """Further tags of a task by its config. Pure."""
    normalise: Callable[[C], C] | None = None
    """Maps configs that mean the same to one of them. Pure; a change of it raises the version."""
    gathers: str = ""
    """The config field with the number of events that the task combines into one; empty if it combines none."""

    def __post_init__(self) -> None:
        for fault in self._faults():
            raise ValueError(f"task type {self.name!r} {fault}")

    def _faults(self) -> Iterator[str]:
        """What is wrong with it, each as the rest of a sentence that begins with the type."""
        if self.version < 1:
            yield f"has version {self.version}; versions start at 1"
        if unknown := sorted(version for version in self.keeps_state_of if not 1 <= version < self.version):
            yield (
                f"keeps the state of version {unknown[0]}, which is not before its version {self.version}; "
                "name earlier versions only"
            )
        yield from self._wrong_continuations()
        if self.unique_by is not None and self.state is State.NONE:
            yield (
                "says that it emits once by some fields, but has no state to remember that it has; declare the state, "
                "or leave out unique_by"
            )
        if self.gathers and self.gathers not in self.config.model_fields:
            yield (
                f"gathers as many events as its config field {self.gathers!r} says, but its config has no such field; "
                "name a field with a whole number"
            )
        yield from unfit(self.inputs, self.outputs, self.optional)
        if self.output_schema is not passes_on or (not self.ports and (self.is_sink or self.reads_source)):
            return
        if self.ports is not None:
            yield (
                "has ports that depend on its config; give it an output_schema, which returns the schema at each of "
                "them"
            )
        if self.is_source:
            raise ValueError(
                f"source type {self.name!r} has neither a config field 'source' nor an output_schema; derive its "
                "config from NamesSource, or give it an output_schema if it makes its events itself"
            )
        if self.outputs != ("out",) or "in" not in self.inputs or "in" in self.optional:
            yield (
                "has the default output_schema, which needs the input port 'in', not optional, and the output port "
                "'out' alone; give it an output_schema for its own ports"
            )

    def _wrong_continuations(self) -> Iterator[str]:
        others = [other.type for other in self.continues]
        for other in self.continues:
            if other.type == self.name or others.count(other.type) > 1:
                yield f"continues {other.type!r}, which is itself or named twice; name each other type once"
            if missing := sorted(set(other.same) - set(self.config.model_fields)):
                yield (
                    f"continues {other.type!r} of the same {missing[0]!r}, but its config has no such field; "
                    "name fields of both configs"
                )

    def of(self, config: C) -> Self:
        """The type with the ports and tags that a task of that config has."""
        own = self
        if self.config_tags is not None:
            tags = self.config_tags(config)
            if not isinstance(tags, frozenset):
                raise TypeError(f"config_tags returned {type(tags).__name__}, not frozenset")
            own = replace(own, config_tags=None, tags=self.tags | tags)
        if self.ports is not None:
            ports = self.ports(config)
            if not isinstance(ports, Ports):
                raise TypeError(f"ports returned {type(ports).__name__}, not Ports")
            own = replace(own, ports=None, inputs=ports.inputs, outputs=ports.outputs, optional=ports.optional)
        return own

    @property
    def varies(self) -> bool:
        """True if its ports or tags depend on the config."""
        return self.ports is not None or self.config_tags is not None

    @property
    def is_source(self) -> bool:
        """True if its tasks begin a dataflow."""
        return not self.inputs

    @property
    def reads_source(self) -> bool:
        """True if its tasks emit the events of registered sources."""
        return self.is_source and issubclass(self.config, NamesSource)

    @property
    def is_generator(self) -> bool:
        """True if its tasks begin a dataflow with events that they make themselves."""
        return self.is_source and not self.reads_source

    @property
    def is_sink(self) -> bool:
        """True if its tasks end a dataflow."""
        return not self.outputs

    @property
    def shareable(self) -> bool:
        """True if equal tasks of this type may run as one."""
        return self.deterministic and self.effect is Effect.NONE


AnyTaskType = TaskType[Any]


@dataclass(frozen=True, slots=True)
class Namespace:
    """Provides all types whose names start with a prefix, such as `opmw:`."""

    prefix: str
    resolve: Callable[[str], AnyTaskType | None]
    """Returns the type of that full name, or None if there is none."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Task types by name, and namespaces that make types on demand.

    >>> Catalogue.of([]).find("nothing")
    """

    types: Mapping[str, AnyTaskType] = field(default_factory=dict)
    namespaces: tuple[Namespace, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[AnyTaskType | Namespace]) -> "Catalogue":
        """A catalogue of these entries. Raises `ValueError` if two provide the same name."""
        types: dict[str, AnyTaskType] = {}
        namespaces: list[Namespace] = []
        for entry in entries:
            if isinstance(entry, Namespace):
                namespaces.append(entry)
            elif entry.name in types:
                raise ValueError(f"two task types are named {entry.name!r}; rename one, or install only one of them")
            else:
                types[entry.name] = entry
        for namespace in namespaces:
            clashes = [name for name in types if name.startswith(namespace.prefix)]
            clashes += [n.prefix for n in namespaces if n is not namespace and n.prefix.startswith(namespace.prefix)]
            if clashes:
                raise ValueError(f"namespace {namespace.prefix!r} also covers {clashes[0]!r}; choose another prefix")
        return cls(types, tuple(namespaces))

    def find(self, name: str) -> AnyTaskType | None:
        """The type of that name, or None if there is none."""
        if (known := self.types.get(name)) is not None:
            return known
        for namespace in self.namespaces:
            if name.startswith(namespace.prefix):
                kind: object = namespace.resolve(name)
                if kind is None or (isinstance(kind, TaskType) and kind.name == name):
                    return kind
                given = repr(kind.name) if isinstance(kind, TaskType) else type(kind).__name__
                raise TypeError(f"the namespace {namespace.prefix!r} returned {given} instead of {name!r}")
        return None

    def names(self) -> tuple[str, ...]:
        """Every name to suggest: of the types, and with a star, of the namespaces."""
        return (*sorted(self.types), *(f"{namespace.prefix}*" for namespace in self.namespaces))
