"""Task types: what a task of a type takes, keeps and gives. A record says so; it imports no implementation."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Generic, Protocol, Self, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from dags.schema import ANY, Kind, Schema

_NAME = "[A-Za-z0-9_][A-Za-z0-9._-]*"
"""A level of a path; none of them leads upwards."""


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


class Outside(Protocol):
    """What a host knows of the world outside, for the configs of its tasks."""

    def secret(self, owner: str, name: str) -> str:
        """What a tenant keeps secret under a name."""

    def place(self, owner: str, path: str) -> str:
        """Where a path of a tenant's lies on this machine."""

    def barred(self, host: str) -> str:
        """Why tasks of tenants may not connect to a host, given by its name or address; empty where they may."""


class Owned(Config):
    """A config value that means something else for each tenant; it is hashed with its owner, so that none share one.

    A host reads a plan's configs with itself as the context's `outside`. Only then may a value name its owner, and only
    then is looked up what it refers to, once; the configs of documents and plans hold the reference alone.
    """

    _found: str = PrivateAttr("")
    _outside: Outside | None = PrivateAttr(None)

    def _looked_up(self, owner: str, outside: Outside) -> str:
        raise NotImplementedError

    def _looked_up_once(self) -> str:
        if not self._found:
            raise LookupError(f"{self} means something only to a host's worker, which has its plan")
        return self._found

    @model_validator(mode="wrap")
    @classmethod
    def _of_a_plan(cls, told: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        outside = (info.context or {}).get("outside")
        if outside is None or not isinstance(told, dict):
            return handler(told)
        made = handler({name: value for name, value in told.items() if name != "owner"})
        made._found = made._looked_up(told.get("owner", ""), outside)  # noqa: SLF001 - its own
        made._outside = outside  # noqa: SLF001 - its own
        return made

    @model_serializer(mode="wrap")
    def _with_owner(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        owner = {"owner": info.context["owner"]} if info.context else {}
        return {**handler(self), **owner}


class Secret(Owned):
    """A config value that only refers to a secret.

    >>> Secret(secret="password").model_dump(context={"owner": "ann"})
    {'secret': 'password', 'owner': 'ann'}
    """

    secret: str

    @property
    def revealed(self) -> str:
        """The secret itself, in a worker; for nobody's eyes."""
        return self._looked_up_once()

    def barred(self, host: str) -> str:
        """Why a task may not connect to a host that the secret names; asked by the task before each connection."""
        if self._outside is None:
            raise LookupError(f"{self} means something only to a host's worker, which has its plan")
        return self._outside.barred(host)

    def _looked_up(self, owner: str, outside: Outside) -> str:
        return outside.secret(owner, self.secret)


class Place(Owned):
    """A config value that names a file or folder among those that hosts keep for the tenant.

    >>> Place(place="readings/today").place
    'readings/today'
    """

    place: Annotated[str, StringConstraints(max_length=200, pattern=f"^{_NAME}(/{_NAME})*$")]

    @property
    def path(self) -> str:
        """Where it lies, in a worker."""
        return self._looked_up_once()

    def _looked_up(self, owner: str, outside: Outside) -> str:
        return outside.place(owner, self.place)


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


class Unsuitable(ValueError):
    """What enters a task does not suit its config; raised by `output_schema`, told to the tenant at its place."""

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

    A type without inputs is a source, one without outputs a sink. A source's output schema is the registered source's.
    """

    name: str
    version: int = 1
    """Raised whenever the same config would compute something else."""
    summary: str = ""
    """What its tasks do, in a sentence that tenants read."""
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
    selectivity: str = "one for one"
    """How many events come out for how many that go in, in words that tenants read."""
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
