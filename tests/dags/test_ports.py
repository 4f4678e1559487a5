"""Optional ports, ports that depend on the config, and tasks that generate events."""

from typing import Any

import pytest

from dags import Config, Kind, NamesSource, Ports, Read, Schema, Schemas, State, TaskType, Unsuitable
from dags.task_type import LONGEST_PORT, MOST_PORTS
from tests.catalogue import SCHEMA, NoConfig
from tests.dags.refusal import canonicalise, catalogue_with, codes, problem, problems
from tests.notation import document, flow

RAN = "report it to the provider of the type"


class ToolConfig(Config):
    """A tool as some system describes it: its files, by name."""

    takes: tuple[str, ...] = ("in",)
    may: tuple[str, ...] = ()
    gives: tuple[str, ...] = ("out",)
    field: str = "value"


def ports(config: ToolConfig) -> Ports:
    if "stdin" in config.takes:
        raise Unsuitable("a tool has no port 'stdin'", "name another", "takes/0")
    return Ports(inputs=config.takes + config.may, optional=frozenset(config.may), outputs=config.gives)


def schemas(config: ToolConfig, inputs: Schemas) -> Schemas:
    return dict.fromkeys(config.gives, Schema.of(dict.fromkeys(inputs, Kind.FLOAT)))


TOOL = TaskType(
    name="tool",
    config=ToolConfig,
    ports=ports,
    output_schema=schemas,
    reads=lambda c: tuple(Read(at="field", field=c.field, port=port) for port in c.takes + c.may),
)
CATALOGUE = catalogue_with(
    TOOL, TaskType(name="need", config=ToolConfig, outputs=(), reads=lambda c: (Read(at="field", field=c.field),))
)


def tools(text: str) -> list[Any]:
    return [(each.code, each.pointer) for each in problems(document(text), catalogue=CATALOGUE)]


def test_an_optional_port_needs_no_stream_but_counts_with_one() -> None:
    """Tasks with and without a stream there differ. Fields read there are checked only with a stream."""
    without = flow("s:source > p:prefer.in > k:sink")
    fed = flow("s:source > p:prefer.in > k:sink s > p.side")
    assert without.tasks[1].key != fed.tasks[1].key
    assert [("in", 1), ("side", 1)] == [(each.port, each.times) for each in fed.tasks[1].inputs]
    tool = "t:tool{'may': ('side',)}"
    assert flow_of(f"s:source > {tool}.in > k:sink")
    expected = problem(
        "/tasks/1/config/field",
        "unknown-field-upstream",
        "the events that reach port 'side' have no field 'value'",
        "they have 'in'",
    )
    written = document(f"s:source > {tool}.in > k:sink s > n:tool > t.side")
    assert [expected] == problems(written, catalogue=CATALOGUE)


def test_an_optional_port_without_a_stream_needs_no_key() -> None:
    """Because no event can lack one there."""
    keyed = TaskType(
        name="keyed",
        config=NoConfig,
        inputs=("in", "side"),
        optional=frozenset({"side"}),
        state=State.KEY,
        key_fields=lambda _: ("place",),
    )
    assert 3 == len(canonicalise(document("s:source > a:keyed.in > k:sink"), catalogue=catalogue_with(keyed)).tasks)


def test_a_task_needs_a_stream_at_every_required_port() -> None:
    """And at one port at least, even if all are optional."""
    both = "t:tool{'takes': ('a', 'b'), 'may': ('c',)}"
    assert [("unfed-port", "/tasks/1")] == tools(f"s:source > {both}.a > k:sink s > t.c")
    alone = "t:tool{'takes': (), 'may': ('c',)}"
    assert [("unreached-task", "/tasks/2")] == tools(f"s:source > k:sink {alone} > k")


def test_ports_depend_on_the_config_and_are_not_checked_if_it_is_wrong() -> None:
    """Streams are checked against the ports of each task's own config, with its defaults."""
    assert flow_of("s:source > t:tool{'gives': ('a', 'b')}..b > k:sink t.a > l:sink")
    assert [("unknown-port", "/streams/1/from_port")] == tools("s:source > t:tool{'gives': ('a',)}..b > k:sink")
    assert [("missing-port", "/streams/1")] == tools("s:source > t:tool{'gives': ('a', 'b')} > k:sink")
    assert [("wrong-type", "/tasks/1/config/gives")] == tools("s:source > t:tool{'gives': 5}..b > k:sink")
    assert [("sink-with-outputs", "/streams/1/from")] == tools("s:source > t:tool{'gives': ()} > k:sink")


def test_a_config_may_make_a_task_a_sink() -> None:
    """It ends the dataflow like any sink."""
    assert ("t",) == flow_of("s:source > t:tool{'gives': ()}").sinks


