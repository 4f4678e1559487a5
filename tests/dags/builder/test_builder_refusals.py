"""What cannot be built is refused at its step, with the remedy."""

from collections.abc import Callable

import pytest

from dags.builder import BuildError, BuiltStream, Program, alternate, event, metric, rule, sequence, value_of

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
