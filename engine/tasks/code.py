"""Code: a task that runs Python source which a tenant published."""

import keyword
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, StringConstraints, model_validator

from dags import Config, Effect, FieldFates, Kind, Read, Schema, Schemas, State, StateFate, TaskType
from dags.config import Hosted
from engine.tasks.parse import extended
from engine.tasks.stream_statistics import Key, key_of

Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Target = Annotated[str, StringConstraints(pattern=r"^[a-z0-9.\[\]:-]{1,260}:[1-9][0-9]{0,4}$")]
_Entry = Annotated[str, StringConstraints(max_length=200)]
_MOST_WHEELS = _MOST_TARGETS = 16


class CodeInput(Config):
    """The fields that the code needs."""

    needed: dict[str, Kind] = Field(default_factory=dict, alias="in")
    """The fields that it gets, each with its kind. It sees no others."""


class CodeOutput(Config):
    """The fields that its events have."""

    fields: dict[str, Kind] = Field(default_factory=dict)
    """The fields that it adds or changes, each with its kind."""
    drop: tuple[str, ...] = ()
    """The fields that it removes."""
    rest: bool = True
    """True if all other fields pass on; otherwise only `fields` leave."""

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if both := sorted(set(self.drop) & set(self.fields)):
            raise ValueError(f"the field {both[0]!r} is both added and dropped; choose one")
        if self.drop and not self.rest:
            raise ValueError("only the fields that it adds leave, so nothing is left to drop; omit 'drop'")
        if not self.fields and not self.rest:
            raise ValueError("its events would have no fields; add some, or let the rest pass on")
        return self


class CodeConfig(Hosted):
    """Which source runs, on which fields, for whom. Made from a published source, never by its tenant."""

    digest: Digest
    """The SHA-256 of the source, in hexadecimal digits."""
    entry: _Entry
    """The name of the function."""
    per: Literal["event", "batch"] = "event"
    """Whether the function takes an event or a batch."""
    input: CodeInput = CodeInput()
    """What it needs."""
    output: CodeOutput = CodeOutput()
    """What it gives."""
    owner: str
    """The tenant who published it, and alone reads its tracebacks; empty for an operator."""
    wheels: Annotated[tuple[Digest, ...], Field(max_length=_MOST_WHEELS)] = ()
    """The SHA-256 of each wheel that it imports from. With any, it runs in cells even if an operator vouches for it."""

    @model_validator(mode="after")
    def _can_be_called(self) -> Self:
        if self.per == "batch" and not self.input.needed:
            raise ValueError("a function of a batch takes at least one field; name it under 'input', 'in'")
        _check_name(self.entry)
        return self


def _check_name(entry: str) -> None:
    if not entry.isidentifier() or keyword.iskeyword(entry):
        raise ValueError(f"{entry!r} is not a name of a function; name one that the source defines")


class ConnectingCodeConfig(CodeConfig):
    """Which source runs, on which fields, for whom, and what it connects to."""

    connects: Annotated[tuple[Target, ...], Field(min_length=1, max_length=_MOST_TARGETS)]
    """The hosts with ports that it may connect to, as far as tasks may at all."""


class StatefulCodeConfig(CodeConfig):
    """Which source runs, on which fields, for whom, and what it keeps."""

    module: Annotated[str, StringConstraints(max_length=100)]
    """The name of the module. What one module keeps is no other's."""
    per: Literal["event"] = "event"
    """The function takes an event."""
    by: Key = ()
    most_keys: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """The most keys under which it keeps something, in each shard."""
    most_bytes: Annotated[int, Field(ge=1, le=64_000_000)] = 1_000_000
    """The most bytes of what it keeps with its keys, in each shard."""
    migrate: _Entry = ""
    """The name of the function that adapts what was kept to another version or `config`; empty if there is none."""
    config: dict[str, Any] = Field(default_factory=dict)
    """What the function gets as its config."""

    @model_validator(mode="after")
    def _can_keep(self) -> Self:
        if missing := [name for name in self.by if name not in self.input.needed]:
            raise ValueError(f"the key field {missing[0]!r} is not among those that it gets; name it there too")
        if self.migrate:
            _check_name(self.migrate)
        return self


_Code = TypeVar("_Code", bound=CodeConfig)


def _reads(config: CodeConfig) -> tuple[Read, ...]:
    needed = config.input.needed.items()
    return tuple(Read(at=f"input/in/{name}", field=name, kinds=frozenset({kind})) for name, kind in needed)


def _given(config: CodeConfig, inputs: Schemas) -> Schemas:
    passed = inputs["in"] if config.output.rest else Schema.of()
    for name in config.output.drop:
        passed = passed.without(name)
    return {"out": extended(passed, config.output.fields)}


def _sorted(config: _Code) -> _Code:
    output = config.output.model_copy(update={"drop": tuple(sorted(set(config.output.drop)))})
    return config.model_copy(update={"output": output})


CODE = TaskType(
    name="code",
    summary="Runs a function of a published Python source on every event, or on every batch of events.",
    config=CodeConfig,
    sets=lambda config: tuple(config.output.fields),
    output_schema=_given,
    reads=_reads,
    selectivity="at most one for one",
    normalise=_sorted,
)

CONNECTING_CODE = replace(
    CODE,
    name="connecting_code",
    summary="Runs a function of a published Python source that connects to hosts outside.",
    config=ConnectingCodeConfig,
    deterministic=False,
    effect=Effect.READS_OUTSIDE,
)


class _KeptValueFates(FieldFates):
    """The fates of what code keeps: another key drops it, and only its own function adapts it."""

    def __call__(self, old: Config, new: Config) -> StateFate | None:
        fate = super().__call__(old, new)
        if not isinstance(old, StatefulCodeConfig) or not isinstance(new, StatefulCodeConfig):
            return None
        if any(old.input.needed[name] is not new.input.needed.get(name) for name in old.by):
            return None
        return None if fate is StateFate.TRANSFORMED and not new.migrate else fate


STATEFUL_CODE = TaskType(
    name="stateful_code",
    summary="Runs a function of a published Python source on every event, with what it keeps under the event's key.",
    config=StatefulCodeConfig,
    sets=CODE.sets,
    output_schema=_given,
    reads=_reads,
    selectivity=CODE.selectivity,
    normalise=_sorted,
    state=State.KEY,
    key_fields=key_of,
    state_change=_KeptValueFates(
        digest=StateFate.TRANSFORMED,
        entry=StateFate.TRANSFORMED,
        config=StateFate.TRANSFORMED,
        **dict.fromkeys(("input", "output", "wheels", "most_keys", "most_bytes", "migrate"), StateFate.KEPT),
    ),
)

CODE_TYPES = (CODE, CONNECTING_CODE, STATEFUL_CODE)