def test_tasks_with_equal_configs_have_equal_ports_and_are_one() -> None:
    """The order in which ports are written does not matter."""
    made = flow_of("s:source > t:tool > k:sink s > u:tool{'takes': ('in',), 'gives': ('out',)} > k")
    assert made.places["t"] == made.places["u"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"gives": ["a", "a"]}, "task type 'tool' names a port twice; give each port on a side its own name"),
        ({"takes": [], "gives": []}, "task type 'tool' has no ports; give it inputs or outputs"),
        (
            {"takes": [*map(str, range(MOST_PORTS + 1))]},
            "task type 'tool' has 251 ports on one side; the most allowed are 250",
        ),
        (
            {"gives": ["x" * (LONGEST_PORT + 1)]},
            "task type 'tool' has a port whose name is empty or longer than 200 characters; rename it",
        ),
    ],
)
def test_ports_that_no_task_can_have_are_a_problem_of_the_task(config: dict[str, Any], message: str) -> None:
    """The type should have refused the config."""
    written = document("s:source > t:tool > k:sink")
    written["tasks"][1]["config"] = config
    text = f"the task type 'tool' failed on this task: ValueError: {message}"
    assert [problem("/tasks/1", "task-type-failed", text, RAN)] == problems(written, catalogue=CATALOGUE)


def test_a_type_may_say_why_a_config_has_no_ports() -> None:
    """At the place in the config that it names."""
    written = document("s:source > t:tool > k:sink")
    written["tasks"][1]["config"] = {"takes": ["stdin"]}
    expected = problem("/tasks/1/config/takes/0", "wrong-value", "a tool has no port 'stdin'", "name another")
    assert [expected] == problems(written, catalogue=CATALOGUE)


def test_ports_that_fail_or_are_none_are_the_types_fault() -> None:
    """The rest of the document is still checked."""
    odd = TaskType(name="odd", config=NoConfig, ports=lambda _: ("in", "out"), output_schema=schemas)  # type: ignore[arg-type, return-value]
    broken = TaskType(name="broken", config=NoConfig, ports=lambda _: 1 / 0, output_schema=schemas)  # type: ignore[arg-type, return-value]
    written = document("s:source > a:odd > b:broken > c:map{'ad': 1} > k:sink")
    assert [
        ("/tasks/1", "task-type-failed"),
        ("/tasks/2", "task-type-failed"),
        ("/tasks/3/config/ad", "unknown-field"),
    ] == codes(written, catalogue=catalogue_with(odd, broken))


def test_a_generator_begins_a_dataflow_by_itself() -> None:
    """It has the schema of its type, is shared by its config, and needs no registered source."""
    made = flow("c:clock > m:map > k:sink d:clock{'every': 1} > m e:clock{'every': 2} > l:sink")
    assert (made.places["c"], ()) == (made.places["d"], made.tasks[made.places["c"]].inputs)
    assert made.places["c"] != made.places["e"]
    assert sorted([(made.places["c"],), (made.places["e"],)]) == list(made.parts)
    assert {("c", True), ("m", False)} == {(each, made.tasks[made.places[each]].type.is_generator) for each in "cm"}
    assert [("/streams/0/to", "source-with-inputs")] == codes(document("s:source > c:clock > k:sink"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"outputs": ("a",)}, PASSES := "give it an output_schema for its own ports"),
        ({"outputs": ("out", "late")}, PASSES),
        ({"inputs": ("left", "right")}, PASSES),
        ({"optional": frozenset({"in"})}, PASSES),
        ({"ports": lambda _: Ports()}, "has ports that depend on its config; give it an output_schema"),
        (
            {"inputs": ()},
            "has neither a config field 'source' nor an output_schema; derive its config from NamesSource",
        ),
        ({"optional": frozenset({"side"})}, "calls 'side' optional, which is not one of its input ports"),
        ({"inputs": ("in", "")}, "has a port whose name is empty or longer than 200 characters"),
        ({"outputs": "out"}, "has ports that are not a tuple of texts"),
    ],
)
def test_a_type_whose_ports_cannot_work_is_refused_when_it_is_made(more: dict[str, Any], message: str) -> None:
    """Not when a tenant's document uses it."""
    with pytest.raises(ValueError, match="type 't'") as refused:
        TaskType(name="t", config=NoConfig, **more)
    assert message in str(refused.value)


def test_the_default_schema_passes_on_the_port_in() -> None:
    """More inputs are allowed. Sinks and registered sources do not use it."""
    TaskType(name="t", config=NoConfig, inputs=("in", "side"))
    TaskType(name="t", config=NoConfig, inputs=("a",), outputs=())
    TaskType(name="t", config=NamesSource, inputs=(), outputs=("a", "b"))
    assert {"out": SCHEMA} == TaskType(name="t", config=NoConfig).output_schema(NoConfig(), {"in": SCHEMA})


def flow_of(text: str) -> Any:
    return canonicalise(document(text), catalogue=CATALOGUE)
