"""What programs build passes all checks; what cannot be built is refused at its step, with the remedy."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptation.document_reader import read_dynamic
from dags import Dataflow, Kind, Schema, Source
from dags.builder import (
    BuildError,
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
from dags.builder.streams import routes
from dags.canonical import canonicalise
from engine import installed_catalogue
from engine.tasks.expressions import Node, read, written
from engine.tasks.filters import WHERE, WhereConfig
from tests.tasks.agreeing import few
from tests.tasks.expressions import EVENTS, TRUTHS, computed

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


WRITTEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", GOLDEN)
def test_a_program_builds_the_document_that_is_written_by_hand(name: str) -> None:
    """To the last id, and its text is the same each time."""
    assert GOLDEN[name]().document() == WRITTEN[name]
    assert GOLDEN[name]().text() == GOLDEN[name]().text()
    assert json.loads(GOLDEN[name]().text()) == WRITTEN[name]


@pytest.mark.parametrize("name", ["plain", "joined"])
def test_a_built_document_has_the_signatures_of_one_written_otherwise(name: str) -> None:
    """Ids, and the order of tasks and streams, are the program's own; what is computed is the same."""
    by_hand = json.loads(json.dumps(WRITTEN[name]))
    ids = {task["id"]: f"t{at}" for at, task in enumerate(by_hand["tasks"])}
    for task in by_hand["tasks"]:
        task["id"] = ids[task["id"]]
    for stream in by_hand["streams"]:
        stream |= {"from": ids[stream["from"]], "to": ids[stream["to"]]}
    by_hand["tasks"].reverse()
    by_hand["streams"].reverse()
    one, other = canonical(GOLDEN[name]().text()), canonical(json.dumps(by_hand))
    signatures = {id_: one.tasks[place].key.signature for id_, place in one.places.items()}
    assert signatures == {id_: other.tasks[other.places[ids[id_]]].key.signature for id_ in one.places}


def test_the_dynamic_document_is_read() -> None:
    """With its alternates, guards and policy; all alternates pass the checks of plain documents."""
    found = read_dynamic(GOLDEN["dynamic"]().text(), canonical=canonical)
    assert (["forecast"], ["forecast>detail"]) == (list(found.tasks), list(found.streams))


@few
@given(script=SCRIPTS)
def test_whatever_is_built_passes_all_checks(script: Script) -> None:
    """Equal programs give equal texts, whatever the order of keys; with other names they compute the same."""
    text = followed(script).text()
    assert text == followed(script).text() == followed(script, turned=True).text()
    one, other = canonical(text), canonical(followed(script, named=True).text())
    assert {task.key.signature for task in one.tasks} == {task.key.signature for task in other.tasks}


@few
@given(script=DYNAMIC_SCRIPTS)
def test_whatever_is_built_with_alternates_passes_all_checks(script: Script) -> None:
    """With each alternate."""
    text = followed(script).text()
    assert text == followed(script).text()
    read_dynamic(text, canonical=canonical)


@few
@given(expressions=st.lists(TRUTHS, min_size=1, max_size=3), events=EVENTS)
def test_each_event_takes_one_way_of_a_split(expressions: list[Node], events: list[dict[str, Any]]) -> None:
    """That of the first expression that is true, or the last one; null is not true."""
    ways = [read(each) for each in routes([written(each) for each in expressions])]
    for one in events:
        true = [computed(each, one) is True for each in expressions]
        expected = true.index(True) if True in true else len(expressions)
        assert [at == expected for at in range(len(ways))] == [computed(each, one) is True for each in ways]


def test_a_rule_names_paths_as_the_reader_does() -> None:
    """With their ports where two of them join the same tasks, and all paths of a stream that several steps read."""
    program = Program("paths")
    summary = program.stream("north").window(time="at", seconds=9).summary("t")
    busy = metric("rate").above(9)
    early, late = summary.when(busy), summary.port("late").when(busy)
    early.merge(late).output("both")
    early.output("again")
    program.policy(rules=[rule("open", metric("rate").above(20), {early: True}), rule("shut", busy, {late: False})])
    found = read_dynamic(program.text(), canonical=canonical)
    names = ["tumbling_window.out>both.in", "tumbling_window.late>both.in", "tumbling_window>again"]
    assert names == list(found.streams)
    assert [{names[0]: True, names[2]: True}, {names[1]: False}] == [each.choose for each in found.policy.rules]


BAD = metric("rate").above(1)


