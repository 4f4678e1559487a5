"""Streams and windows of a document under construction, with the operators that go on from each.

An aggregate ends a window, and makes it a stream again. Operators write expressions of the type `where` into configs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from dags.builder.alternates import BuiltAlternate
from dags.builder.conditions import BuildError, BuiltCondition, BuiltGuard, guard, known_among, present
from dags.builder.draft import BuiltEntrance, BuiltTask, Origin, ProgramDraft, stem_of, type_and_config, written
from dags.config import Config
from dags.task_type import AnyTaskType


def quoted_field(name: str) -> str:
    """A field in an expression.

    >>> quoted_field("at noon")
    '"at noon"'
    """
    return '"{}"'.format(name.replace('"', '""'))


def quoted_text(text: str) -> str:
    """A text in an expression.

    >>> quoted_text("it's")
    "'it''s'"
    """
    return "'{}'".format(text.replace("'", "''"))


def routes(expressions: Sequence[str]) -> Iterator[str]:
    """Conditions of which exactly one is true: the first true expression, or the last for the rest.

    An expression that is null is not true.

    >>> list(routes(["t > 30"]))
    ['(t > 30)', '((t > 30) is null or not (t > 30))']
    """
    before: list[str] = []
    for expression in expressions:
        yield " and ".join([*before, f"({expression})"])
        before.append(f"(({expression}) is null or not ({expression}))")
    yield " and ".join(before)


_FEWEST_ALTERNATES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltOutput:
    """A sink of a document under construction; made by `BuiltStream.output`."""

    draft: ProgramDraft
    task: int
    """The number of its task."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BuiltStream:
    """A stream of a document under construction; made by `Program.stream` and by its own operators.

    Any number of steps may go on from it, and each gets all events.
    """

    draft: ProgramDraft
    origins: tuple[Origin, ...]

    @property
    def task(self) -> int:
        """The number of the task that it leaves."""
        if len(self.origins) > 1:
            step = self.draft.step("merge")
            raise BuildError(step, "a merged stream is of several tasks", "name a stream that one task emits")
        return self.origins[0].task

    def filter(self, expression: str, *, name: str | None = None) -> "BuiltStream":
        """The events for which an expression is true."""
        return self._then("filter", "where", {"expression": expression}, name=name)

    def project(
        self, *fields: str, computed: Mapping[str, str] | None = None, name: str | None = None
    ) -> "BuiltStream":
        """Some of the fields, and others that expressions compute."""
        if not fields and not computed:
            step = self.draft.step("project", name)
            raise BuildError(step, "no field would leave it", "name fields to keep, or expressions to compute")
        config = {"fields": list(fields), **({"computed": dict(computed)} if computed else {})}
        return self._then("project", "project", config, name=name)

    def merge(self, *others: "BuiltStream") -> "BuiltStream":
        """The events of all these streams as they arrive. It needs no task of its own."""
        origins = list(self.origins)
        for other in others:
            for origin in self._known("merge", other).origins:
                if any(known[:2] == origin[:2] for known in origins):
                    step = self.draft.step("merge")
                    raise BuildError(step, "a stream is joined to it twice", "merge each stream once")
                origins.append(origin)
        return replace(self, origins=tuple(origins))

    def split(self, *expressions: str) -> "tuple[BuiltStream, ...]":
        """A stream for each expression, and one for the rest: an event goes where the first true expression is."""
        if not expressions:
            raise BuildError(self.draft.step("split"), "it has no expressions", "give one for each stream but the last")
        return tuple(self._then("split", "where", {"expression": route}) for route in routes(expressions))

    def window(
        self, events: int | None = None, *, time: str | None = None, seconds: float | None = None, lateness: float = 0.0
    ) -> "StreamWindow":
        """A window of so many events, or of so many seconds by a field with the time. An aggregate has to end it."""
        step = self.draft.step("window")
        if (events is None) == (time is None or seconds is None):
            raise BuildError(step, "it is neither of events nor of time", "give events, or time and seconds")
        if (size := seconds if events is None else events) is None or size <= 0:
            raise BuildError(step, f"its size is {size}", "give a size above 0")
        number = next(self.draft.begun)
        self.draft.windows[number] = step
        return StreamWindow(
            stream=self, number=number, step=step, events=events, time=time, seconds=seconds or 0.0, lateness=lateness
        )

    def process(  # noqa: PLR0913 - a task has as many parts
        self,
        type: AnyTaskType | str,  # noqa: A002 - what documents call it
        config: Mapping[str, object] | Config | None = None,
        *,
        ports: "Mapping[str, BuiltStream] | None" = None,
        name: str | None = None,
        fresh: bool = False,
        tags: Iterable[str] = (),
    ) -> "BuiltStream":
        """A task of any type. Streams for further input ports are given by these; this stream enters at `in` then."""
        return self._then("process", type, config or {}, ports=ports or {}, name=name, fresh=fresh, tags=tags)

    def dynamic(
        self,
        *alternates: BuiltAlternate,
        first: str | None = None,
        switch: Literal["consistent", "fast"] | None = None,
        ports: "Mapping[str, BuiltStream] | None" = None,
        name: str | None = None,
    ) -> "BuiltStream":
        """A task with alternates, of which one at a time is active; `first` is so at the beginning."""
        step = self.draft.step("dynamic", name)
        names = [alternate.name for alternate in alternates]
        if len(names) < _FEWEST_ALTERNATES:
            raise BuildError(step, f"it has {len(names)} of the two or more alternates", "add some, or use process")
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            message = f"two alternates are named {repeated[0]!r}"
            raise BuildError(step, message, "give each alternate a name of its own")
        if first is not None:
            known_among(step, "alternate", first, names)
        form: dict[str, Any] = {"alternates": [_alternate_form(step, alternate) for alternate in alternates]}
        form |= present({"first": first, "switch": switch})
        return self._add("dynamic", "dynamic", form, ports=ports or {}, name=name)

    def when(self, condition: BuiltGuard | BuiltCondition) -> "BuiltStream":
        """The same stream by a path that is taken while a guard is open."""
        if any(origin.when is not None for origin in self.origins):
            step = self.draft.step("when")
            raise BuildError(step, "the stream is guarded already", "join both conditions with '&' in one guard")
        return replace(self, origins=tuple(origin._replace(when=guard(condition)) for origin in self.origins))

    def port(self, name: str) -> "BuiltStream":
        """What leaves the same task at another output port."""
        return replace(self, origins=(self.origins[0]._replace(task=self.task, port=name),))

    def output(self, name: str | None = None) -> BuiltOutput:
        """Deliver the stream as an output of the dataflow."""
        return self.sink("output", name=name)

    def sink(
        self,
        type: AnyTaskType | str,  # noqa: A002 - what documents call it
        config: Mapping[str, object] | Config | None = None,
        *,
        name: str | None = None,
    ) -> BuiltOutput:
        """End the stream with a task of a sink type."""
        form = type_and_config(self.draft.step("output", name), type, config or {})
        added = self._add("output", form["type"], form, name=name, is_sink=True)
        return BuiltOutput(draft=self.draft, task=added.task)

    def _then(  # noqa: PLR0913 - a task has as many parts
        self,
        operator: str,
        kind: AnyTaskType | str,
        config: Mapping[str, object] | Config,
        *,
        ports: "Mapping[str, BuiltStream] | None" = None,
        name: str | None = None,
        fresh: bool = False,
        tags: Iterable[str] = (),
    ) -> "BuiltStream":
        form: dict[str, Any] = type_and_config(self.draft.step(operator, name), kind, config)
        form |= {key: given for key, given in (("fresh", fresh), ("tags", sorted(set(tags)))) if given}
        return self._add(operator, form["type"], form, ports=ports, name=name)

    def _add(  # noqa: PLR0913 - likewise
        self,
        operator: str,
        stem: str,
        form: Mapping[str, Any],
        *,
        ports: "Mapping[str, BuiltStream] | None" = None,
        name: str | None = None,
        is_sink: bool = False,
    ) -> "BuiltStream":
        if "in" in (ports or {}):
            step = self.draft.step(operator, name)
            raise BuildError(step, "the stream itself enters at 'in'", "merge the other one, or name another port")
        entering: dict[str | None, BuiltStream] = {"in" if ports else None: self}
        entering |= {port: self._known(operator, stream) for port, stream in (ports or {}).items()}
        task = BuiltTask(
            operator=operator,
            stem=stem_of(stem),
            name=name,
            form=form,
            entrances=tuple(
                BuiltEntrance(origin, port) for port, stream in entering.items() for origin in stream.origins
            ),
            is_sink=is_sink,
        )
        return BuiltStream(draft=self.draft, origins=(Origin(self.draft.add(task), None),))

    def _known(self, operator: str, other: object) -> "BuiltStream":
        step = self.draft.step(operator)
        if not isinstance(other, BuiltStream):
            kind = type(other).__name__
            remedy = "end the window with an aggregate first" if kind == "StreamWindow" else "give a stream"
            raise BuildError(step, f"{kind} is not a stream", remedy)
        if other.draft is not self.draft:
            message = f"it is given a stream of another program, {other.draft.name!r}"
            raise BuildError(step, message, "take streams of this program, or read the other's output as a source")
        return other


