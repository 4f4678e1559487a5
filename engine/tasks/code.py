"""Code: a task that runs Python source which a tenant published."""

import keyword
from dataclasses import replace
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, StringConstraints, model_validator

from dags import Config, Effect, Kind, Read, Schema, Schemas, TaskType
from dags.config import Hosted
from engine.tasks.parse import extended

Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Target = Annotated[str, StringConstraints(pattern=r"^[a-z0-9.\[\]:-]{1,260}:[1-9][0-9]{0,4}$")]
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
    entry: Annotated[str, StringConstraints(max_length=200)]
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
        if not self.entry.isidentifier() or keyword.iskeyword(self.entry):
            raise ValueError(f"{self.entry!r} is not a name of a function; name one that the source defines")
        return self


class ConnectingCodeConfig(CodeConfig):
    """Which source runs, on which fields, for whom, and what it connects to."""

    connects: Annotated[tuple[Target, ...], Field(min_length=1, max_length=_MOST_TARGETS)]
    """The hosts with ports that it may connect to, as far as tasks may at all."""


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

CODE_TYPES = (CODE, CONNECTING_CODE)
