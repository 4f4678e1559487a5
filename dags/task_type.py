"""Task types: what a task of a type takes, keeps and gives. A record says so; it imports no implementation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, Self, TypeVar

from dags.config import Config, NamesSource
from dags.ports import Ports, unfit
from dags.schema import ANY, Kind, Schema


class State(StrEnum):
    """What a task remembers from event to event: nothing, something per key, or something about the whole stream."""

    NONE = "none"
    KEY = "key"
    STREAM = "stream"


class Effect(StrEnum):
    """What a task does to or learns from the world beside its streams."""

    NONE = "none"
    READS_OUTSIDE = "reads outside"
    WRITES_OUTSIDE = "writes outside"


class Emission(StrEnum):
    """How many events a task may emit for one that it takes."""

    AT_MOST_ONE = "at most one"
    ONE_PER_PORT = "one per port"
    MANY = "many"


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One field that a task reads from the events at an input port."""

    at: str
    """The config field that names it, for the problem's pointer; empty where the type itself fixes the name."""
    field: str
    kinds: frozenset[Kind] = ANY
    port: str = "in"


class Unsuitable(ValueError):
    """A config that does not suit what enters its task, or cannot be given ports; told to the tenant at its place.

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
    """The output schema of a task that emits what it takes."""
    return {"out": inputs["in"]}


def reads_nothing(_config: Config) -> tuple[Read, ...]:
    """For a task that reads no field by name."""
    return ()


def no_keys(_config: Config) -> tuple[str, ...]:
    """For a task that keeps no state per key."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskType(Generic[C]):
    """What tasks of one type have in common; written by the task library and by third parties.

    A type without inputs is a source, one without outputs a sink. A source whose config derives from `NamesSource`
    gives the events of a registered source, with that one's schema; any other makes its events itself.
    """

    name: str
    version: int = 1
    """Raised whenever the same config would compute something else."""
    summary: str = ""
    """What its tasks do, in a sentence that tenants read."""
    config: type[C]
    inputs: tuple[str, ...] = ("in",)
    """Input ports. Each one has to be fed, unless it is optional."""
    outputs: tuple[str, ...] = ("out",)
    optional: frozenset[str] = frozenset()
    """The input ports that need no stream."""
    ports: Callable[[C], Ports] | None = None
    """The ports of a task by its config, in place of those above. Pure; changing it raises the version."""
    output_schema: Callable[[C, Schemas], Schemas] = passes_on
    """The schema at each output port, given those at the input ports that are fed, with every field in `reads`."""
    reads: Callable[[C], tuple[Read, ...]] = reads_nothing
    """The fields that the task needs upstream."""
    state: State = State.NONE
    key_fields: Callable[[C], tuple[str, ...]] = no_keys
    """Where the state is kept per key: the fields that make the key."""
    deterministic: bool = True
    effect: Effect = Effect.NONE
    emission: Emission = Emission.AT_MOST_ONE
    unique_per_cause: bool = True
    """Whether no two events that it emits for one cause are equal."""
    selectivity: str = "one for one"
    """How many events come out for how many that go in, in words that tenants read."""
    joins: bool = False
    """Whether it works once for each complete set of events, one of each input port, instead of once for each event."""
    tags: frozenset[str] = frozenset()
    """What a host must offer to run it."""
    normalise: Callable[[C], C] | None = None
    """Maps configs that mean the same to one of them. Pure; changing it raises the version."""
    gathers: str = ""
    """The config field that says of how many events the task makes one; empty where it does nothing like that."""

    def __post_init__(self) -> None:
        if self.version < 1:
            raise ValueError(f"task type {self.name!r} has version {self.version}; versions start at 1")
        if self.gathers and self.gathers not in self.config.model_fields:
            raise ValueError(
                f"task type {self.name!r} gathers as many events as its config field {self.gathers!r} says, and its"
                " config has no such field; name one that holds a whole number"
            )
        for why in unfit(self.inputs, self.outputs, self.optional):
            raise ValueError(f"task type {self.name!r} {why}")
        if self.output_schema is not passes_on or (not self.ports and (self.is_sink or self.reads_source)):
            return
        if self.ports is not None:
            raise ValueError(
                f"task type {self.name!r} has ports that its config decides; give it an output_schema, which gives the "
                "schema at each of them"
            )
        if self.is_source:
            raise ValueError(
                f"source type {self.name!r} has neither a config field 'source' nor an output_schema; derive its "
                "config of NamesSource, or give it an output_schema where it makes its events itself"
            )
        if self.outputs != ("out",) or "in" not in self.inputs or "in" in self.optional:
            raise ValueError(
                f"task type {self.name!r} has the default output_schema, which passes on what enters at 'in', a port "
                "that has to be fed, at 'out' and nowhere else; give it an output_schema for the ports that it has"
            )

    def of(self, config: C) -> Self:
        """The type as a task with that config has it, with the ports that the config decides."""
        if self.ports is None:
            return self
        found = self.ports(config)
        if not isinstance(found, Ports):
            raise TypeError(f"ports gave {type(found).__name__}, not Ports")
        return replace(self, ports=None, inputs=found.inputs, outputs=found.outputs, optional=found.optional)

    @property
    def is_source(self) -> bool:
        """Whether its tasks begin a dataflow."""
        return not self.inputs

    @property
    def reads_source(self) -> bool:
        """Whether its tasks give the events of registered sources."""
        return self.is_source and issubclass(self.config, NamesSource)

    @property
    def is_generator(self) -> bool:
        """Whether its tasks begin a dataflow with events that they make themselves."""
        return self.is_source and not self.reads_source

    @property
    def is_sink(self) -> bool:
        """Whether its tasks end a dataflow."""
        return not self.outputs

    @property
    def shareable(self) -> bool:
        """Whether equal tasks of this type may be one."""
        return self.deterministic and self.effect is Effect.NONE


AnyTaskType = TaskType[Any]