def _alternate_form(step: str, given: BuiltAlternate) -> dict[str, Any]:
    made = type_and_config(step, given.type or "", given.config)
    own = {"type": made["type"]} if given.type is not None else {"module": given.module}
    return present({"name": given.name, **own, "config": made.get("config"), **given.form})


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
        self._is_of("mean", "events", "give events, or use summary")
        return self.process("block_window_average", {"field": field}, name=name)

    def collect(self, *fields: str, name: str | None = None) -> BuiltStream:
        """The values of fields over every so many events, each field as one JSON array."""
        self._is_of("collect", "events", "give events, or use summary")
        return self.process("accumulate", {"fields": list(fields)}, name=name)

    def summary(self, field: str, *, name: str | None = None) -> BuiltStream:
        """Count, sum, mean, minimum and maximum of a field; late events leave at the port `late`."""
        self._is_of("summary", "time", "give time and seconds, or use mean")
        return self.process("tumbling_window", {"field": field}, name=name).port("out")

    def join(self, value: str, *others: tuple[BuiltStream, str], name: str | None = None) -> BuiltStream:
        """One event for each key, with a value from this stream and one from each other, once all have arrived.

        The window is the time to wait. All streams have the fields of the key and the time, and their values one kind.
        """
        self._is_of("join", "time", "give time and seconds, or use collect")
        if not self.by or not others:
            raise BuildError(self.step, "join lacks a key or other streams", "call group_by first, and name streams")
        values = [value, *(other for _, other in others)]
        if len(set(values)) < len(values):
            raise BuildError(self.step, f"join has two values of one name in {values}", "rename one with project")
        keep = (*self.by, *([] if self.time in self.by or self.time is None else [self.time]))
        first, *rest = (
            # One value of each event as `join_by_id` takes it.
            stream.project(*keep, computed={"field": quoted_text(name), "value": quoted_field(name)})
            for stream, name in [(self.stream, value), *others]
        )
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
        made = self.stream.process(type, {**self._settings(), **written(config or {})}, ports=ports, name=name)
        self._end()
        return made

    def _settings(self) -> dict[str, Any]:
        key: dict[str, Any] = {"by": list(self.by)} if self.by else {}
        if self.events is not None:
            return {"window": self.events, **key}
        late = {"lateness_ms": round(self.lateness * _MILLISECONDS)} if self.lateness else {}
        return {"time": self.time, "size_ms": round(self.seconds * _MILLISECONDS), **late, **key}

    def _is_of(self, operator: str, what: Literal["events", "time"], remedy: str) -> None:
        if (self.events is None) == (what == "events"):
            raise BuildError(self.step, f"{operator} takes a window of {what}", remedy)

    def _end(self) -> None:
        self.stream.draft.windows.pop(self.number, None)

    if not TYPE_CHECKING:  # so that a type checker still refuses what a window has not

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse the operators of streams with the remedy."""
            if name.startswith("__"):
                raise AttributeError(name)
            raise BuildError(self.step, f"a window has no {name!r}", "end it with an aggregate first")
