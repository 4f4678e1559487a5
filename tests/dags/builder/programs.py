"""Programs to test the builder with: those of the golden documents, and random ones."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from hypothesis import strategies as st

from dags import Dataflow, Kind, Schema, Source, canonicalise
from dags.builder import (
    BuiltStream,
    OtherOutput,
    Program,
    alternate,
    clock,
    event,
    field,
    metric,
    rule,
    sequence,
    value_of,
)
from engine import installed_catalogue
from engine.tasks.filters import WHERE, WhereConfig

SCHEMA = Schema.of(room=Kind.STRING, at=Kind.TIMESTAMP, t=Kind.FLOAT, h=Kind.FLOAT)
SOURCES = {name: Source(name=name, owner="ann", schema=SCHEMA) for name in ("north", "south")}
CATALOGUE = installed_catalogue()


def canonical(raw: bytes | str) -> Dataflow:
    return canonicalise(raw, dataflow="d", tenant="ann", catalogue=CATALOGUE, sources=SOURCES)


def plain() -> Program:
    program = Program("awesome streets")
    north, south = program.stream("north"), program.stream("south")
    warm = north.merge(south).process(WHERE, WhereConfig(expression="t > 20"), name="warm")
    fahrenheit = warm.project("room", "at", computed={"f": "t * 9 / 5 + 32"})
    fahrenheit.window(10).group_by("room").mean("f").output("averages")
    summary = north.window(time="at", seconds=60, lateness=0.5).summary("t")
    summary.output()
    summary.port("late").output()
    room, rest = north.split("room = 'a'")
    model = room.window(300).process("linear_regression_train", {"target": "t", "fields": ["h"]})
    predicted = rest.process("linear_regression_predict", {"fields": ["h"]}, ports={"model": model}, fresh=True)
    predicted.sink("null_sink")
    return program


def joined() -> Program:
    program = Program("differences")
    north, south = program.stream("north"), program.stream("south")
    warm = south.project("room", "at", computed={"warm": "t"})
    north.window(time="at", seconds=30).group_by("room").join("t", (warm, "warm")).output("both")
    return program


def dynamic() -> Program:
    program = Program("demand response")
    north = program.stream("north")
    # A guard may speak of its own task, whose stream is there only afterwards.
    rate = metric("rate", at="forecast")
    forecast = north.dynamic(
        alternate(
            "long",
            "kalman_filter",
            {"field": "t"},
            value=1.0,
            cost=900,
            selectivity=1.0,
            when=rate.below(80).until(rate.above(100, seconds=5)),
        ),
        alternate(
            "short",
            "interpolate",
            {"window": 5, "field": "t"},
            value=value_of("errors", "mse", factor=-1.0, plus=1.0, otherwise=0.6),
            cost=40,
        ),
        first="short",
        switch="fast",
        name="forecast",
    )
    calm = event("calm")
    peak = event("peak", field("level").above(3))
    open_ = peak & ~(event("calm", within=60) | metric("rate").above(0.9, seconds=10))
    closed = metric("rate", at=north).above(2) | sequence(
        calm, event("calm", field("sure").equals(value=True)), within=9
    )
    path = forecast.when(open_.until(closed))
    out = path.filter("t > 30", name="detail").output("out")
    peaks = forecast.output("peaks")
    program.policy(
        throughput=0.8,
        tolerance=0.05,
        latency=5.0,
        cores=0.5,
        events={"peak": peaks, "errors": OtherOutput(dataflow="forecast errors", output="errors"), "calm": out},
        rules=[
            rule(
                "night",
                clock("22:00", "06:00", days=["sat", "sun"], zone="Europe/Berlin"),
                {forecast: "short", path: True},
            )
        ],
    )
    return program


GOLDEN: Mapping[str, Callable[[], Program]] = {"plain": plain, "joined": joined, "dynamic": dynamic}

Script = Sequence[tuple[str, int, int]]
"""Steps by their operators, and the streams that they go on from, counted from the first."""


def followed(script: Script, *, named: bool = False, turned: bool = False) -> Program:
    """The program of a script; with a name for each step, or with configs whose keys come the other way round."""
    walk = _Walk(named=named, turned=turned)
    for operator, one, other in script:
        _STEPS[operator](walk, walk.streams[one % len(walk.streams)], other)
    for stream in walk.streams:
        stream.output(walk.name())
    return walk.program


class _Walk:
    """A program while it follows a script."""

    def __init__(self, *, named: bool, turned: bool) -> None:
        self.program = Program("drawn")
        self._named, self._turned, self._numbers = named, turned, count()
        self.streams = [self.program.stream(each, name=self.name()) for each in ("north", "south")]

    def name(self) -> str | None:
        return f"step {next(self._numbers)}" if self._named else None

    def config(self, **given: Any) -> dict[str, Any]:
        return dict(reversed(given.items())) if self._turned else given

    def other(self, number: int) -> BuiltStream:
        return self.streams[number % len(self.streams)]

    def filter(self, stream: BuiltStream, number: int) -> None:
        self.streams.append(stream.filter(f"t > {number}", name=self.name()))

    def project(self, stream: BuiltStream, _number: int) -> None:
        self.streams.append(stream.project("room", "at", "t", computed=self.config(h="t + 1"), name=self.name()))

    def merge(self, stream: BuiltStream, number: int) -> None:
        other = self.other(number)
        if not {each[:2] for each in stream.origins} & {each[:2] for each in other.origins}:
            self.streams.append(stream.merge(other))

    def split(self, stream: BuiltStream, number: int) -> None:
        self.streams += stream.split(f"h > {number}", "room = 'a'")

    def smooth(self, stream: BuiltStream, _number: int) -> None:
        config = self.config(field="t", by=["room"])
        self.streams.append(stream.process("kalman_filter", config, name=self.name()))

    def mean(self, stream: BuiltStream, number: int) -> None:
        found = stream.window(number + 1).group_by("room").mean("t", name=self.name())
        found.output(self.name())

    def collect(self, stream: BuiltStream, number: int) -> None:
        stream.window(number + 1).collect("t", "room", name=self.name()).output(self.name())

    def summary(self, stream: BuiltStream, number: int) -> None:
        found = stream.window(time="at", seconds=number + 1).summary("h", name=self.name())
        found.port("late").output(self.name())

    def join(self, stream: BuiltStream, number: int) -> None:
        renamed = self.other(number).project("room", "at", computed={"other": "h"}, name=self.name())
        window = stream.window(time="at", seconds=9).group_by("room")
        window.join("t", (renamed, "other"), name=self.name()).output(self.name())

    def learn(self, stream: BuiltStream, number: int) -> None:
        config = self.config(fields=["h"], target="t")
        ports = {"model": stream.window(9).process("linear_regression_train", config, name=self.name())}
        predicted = self.other(number).process(
            "linear_regression_predict", {"fields": ["h"]}, ports=ports, name=self.name()
        )
        self.streams.append(predicted)

    def dynamic(self, stream: BuiltStream, number: int) -> None:
        rate = metric("rate")
        best = alternate(
            "best", "kalman_filter", {"field": "t"}, value=1, cost=9, when=rate.below(9).until(rate.above(10))
        )
        other = alternate("other", "interpolate", {"field": "t", "window": 2 + number}, value=0.5, cost=1)
        self.streams.append(stream.dynamic(best, other, name=self.name()))

    def guard(self, stream: BuiltStream, number: int) -> None:
        if all(each.when is None for each in stream.origins):
            self.streams.append(stream.when(metric("rate").above(number + 1)))


_STEPS: Mapping[str, Callable[[_Walk, BuiltStream, int], None]] = {
    "filter": _Walk.filter,
    "merge": _Walk.merge,
    "mean": _Walk.mean,
    "dynamic": _Walk.dynamic,
    "guard": _Walk.guard,
    "project": _Walk.project,
    "split": _Walk.split,
    "smooth": _Walk.smooth,
    "collect": _Walk.collect,
    "summary": _Walk.summary,
    "join": _Walk.join,
    "learn": _Walk.learn,
}
_PLAIN = sorted(_STEPS.keys() - {"dynamic", "guard"})


def _scripts(operators: Sequence[str], most: int) -> st.SearchStrategy[Script]:
    step = st.tuples(st.sampled_from(operators), st.integers(0, 9), st.integers(0, 9))
    return st.lists(step, max_size=most)


SCRIPTS = _scripts(_PLAIN, 8)
DYNAMIC_SCRIPTS = _scripts(("filter", "merge", "mean", "dynamic", "guard"), 5)