def unended(program: Program) -> None:
    stream = program.stream("s")
    stream.window(2)
    stream.output()


def policies(program: Program) -> None:
    program.policy()
    program.policy()


def ruled(program: Program, choice: str | bool) -> None:  # noqa: FBT001 - it is the value
    stream = program.stream("s")
    stream.output()
    program.policy(rules=[rule("r", BAD, {stream: choice})])


def named(program: Program, at: str | BuiltStream) -> None:
    program.stream("s").when(metric("rate", at=at).above(1)).output()


REFUSED: dict[str, tuple[Callable[[Program], object], str]] = {
    "nothing": (lambda _: None, "the program: it has no steps; begin with stream"),
    "repeated name": (
        lambda p: p.stream("s", name="a").filter("x", name="a"),
        "step 2, filter 'a': another task is named 'a'; give each task a name of its own",
    ),
    "no id": (
        lambda p: p.stream("s").filter("x", name="a/b"),
        "step 2, filter 'a/b': 'a/b' cannot be a task's id; give a name of 1 to 128 characters without '/', '+', '#'",
    ),
    "joined twice": (
        lambda p: (s := p.stream("s")).merge(s),
        "step 2, merge: a stream is joined to it twice; merge each stream once",
    ),
    "guarded and joined twice": (
        lambda p: (s := p.stream("s")).merge(s.when(BAD)),
        "step 2, merge: a stream is joined to it twice; merge each stream once",
    ),
    "unknown stream": (
        lambda p: p.stream("s").merge(Program("q").stream("s")),
        (
            "step 2, merge: it is given a stream of another program, 'q'; take streams of this program, or read the "
            "other's output as a source"
        ),
    ),
    "no stream": (
        lambda p: p.stream("s").process("error_estimate", ports={"average": "s"}),  # type: ignore[dict-item] # refused
        "step 2, process: str is not a stream; give a stream",
    ),
    "port of its own": (
        lambda p: (s := p.stream("s")).process("error_estimate", ports={"in": s}),
        "step 2, process: the stream itself enters at 'in'; merge the other one, or name another port",
    ),
    "window as stream": (
        lambda p: p.stream("s").merge(p.stream("r").window(2)),  # type: ignore[arg-type] # refused
        "step 3, merge: StreamWindow is not a stream; end the window with an aggregate first",
    ),
    "window without aggregate": (
        unended,
        (
            "step 2, window: the window has no aggregate; "
            "end it with mean, collect, summary, join or process, or remove it"
        ),
    ),
    "output of a window": (
        lambda p: p.stream("s").window(2).output(),  # type: ignore[attr-defined] # refused
        "step 2, window: a window has no 'output'; end it with an aggregate first",
    ),
    "window of neither": (
        lambda p: p.stream("s").window(time="at"),
        "step 2, window: it is neither of events nor of time; give events, or time and seconds",
    ),
    "window of nothing": (
        lambda p: p.stream("s").window(0),
        "step 2, window: its size is 0; give a size above 0",
    ),
    "mean of a time": (
        lambda p: p.stream("s").window(time="at", seconds=1).mean("t"),
        "step 2, window: mean takes a window of events; give events, or use summary",
    ),
    "summary of events": (
        lambda p: p.stream("s").window(2).summary("t"),
        "step 2, window: summary takes a window of time; give time and seconds, or use mean",
    ),
    "join without key": (
        lambda p: p.stream("s").window(time="at", seconds=1).join("t", (p.stream("r"), "u")),
        "step 2, window: join lacks a key or other streams; call group_by first, and name streams",
    ),
    "join of one name": (
        lambda p: p.stream("s").window(time="at", seconds=1).group_by("k").join("t", (p.stream("r"), "t")),
        "step 2, window: join has two values of one name in ['t', 't']; rename one with project",
    ),
    "grouped twice": (
        lambda p: p.stream("s").window(2).group_by("k").group_by("l"),
        "step 2, window: it is grouped twice, or by nothing; name all fields in one group_by",
    ),
    "empty projection": (
        lambda p: p.stream("s").project(),
        "step 2, project: no field would leave it; name fields to keep, or expressions to compute",
    ),
    "empty split": (
        lambda p: p.stream("s").split(),
        "step 2, split: it has no expressions; give one for each stream but the last",
    ),
    "unread": (
        lambda p: p.stream("s").filter("x"),
        "step 2, filter 'where': nothing reads its stream; end it with output, or remove the step",
    ),
    "no JSON": (
        lambda p: p.stream("s").process("noop", {"a": {1, 2}}),
        (
            "step 2, process: its config is not JSON: Object of type set is not JSON serializable; use texts, numbers, "
            "lists and mappings"
        ),
    ),
    "one alternate": (
        lambda p: p.stream("s").dynamic(alternate("a", "noop", value=1, cost=1)),
        "step 2, dynamic: it has 1 of the two or more alternates; add some, or use process",
    ),
    "repeated alternate": (
        lambda p: p.stream("s").dynamic(*2 * [alternate("a", "noop", value=1, cost=1)]),
        "step 2, dynamic: two alternates are named 'a'; give each alternate a name of its own",
    ),
    "unknown first": (
        lambda p: p.stream("s").dynamic(
            alternate("tree", "noop", value=1, cost=1), alternate("mean", "noop", value=1, cost=1), first="trees"
        ),
        "step 2, dynamic: there is no alternate 'trees'; did you mean 'tree'?",
    ),
    "guarded twice": (
        lambda p: p.stream("s").when(BAD).when(BAD),
        "step 2, when: the stream is guarded already; join both conditions with '&' in one guard",
    ),
    "unknown event": (
        lambda p: p.stream("s").when(event("peek")).output(),
        "step 2, output 'output': there is no event 'peek'; the known ones are none",
    ),
    "event of a value": (
        lambda p: (
            p.stream("s")
            .dynamic(
                alternate("a", "noop", value=value_of("errors", "mse", otherwise=1), cost=1),
                alternate("b", "noop", value=1, cost=1),
            )
            .output()
        ),
        "step 2, dynamic 'dynamic': there is no event 'errors'; the known ones are none",
    ),
    "two policies": (
        policies,
        "the policy: the program has one already; say all of it in one call",
    ),
    "repeated rule": (
        lambda p: p.policy(rules=2 * [rule("r", BAD, {p.stream("s"): True})]),
        "the policy: two rules are named 'r'; give each rule a name of its own",
    ),
    "output of another": (
        lambda p: p.policy(events={"e": Program("q").stream("s").output()}),
        "the policy: the event 'e' is an output of another program; name it as an OtherOutput with its dataflow",
    ),
    "rule for a plain task": (
        lambda p: ruled(p, "a"),
        "the rule 'r': there is no alternate 'a'; the known ones are none",
    ),
    "rule for an open path": (
        lambda p: ruled(p, choice=True),
        "the rule 'r': it opens or closes a stream without a guard; give the stream that 'when' returns",
    ),
    "rule for nothing": (
        lambda _: rule("r", BAD, {}),
        "the rule 'r': it chooses nothing; give the stream of a dynamic task its alternate",
    ),
    "one in sequence": (
        lambda _: sequence(BAD, within=1),
        "a sequence: it has 1 of the two or more that it needs; add conditions",
    ),
    "and": (
        lambda _: BAD and BAD,
        "a condition: it holds or not only at run time; join conditions with '&', '|' and '~'",
    ),
    "unknown metric": (
        lambda _: metric("speed"),  # type: ignore[arg-type] # refused
        (
            "a condition: there is no metric 'speed'; the known ones are 'rate', 'throughput', 'latency', 'backlog', "
            "'load'"
        ),
    ),
    "condition on no task": (
        lambda p: named(p, "t"),
        "a condition: there is no task 't'; the known ones are 's', 'output'",
    ),
    "condition on another program": (
        lambda p: named(p, Program("q").stream("s")),
        "a condition: it names a stream of another program; name a stream of this program",
    ),
    "type and module": (
        lambda _: alternate("a", "noop", module="m@1", value=1, cost=1),
        "the alternate 'a': it needs a type or a module, and not both; give one of the two",
    ),
    "no value": (
        lambda _: alternate("a", "noop", value=0, cost=1),
        "the alternate 'a': its value is 0; give a value above 0",
    ),
    "negative cost": (
        lambda _: alternate("a", "noop", value=1, cost=-1),
        "the alternate 'a': its cost is -1; give a cost of 0 or more",
    ),
}


def built(step: Callable[[Program], object]) -> None:
    program = Program("p")
    step(program)
    program.document()


@pytest.mark.parametrize("case", REFUSED)
def test_a_step_that_cannot_be_built_is_named_with_its_remedy(case: str) -> None:
    """At once if the step itself is wrong, else with the document."""
    step, message = REFUSED[case]
    with pytest.raises(BuildError) as refused:
        built(step)
    assert message == str(refused.value)
