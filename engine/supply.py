"""Supplies: the origins of a stream's events, as a plan names them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from bridge import Rate, Replay, Timer
from dags import Kind, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """Raw events of a schema that are published on a topic."""

    kind: Literal["topic"] = "topic"
    topic: str
    fields: Mapping[str, Kind] = field(default_factory=dict)
    retained: bool = False
    """Whether what the topic retains when it is first read is an event of it too."""

    @property
    def schema(self) -> Schema:
        """The declared fields. All others stay together in one."""
        return Schema.of(self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridged:
    """Events that another job forwards from the port that the ingress stands for."""

    kind: Literal["bridge"] = "bridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """Numbered events at a steady rate."""

    kind: Literal["rate"] = "rate"
    per_second: float

    @property
    def schema(self) -> Schema:
        """The fields of the events."""
        return self.generator.schema

    @property
    def generator(self) -> Rate:
        """The generator that makes the events."""
        return Rate(per_second=self.per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One event at every interval."""

    kind: Literal["timer"] = "timer"
    seconds: float

    @property
    def schema(self) -> Schema:
        """The fields of the events."""
        return self.generator.schema

    @property
    def generator(self) -> Timer:
        """The generator that makes the events."""
        return Timer(seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedFile:
    """The events of a file that the host can read."""

    kind: Literal["replay"] = "replay"
    path: str
    fields: Mapping[str, Kind]
    time_field: str | None = None
    speed: float = 1.0
    per_second: float | None = None
    repeat: bool = False

    @property
    def schema(self) -> Schema:
        """The fields of the events."""
        return self.generator.schema

    @property
    def generator(self) -> Replay:
        """The generator that makes the events."""
        return Replay(
            path=Path(self.path),
            schema=Schema.of(self.fields),
            time_field=self.time_field,
            speed=self.speed,
            per_second=self.per_second,
            repeat=self.repeat,
        )


Supply: TypeAlias = Annotated[Subscribed | Bridged | Rated | Timed | ReplayedFile, Field(discriminator="kind")]
"""Any of them."""


def declaring(supply: Supply, fields: Mapping[str, Kind]) -> Supply:
    """A supply with other declared fields, if they can change: files and generators keep theirs.

    >>> declaring(Timed(seconds=1.0), {})
    Timed(kind='timer', seconds=1.0)
    """
    return replace(supply, fields=dict(fields)) if isinstance(supply, Subscribed) else supply


def are_alike(one: Supply, other: Supply) -> bool:
    """Whether two supplies bring the same events, whatever fields of them each declares."""
    return declaring(one, {}) == declaring(other, {})


_WILD = frozenset("+#\0")


def unfit(supply: Supply) -> str:
    """Why the supply is impossible; empty if it is possible."""
    match supply:
        case Subscribed(topic=topic):
            if not topic or _WILD & set(topic) or topic.startswith(("braid/", "$")):
                return (
                    f"{topic!r} is not a topic for raw events; use one without wildcards that does not begin with "
                    "braid/ or $"
                )
        case Rated() | Timed() | ReplayedFile():
            try:
                supply.generator  # noqa: B018 - raises if it is impossible
            except ValueError as error:
                return str(error)
        case Bridged():
            pass
    return ""
