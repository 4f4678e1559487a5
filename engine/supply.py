"""Supplies: where the events of a stream come from, as a plan says it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from bridge import Rate, Replay, Timer
from dags import Kind, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """Raw events of a schema that somebody publishes on a topic."""

    kind: Literal["topic"] = "topic"
    topic: str
    fields: Mapping[str, Kind] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        """What the events have; other fields stay together in one."""
        return Schema.of(self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridged:
    """What another job forwards of the instance and port that the ingress stands for."""

    kind: Literal["bridge"] = "bridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """Numbered events at an even pace."""

    kind: Literal["rate"] = "rate"
    per_second: float

    @property
    def schema(self) -> Schema:
        """What the events have."""
        return self.generator.schema

    @property
    def generator(self) -> Rate:
        """What makes them."""
        return Rate(per_second=self.per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One event each time that so many seconds have passed."""

    kind: Literal["timer"] = "timer"
    seconds: float

    @property
    def schema(self) -> Schema:
        """What the events have."""
        return self.generator.schema

    @property
    def generator(self) -> Timer:
        """What makes them."""
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
        """What the events have."""
        return self.generator.schema

    @property
    def generator(self) -> Replay:
        """What makes them."""
        return Replay(
            path=Path(self.path),
            schema=Schema.of(self.fields),
            time_field=self.time_field,
            speed=self.speed,
            per_second=self.per_second,
            repeat=self.repeat,
        )


_WILD = frozenset("+#\0")


def unfit(supply: "Supply") -> str:
    """Why nobody could supply it; empty where somebody can."""
    match supply:
        case Subscribed(topic=topic):
            if not topic or _WILD & set(topic) or topic.startswith(("braid/", "$")):
                return f"{topic!r} is no topic of raw events; name one without wildcards, and not below braid/ or $"
        case Rated() | Timed() | ReplayedFile():
            try:
                supply.generator  # noqa: B018 - it says what is wrong with it
            except ValueError as error:
                return str(error)
        case Bridged():
            pass
    return ""


Supply: TypeAlias = Annotated[Subscribed | Bridged | Rated | Timed | ReplayedFile, Field(discriminator="kind")]
