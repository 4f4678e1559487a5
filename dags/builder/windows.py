"""Windows of a document under construction: an aggregate ends each, and makes it a stream again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from dags.builder.fault import BuildError
from dags.builder.operators import quoted_field, quoted_text
from dags.builder.streams import BuiltStream
from dags.config import Config
from dags.task_type import AnyTaskType

_MILLISECONDS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamWindow:
    """Events of a stream that an aggregate takes together, for each key apart; made by `BuiltStream.window`."""

    stream: BuiltStream
    number: int
    step: str
    events: int | None
    time: str | None
    seconds: float
    lateness: float
    by: tuple[str, ...] = ()

    def group_by(self, *fields: str) -> "StreamWindow":
        """The same window for each value of some fields."""
        if self.by or not fields:
            raise BuildError(self.step, "it is grouped twice, or by nothing", "name all fields in one group_by")
        return replace(self, by=fields)

    def mean(self, field: str, *, name: str | None = None) -> BuiltStream:
        """The mean of a field over every so many events."""
        return self.process("block_window_average", {"field": field, **self._of_events("mean", "summary")}, name=name)

    def collect(self, *fields: str, name: str | None = None) -> BuiltStream:
        """The values of fields over every so many events, each field as one JSON array."""
        return self.process("accumulate", {"fields": list(fields), **self._of_events("collect", "summary")}, name=name)

    def summary(self, field: str, *, name: str | None = None) -> BuiltStream:
        """Count, sum, mean, minimum and maximum of a field; late events leave at the port `late`."""
        self._of_time("summary", "mean")
        return self.process("tumbling_window", {"field": field}, name=name).port("out")

    def join(self, value: str, *others: tuple[BuiltStream, str], name: str | None = None) -> BuiltStream:
        """One event for each key, with a value from this stream and one from each other, once all have arrived.

        The window is the time to wait. All streams have the fields of the key and the time, and their values one kind.
        """
        self._of_time("join", "collect")
        if not self.by or not others:
            raise BuildError(self.step, "join lacks a key or other streams", "call group_by first, and name streams")
        values = [value, *(each for _, each in others)]
        if len(set(values)) < len(values):
            raise BuildError(self.step, f"join has two values of one name in {values}", "rename one with project")
        keep = (*self.by, *([] if self.time in self.by or self.time is None else [self.time]))
        first, *rest = (_measurement(each, keep, of) for each, of in [(self.stream, value), *others])
        config = {
            "by": list(self.by),
            "expected": len(values),
            "observed": values,
            "time": self.time,
            "expiry_ms": round(self.seconds * _MILLISECONDS),
        }
        self._end()
        return first.merge(*rest).process("join_by_id", config, name=name).port("out")

    def process(
        self,
        type: AnyTaskType | str,  # noqa: A002 - what documents call it
        config: Mapping[str, object] | Config | None = None,
        *,
        ports: Mapping[str, BuiltStream] | None = None,
        name: str | None = None,
    ) -> BuiltStream:
        """A task of any type that takes a window's size and key under the names that the library gives them."""
        given: dict[str, object] = (
            config.model_dump(mode="json", by_alias=True, exclude_unset=True)
            if isinstance(config, Config)
            else dict(config or {})
        )
        made = self.stream.process(type, self._settings() | given, ports=ports, name=name)
        self._end()
        return made

    def _settings(self) -> dict[str, Any]:
        key: dict[str, Any] = {"by": list(self.by)} if self.by else {}
        if self.events is not None:
            return {"window": self.events, **key}
        late = {"lateness_ms": round(self.lateness * _MILLISECONDS)} if self.lateness else {}
        return {"time": self.time, "size_ms": round(self.seconds * _MILLISECONDS), **late, **key}

    def _of_events(self, operator: str, other: str) -> dict[str, Any]:
        if self.events is None:
            raise BuildError(self.step, f"{operator} takes a window of events", f"give events, or use {other}")
        return {}

    def _of_time(self, operator: str, other: str) -> None:
        if self.events is not None:
            raise BuildError(self.step, f"{operator} takes a window of time", f"give time and seconds, or use {other}")

    def _end(self) -> None:
        self.stream.draft.windows.pop(self.number, None)

    if not TYPE_CHECKING:  # so that a type checker still refuses what a window has not

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse the operators of streams with the remedy."""
            if name.startswith("__"):
                raise AttributeError(name)
            raise BuildError(self.step, f"a window has no {name!r}", "end it with an aggregate first")


def _measurement(stream: BuiltStream, keep: Sequence[str], value: str) -> BuiltStream:
    """One value of each event in the form in which `join_by_id` takes it: under `field` and `value`."""
    return stream.project(*keep, computed={"field": quoted_text(value), "value": quoted_field(value)})
