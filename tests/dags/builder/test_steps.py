"""What single steps of a program write into the document, and how each names itself where it is refused."""

from collections.abc import Callable
from typing import Any

import pytest

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
from dags.builder.draft import stem_of
from dags.builder.streams import quoted_field, quoted_text, routes
from tests.catalogue import ClockConfig, type_of

BUSY = metric("rate").above(1)


def built(step: Callable[[BuiltStream], object]) -> dict[str, Any]:
    """The document of a program with one source `s`; the stream that a step returns becomes its output."""
    program = Program("p")
    last = step(program.stream("s"))
    if isinstance(last, BuiltStream):
        last.output()
    return program.document()


def added(step: Callable[[BuiltStream], object]) -> list[dict[str, Any]]:
    """The tasks between the source and the output."""
    tasks: list[dict[str, Any]] = built(step)["tasks"]
    return tasks[1:-1]


def streams(step: Callable[[BuiltStream], object]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = built(step)["streams"]
    return found


def test_a_program_without_steps_in_between() -> None:
    """Ids are made of the source and the type, and no part is written that was not given."""
    assert {
        "version": 1,
        "name": "p",
        "tasks": [
            {"id": "s", "type": "source", "config": {"source": "s"}},
            {"id": "output", "type": "output"},
        ],
        "streams": [{"from": "s", "to": "output"}],
    } == built(lambda s: s)


def test_generated_events() -> None:
    """A task without inputs begins a stream, with the config and the name that it is given."""
    program = Program("p")
    program.generate("timer").output()
    program.generate("lab:clock", {"every": 2}, name="tick").output()
    program.generate(type_of("clock", {}), ClockConfig(every=3)).output("end")
    assert [
        {"id": "timer", "type": "timer"},
        {"id": "tick", "type": "lab:clock", "config": {"every": 2}},
        {"id": "clock", "type": "clock", "config": {"every": 3}},
    ] == program.document()["tasks"][::2]


def test_names_of_tasks() -> None:
    """A name given is the id; tasks without one count on from the first that is free, however they were named."""
    program = Program("p")
    source = program.stream("city:a/b", name="out-2")
    for name in (None, "output", None, None):
        source.output(name)
    assert ["out-2", "output-2", "output", "output-3", "output-4"] == [
        task["id"] for task in program.document()["tasks"]
    ]
    assert ["a-b", "task", 100 * "x"] == [stem_of("city:a/b"), stem_of("city:"), stem_of(101 * "x")]


def test_steps_that_write_expressions() -> None:
    """Filters, projections and splits write their expressions into configs."""
    assert [{"id": "warm", "type": "where", "config": {"expression": "t > 1"}}] == added(
        lambda s: s.filter("t > 1", name="warm")
    )
    assert [{"id": "project", "type": "project", "config": {"fields": ["a", "b"]}}] == added(
        lambda s: s.project("a", "b")
    )
    assert [{"id": "f", "type": "project", "config": {"fields": [], "computed": {"c": "t"}}}] == added(
        lambda s: s.project(computed={"c": "t"}, name="f")
    )
    parts = built(lambda s: [part.output() for part in s.split("a", "b")])["tasks"][1:4]
    assert list(routes(["a", "b"])) == [part["config"]["expression"] for part in parts]
    assert [
        "(a)",
        "((a) is null or not (a)) and (b)",
        "((a) is null or not (a)) and ((b) is null or not (b))",
    ] == list(routes(["a", "b"]))
    assert ('"a ""b"""', "'it''s ''it'''") == (quoted_field('a "b"'), quoted_text("it's 'it'"))


def test_a_task_of_any_type() -> None:
    """It has its tags once and sorted, and `fresh` where it is; further streams enter at their ports."""
    program = Program("p")
    north, south = program.stream("n"), program.stream("s")
    made = north.process(
        "lab:join", {"a": 1}, ports={"right": south.port("late")}, name="j", fresh=True, tags=["b", "a", "b"]
    )
    made.port("rest").sink("file_sink", {"path": "x"}, name="end")
    document = program.document()
    assert {
        "id": "j",
        "type": "lab:join",
        "config": {"a": 1},
        "fresh": True,
        "tags": ["a", "b"],
    } == document["tasks"][2]
    assert {"id": "end", "type": "file_sink", "config": {"path": "x"}} == document["tasks"][3]
    assert [
        {"from": "n", "to": "j", "to_port": "in"},
        {"from": "s", "from_port": "late", "to": "j", "to_port": "right"},
        {"from": "j", "from_port": "rest", "to": "end"},
    ] == document["streams"]


def test_what_a_config_says_is_left_as_it_is() -> None:
    """Its `task` and `event` are no task and no domain event of the program."""
    config = {"task": "nobody", "when": {"event": "none"}}
    assert [{"id": "noop", "type": "noop", "config": config}] == added(lambda s: s.process("noop", config))
    dynamic = added(lambda s: s.dynamic(*(alternate(name, "noop", config, value=1, cost=1) for name in "ab")))
    assert [config, config] == [each["config"] for each in dynamic[0]["alternates"]]


def test_windows_of_events() -> None:
    """Their size and key are named as the library's types name them."""
    assert [
        {"id": "m", "type": "block_window_average", "config": {"field": "t", "window": 5}},
    ] == added(lambda s: s.window(5).mean("t", name="m"))
    assert [
        {"id": "c", "type": "accumulate", "config": {"by": ["k"], "fields": ["t", "u"], "window": 5}},
    ] == added(lambda s: s.window(5).group_by("k").collect("t", "u", name="c"))
    assert [{"id": "q", "type": "lab:any", "config": {"by": ["k", "l"], "window": 1}}] == added(
        lambda s: s.window(1).group_by("k", "l").process("lab:any", name="q")
    )


def test_windows_of_time() -> None:
    """Seconds become milliseconds, and lateness is written where there is some."""
    assert [
        {"id": "w", "type": "tumbling_window", "config": {"field": "t", "size_ms": 1500, "time": "at"}},
    ] == added(lambda s: s.window(time="at", seconds=1.5).summary("t", name="w"))
    late = added(lambda s: s.window(time="at", seconds=0.5, lateness=2).group_by("k").summary("t"))
    assert [{"by": ["k"], "field": "t", "lateness_ms": 2000, "size_ms": 500, "time": "at"}] == [
        task["config"] for task in late
    ]
    assert {"from": "tumbling_window", "from_port": "out", "to": "output"} in streams(
        lambda s: s.window(time="at", seconds=1).summary("t")
    )
    assert {"from": "s", "to": "any", "to_port": "side"} in streams(
        lambda s: s.window(time="at", seconds=1).process("lab:any", ports={"side": s})
    )


def test_a_join_takes_one_value_of_each_stream() -> None:
    """Each stream is projected to key, time and value, and what waits has them all."""
    tasks = added(lambda s: s.window(time="at", seconds=2).group_by("k").join("t", (s.filter("x"), "u"), name="j"))
    assert ["where", "project", "project-2", "j"] == [task["id"] for task in tasks]
    assert [
        {"fields": ["k", "at"], "computed": {"field": "'t'", "value": '"t"'}},
        {"fields": ["k", "at"], "computed": {"field": "'u'", "value": '"u"'}},
    ] == [task["config"] for task in tasks[1:3]]
    config = tasks[3]["config"]
    assert {"by": ["k"], "expected": 2, "observed": ["t", "u"], "time": "at", "expiry_ms": 2000} == {
        name: config[name] for name in ("by", "expected", "observed", "time", "expiry_ms")
    }
    # The time may be a part of the key.
    tasks = added(lambda s: s.window(time="at", seconds=2).group_by("at").join("t", (s.filter("x"), "u")))
    assert ["at"] == tasks[1]["config"]["fields"]


def test_alternates() -> None:
    """Each has what it was given, a type or a module, and nothing else."""
    free = alternate("free", "noop", value=0.5, cost=0)
    asked = alternate(
        "asked", module="m@1", config={"a": 1}, value=value_of("e", "f", otherwise=1), cost=2, selectivity=0, when=BUSY
    )
    program = Program("p")
    source = program.stream("s")
    source.dynamic(free, asked, first="asked", switch="fast", ports={"side": source}, name="d").output()
    program.policy(events={"e": OtherOutput(dataflow="q", output="o")})
    document = program.document()
    assert {
        "id": "d",
        "alternates": [
            {"name": "free", "type": "noop", "value": 0.5, "cost": 0},
            {
                "name": "asked",
                "module": "m@1",
                "config": {"a": 1},
                "value": {"event": "e", "field": "f", "factor": 1.0, "plus": 0.0, "otherwise": 1},
                "cost": 2,
                "selectivity": 0,
                "when": {"activate": {"metric": "rate", "above": 1}},
            },
        ],
        "first": "asked",
        "switch": "fast",
    } == document["tasks"][1]
    assert {"events": {"e": {"dataflow": "q", "output": "o"}}} == document["policy"]
    assert {"from": "s", "to": "d", "to_port": "side"} in document["streams"]


def test_a_dynamic_task_says_no_more_than_it_was_given() -> None:
    """Without a first alternate and a way to switch the document has none."""
    (task,) = added(lambda s: s.dynamic(*(alternate(name, "noop", value=1, cost=1) for name in "ab")))
    assert {"id", "alternates"} == task.keys()
    assert "dynamic" == task["id"]


def test_conditions() -> None:
    """Each is written with what it was given; those under one word are one list."""
    assert {"metric": "rate", "above": 1, "for": 5} == metric("rate").above(1, seconds=5).form
    assert {"metric": "load", "task": "t", "below": 2, "for": 3} == metric("load", at="t").below(2, seconds=3).form
    assert {"event": "e", "where": {"field": "f", "below": 3}} == event("e", field("f").below(3)).form
    assert {"event": "e", "where": {"field": "f", "equals": "x"}} == event("e", field("f").equals("x")).form
    assert {"clock": {"from": "22:00", "to": "06:00", "days": ["sat"]}} == clock("22:00", "06:00", days=["sat"]).form
    a, b, c = (event(name) for name in "abc")
    assert {"any": [a.form, b.form, c.form]} == (a | b | c).form
    assert {"all": [{"any": [a.form, b.form]}, c.form]} == ((a | b) & c).form
    assert {"sequence": [a.form, b.form], "within": 9} == sequence(a, b, within=9).form
    assert {"activate": a.form, "deactivate": b.form} == a.until(b).form


def test_a_policy_has_what_it_was_given() -> None:
    """Bounds, events by name, and rules; of a program without one the document has none."""
    program = Program("p")
    stream = program.stream("s").when(event("e"))
    end = stream.output("o")
    program.policy(
        throughput=0.5,
        tolerance=0.1,
        latency=2.0,
        cores=1.0,
        worth=2.5,
        budget=40.0,
        events={"e": end},
        rules=[rule("r", event("e"), {stream: False})],
    )
    assert {
        "throughput": 0.5,
        "tolerance": 0.1,
        "latency": 2.0,
        "cores": 1.0,
        "worth": 2.5,
        "budget": 40.0,
        "events": {"e": {"output": "o"}},
        "rules": [{"name": "r", "activate": {"event": "e"}, "choose": {"s>o": False}}],
    } == program.document()["policy"]
    assert "policy" not in built(lambda s: s)
    assert program.text().startswith('{\n  "version": 1,\n  "name": "p",')


def other() -> BuiltStream:
    return Program("q").stream("s")


def chosen(stream: BuiltStream, choose: dict[object, str | bool]) -> Program:
    program = Program("p")
    program.stream("s").output()
    program.policy(rules=[rule("r", BUSY, choose or {stream: True})])
    return program


REFUSED: dict[str, tuple[Callable[[BuiltStream], object], str]] = {
    "named projection": (
        lambda s: s.project(name="x"),
        "step 2, project 'x': no field would leave it; name fields to keep, or expressions to compute",
    ),
    "named dynamic": (
        lambda s: s.dynamic(name="x"),
        "step 2, dynamic 'x': it has 0 of the two or more alternates; add some, or use process",
    ),
    "named process": (
        lambda s: s.process("noop", ports={"in": s}, name="x"),
        "step 2, process 'x': the stream itself enters at 'in'; merge the other one, or name another port",
    ),
    "named sink": (
        lambda s: s.sink("noop", {"a": {1}}, name="x"),
        (
            "step 2, output 'x': its config is not JSON: Object of type set is not JSON serializable; "
            "use texts, numbers, lists and mappings"
        ),
    ),
    "another program's stream": (
        lambda s: s.process("noop", ports={"side": other()}),
        (
            "step 2, process: it is given a stream of another program, 'q'; take streams of this program, or read "
            "the other's output as a source"
        ),
    ),
    "merged stream": (
        lambda s: s.merge(s.filter("x")).port("late"),
        "step 3, merge: a merged stream is of several tasks; name a stream that one task emits",
    ),
    "window of both": (
        lambda s: s.window(2, time="at", seconds=1),
        "step 2, window: it is neither of events nor of time; give events, or time and seconds",
    ),
    "window without a time": (
        lambda s: s.window(seconds=1),
        "step 2, window: it is neither of events nor of time; give events, or time and seconds",
    ),
    "window of no seconds": (
        lambda s: s.window(time="at", seconds=0.0),
        "step 2, window: its size is 0.0; give a size above 0",
    ),
    "window below nothing": (lambda s: s.window(-1), "step 2, window: its size is -1; give a size above 0"),
    "grouped by nothing": (
        lambda s: s.window(2).group_by(),
        "step 2, window: it is grouped twice, or by nothing; name all fields in one group_by",
    ),
    "collected time": (
        lambda s: s.window(time="at", seconds=1).collect("t"),
        "step 2, window: collect takes a window of events; give events, or use summary",
    ),
    "joined events": (
        lambda s: s.window(2).group_by("k").join("t", (s, "u")),
        "step 2, window: join takes a window of time; give time and seconds, or use collect",
    ),
    "join with nothing": (
        lambda s: s.window(time="at", seconds=1).group_by("k").join("t"),
        "step 2, window: join lacks a key or other streams; call group_by first, and name streams",
    ),
    "neither type nor module": (
        lambda _: alternate("a", value=1, cost=1),
        "the alternate 'a': it needs a type or a module, and not both; give one of the two",
    ),
    "negative value": (
        lambda _: alternate("a", "noop", value=-1, cost=1),
        "the alternate 'a': its value is -1; give a value above 0",
    ),
    "negative selectivity": (
        lambda _: alternate("a", "noop", value=1, cost=1, selectivity=-0.5),
        "the alternate 'a': its selectivity is -0.5; give a selectivity of 0 or more",
    ),
    "rule for no stream": (
        lambda s: chosen(s, {"a": True}).document(),
        "the rule 'r': it chooses for 'a'; give a stream of this program",
    ),
    "rule for an unknown event": (
        lambda _: peeking(),
        "the rule 'r': there is no event 'peek'; did you mean 'peak'?",
    ),
}


def peeking() -> object:
    program = Program("p")
    guarded = program.stream("s").when(BUSY)
    program.policy(events={"peak": guarded.output()}, rules=[rule("r", event("peek"), {guarded: True})])
    return program.document()


@pytest.mark.parametrize("case", REFUSED)
def test_a_step_is_refused_by_its_name(case: str) -> None:
    """The message says at which step, what is wrong there and what helps."""
    step, message = REFUSED[case]
    with pytest.raises(BuildError) as refused:
        step(Program("p").stream("s"))
    assert message == str(refused.value)


def test_a_rule_for_a_stream_of_another_program() -> None:
    """It is refused with the stream in question."""
    with pytest.raises(
        BuildError, match=r"^the rule 'r': it chooses for BuiltStream\(.*; give a stream of this program$"
    ):
        chosen(other(), {}).document()
