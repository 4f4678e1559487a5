"""Task types: what a task of a type takes, keeps and gives. A record says so; it imports no implementation."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SerializationInfo, model_serializer

from dags.schema import ANY, Kind, Schema


def _holds_a_set(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    return (isinstance(kind, type) and issubclass(kind, AbstractSet)) or any(map(_holds_a_set, get_args(annotation)))


class Config(BaseModel):
    """The base of every task type's config schema: strict, complete, without NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def __pydantic_init_subclass__(cls, **_more: Any) -> None:
        for name, field in cls.model_fields.items():
            if _holds_a_set(field.annotation):
                raise TypeError(
                    f"the config field {name!r} is a set, whose order changes from run to run, and with it the "
                    "signature; make it a tuple and let the type's normalise sort it"
                )


class Secret(Config):
    """A config value that only refers to a secret; it is hashed with its owner, so that tenants never share one.

    >>> Secret(secret="password").model_dump(context={"owner": "ann"})
    {'secret': 'password', 'owner': 'ann'}
    """

    secret: str

    @model_serializer
    def _with_owner(self, info: SerializationInfo) -> dict[str, str]:
        owner = {"owner": info.context["owner"]} if info.context else {}
        return {"secret": self.secret, **owner}


class NamesSource(Config):
    """The least that a source type's config has: the name of a registered source."""

    source: str


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

    A type without inputs is a source, one without outputs a sink. A source's output schema is the registered source's.
    """

    name: str
    version: int = 1
    """Raised whenever the same config would compute something else."""
    config: type[C]
    inputs: tuple[str, ...] = ("in",)
    """Input ports. Each one has to be fed."""
    outputs: tuple[str, ...] = ("out",)
    output_schema: Callable[[C, Schemas], Schemas] = passes_on
    """The schema at each output port, given those at the input ports, which have every field in `reads`."""
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
    tags: frozenset[str] = frozenset()
    """What a host must offer to run it."""
    normalise: Callable[[C], C] | None = None
    """Maps configs that mean the same to one of them. Pure; changing it raises the version."""

    def __post_init__(self) -> None:
        if not self.inputs and not self.outputs:
            raise ValueError(f"task type {self.name!r} has no port at all; give it inputs or outputs")
        for ports in (self.inputs, self.outputs):
            if len(set(ports)) < len(ports):
                raise ValueError(f"task type {self.name!r} names a port twice; port names are unique per side")
        if self.version < 1:
            raise ValueError(f"task type {self.name!r} has version {self.version}; versions start at 1")
        if self.is_source and not issubclass(self.config, NamesSource):
            raise ValueError(
                f"source type {self.name!r} has no config field 'source'; derive its config of NamesSource"
            )

    @property
    def is_source(self) -> bool:
        """Whether its tasks begin a dataflow."""
        return not self.inputs

    @property
    def is_sink(self) -> bool:
        """Whether its tasks end a dataflow."""
        return not self.outputs

    @property
    def shareable(self) -> bool:
        """Whether equal tasks of this type may be one."""
        return self.deterministic and self.effect is Effect.NONE


AnyTaskType = TaskType[Any]
