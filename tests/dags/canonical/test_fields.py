"""Schemas derived from the sources down, the fields that tasks read, and ports that depend on configs."""

from typing import Any

import pytest

from dags import (
    ANY,
    NUMBER,
    Catalogue,
    Config,
    Kind,
    NamesSource,
    Ports,
    Problem,
    Read,
    Schema,
    Schemas,
    Source,
    State,
    TaskType,
    Unsuitable,
)
from dags.canonical.streams import MOST_FIELDS
from dags.task_type import LONGEST_PORT, MOST_PORTS
from tests.catalogue import SCHEMA, SOURCES, NoConfig
from tests.dags.refusal import canonicalise, catalogue_with, codes, problem, problems
from tests.notation import document, flow


class FieldConfig(Config):
    field: str = "value"


class FieldsConfig(Config):
    fields: tuple[str, ...] = ()


def adds(config: FieldConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].plus(config.field, Kind.FLOAT)}


def drops(config: FieldConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].without(config.field)}


def reads_any(config: FieldsConfig) -> tuple[Read, ...]:
    return tuple(Read(at=f"fields/{i}", field=field) for i, field in enumerate(config.fields))


CATALOGUE = catalogue_with(
    TaskType(name="add", config=FieldConfig, output_schema=adds),
    TaskType(name="drop", config=FieldConfig, output_schema=drops),
    TaskType(name="need", config=FieldsConfig, outputs=(), reads=reads_any),
    TaskType(name="number", config=FieldConfig, reads=lambda c: (Read(at="field", field=c.field, kinds=NUMBER),)),
    TaskType(
        name="text",
        config=FieldConfig,
        reads=lambda c: (Read(at="field", field=c.field, kinds=frozenset({Kind.STRING, Kind.JSON})),),
    ),
    TaskType(
        name="both",
        config=NoConfig,
        inputs=("left", "right"),
        reads=lambda _: (Read(at="", field="value", port="left"), Read(at="", field="place", port="right")),
        output_schema=lambda _, inputs: {"out": inputs["right"]},
    ),
    TaskType(name="keyed", config=FieldsConfig, state=State.KEY, key_fields=lambda c: c.fields),
    TaskType(
        name="keyed2",
        config=FieldsConfig,
        inputs=("left", "right"),
        output_schema=lambda _, inputs: {"out": inputs["left"]},
        reads=lambda c: tuple(Read(at=f"fields/{i}", field=field, port="left") for i, field in enumerate(c.fields)),
        state=State.KEY,
        key_fields=lambda c: c.fields,
    ),
    TaskType(name="stateless", config=FieldsConfig, key_fields=lambda c: c.fields),
)


def field_problems(text: str, **more: Any) -> list[Problem]:
    return problems(document(text), catalogue=CATALOGUE, **more)


def unknown(pointer: str, field: str, port: str, remedy: str) -> Problem:
    message = f"the events that reach port '{port}' have no field '{field}'"
    return problem(pointer, "unknown-field-upstream", message, remedy)


def wrong_kind(pointer: str, field: str, kind: str, remedy: str, port: str = "in") -> Problem:
    message = f"the field '{field}' is of kind {kind} at port '{port}'"
    return problem(pointer, "wrong-kind-upstream", message, remedy)


def test_a_missing_field_suggests_the_most_similar() -> None:
    """At its place in the config. Without a similar one, all are listed."""
    assert [unknown("/tasks/1/config/field", "vallue", "in", "did you mean 'value'?")] == field_problems(
        "s:source > a:number{'field': 'vallue'} > k:sink"
    )
    assert [unknown("/tasks/1/config/field", "zzz", "in", "they have 'place', 'value'")] == field_problems(
        "s:source > a:number{'field': 'zzz'} > k:sink"
    )
    assert [
        unknown("/tasks/1/config/fields/0", "zzz", "in", "they have 'place', 'value'"),
        unknown("/tasks/1/config/fields/2", "values", "in", "did you mean 'value'?"),
    ] == field_problems("s:source > a:need{'fields': ['zzz', 'value', 'values']}")


def test_a_field_of_another_kind_lists_the_allowed_kinds() -> None:
    """A number may be an integer or a float."""
    assert [
        wrong_kind("/tasks/1/config/field", "place", "string", "choose a field of kind float or integer")
    ] == field_problems("s:source > a:number{'field': 'place'} > k:sink")
    assert [
        wrong_kind("/tasks/1/config/field", "value", "integer", "choose a field of kind json or string")
    ] == field_problems("s:source > a:text > k:sink")


def test_a_field_named_by_the_type_is_a_problem_of_the_task() -> None:
    """It has no place in the config."""
    words = Source(name="words", owner="ann", schema=Schema.of(value=Kind.STRING))
    written = "s:source{'source': 'words'} > a:map > k:sink"
    remedy = "choose a field of kind float or integer"
    assert [wrong_kind("/tasks/1", "value", "string", remedy)] == field_problems(written, sources={"words": words})
    empty = Source(name="words", owner="ann", schema=Schema.of())
    assert [unknown("/tasks/1", "value", "in", "they have none")] == field_problems(written, sources={"words": empty})


def test_schemas_follow_what_tasks_do() -> None:
    """A field that a task adds, drops or changes is different downstream."""
    canonicalise(document("s:source > a:add{'field': 'x'} > b:number{'field': 'x'} > k:sink"), catalogue=CATALOGUE)
    assert [unknown("/tasks/2/config/field", "value", "in", "they have 'place'")] == field_problems(
        "s:source > a:drop > b:number > k:sink"
    )
    assert [
        wrong_kind("/tasks/2/config/field", "place", "float", "choose a field of kind json or string")
    ] == field_problems("s:source > a:add{'field': 'place'} > b:text{'field': 'place'} > k:sink")


def test_where_streams_meet_only_what_they_share_is_there() -> None:
    """A field that one of them lacks, or has as another kind, is missing."""
    drop = "s:source > a:map > m:number > k:sink s > b:drop > m"
    assert [unknown("/tasks/2/config/field", "value", "in", "they have 'place'")] == field_problems(drop)
    scale = "s:source > a:map > m:number > k:sink s > b:scale > m"
    assert [unknown("/tasks/2/config/field", "value", "in", "they have 'place'")] == field_problems(scale)
    canonicalise(document("s:source > a:scale > m:number > k:sink s > b:scale{'factor': 2} > m"), catalogue=CATALOGUE)


def test_each_port_has_a_schema_of_its_own() -> None:
    """A field that a task reads at one port may be missing at another."""
    well = "s:source > a:drop{'field': 'place'} > j:both.left > k:sink s > b:drop > j.right"
    canonicalise(document(well), catalogue=CATALOGUE)
    swapped = "s:source > a:drop{'field': 'place'} > j:both.right > k:sink s > b:drop > j.left"
    assert [
        unknown("/tasks/2", "value", "left", "they have 'place'"),
        unknown("/tasks/2", "place", "right", "they have 'value'"),
    ] == field_problems(swapped)
    below = well.replace("k:sink", "n:number > k:sink")
    assert [unknown("/tasks/3/config/field", "value", "in", "they have 'place'")] == field_problems(below)


def test_key_fields_have_to_be_there_at_every_port() -> None:
    """At the task, unless the type reads them by name. Without state per key they do not count."""
    assert [unknown("/tasks/1", "x", "in", "they have 'place', 'value'")] == field_problems(
        "s:source > a:keyed{'fields': ['place', 'x']} > k:sink"
    )
    assert [
        unknown("/tasks/1", "x", "right", "they have 'place', 'value'"),
        unknown("/tasks/1/config/fields/0", "x", "left", "they have 'place', 'value'"),
    ] == field_problems("s:source > a:keyed2{'fields': ['x']}.left > k:sink s > a.right")
    canonicalise(document("s:source > a:stateless{'fields': ['x']} > k:sink"), catalogue=CATALOGUE)


def test_a_task_with_problems_hides_those_further_down() -> None:
    """Its output is unknown. Tasks beside it are checked."""
    assert [
        unknown("/tasks/1/config/field", "x", "in", "they have 'place', 'value'"),
        unknown("/tasks/4/config/field", "z", "in", "they have 'place', 'value'"),
    ] == field_problems(
        "s:source > a:number{'field': 'x'} > b:number{'field': 'y'} > k:sink s > c:number{'field': 'z'} > k"
    )
    assert [("/tasks/1/config/field", "wrong-type")] == codes(
        document("s:source > a:add{'field': 1} > b:number{'field': 'y'} > k:sink"), catalogue=CATALOGUE
    )
    assert [("/tasks/0/config/source", "unknown-source")] == codes(
        document("s:source{'source': 'x'} > b:number{'field': 'y'} > k:sink"), catalogue=CATALOGUE
    )


def test_a_task_that_cannot_be_followed_hides_none_beside_it() -> None:
    """An unknown type, a task below one with problems, and an unfed port. Other branches are checked."""
    unlike = "s > c:map > d:map > e:number{'field': 'z'} > k"
    place = "/tasks/{}/config/field"
    for text, first in (
        ("s:source > a:mapp > k:sink", ("/tasks/1/type", "unknown-type")),
        ("s:source > a:number{'field': 'x'} > b:map > k:sink", (place.format(1), "unknown-field-upstream")),
        ("s:source > a:both.left > k:sink", ("/tasks/1", "unfed-port")),
    ):
        written = document(f"{text} {unlike}")
        last = len(written["tasks"]) - 1
        assert [first, (place.format(last), "unknown-field-upstream")] == codes(written, catalogue=CATALOGUE)


def test_every_source_is_followed() -> None:
    """Each has its own schema."""
    other = Source(name="other", owner="ann", schema=Schema.of(x=Kind.FLOAT))
    text = "s:source > a:number{'field': 'x'} > k:sink t:source{'source': 'other'} > b:number > k"
    assert [
        unknown("/tasks/1/config/field", "x", "in", "they have 'place', 'value'"),
        unknown("/tasks/4/config/field", "value", "in", "they have 'x'"),
    ] == field_problems(text, sources={**SOURCES, "other": other})


def test_fields_are_reported_with_dead_ends_and_wrong_streams() -> None:
    """As far as the schemas are known."""
    written = document("s:source > a:number{'field': 'x'} > k:sink s > b:number{'field': 'y'}")
    assert [
        ("/tasks/1/config/field", "unknown-field-upstream"),
        ("/tasks/3", "fruitless-task"),
        ("/tasks/3/config/field", "unknown-field-upstream"),
    ] == codes(written, catalogue=CATALOGUE)
    written["streams"].append({"from": "s", "to": "x"})
    assert [
        ("/tasks/1/config/field", "unknown-field-upstream"),
        ("/tasks/3/config/field", "unknown-field-upstream"),
        ("/streams/3/to", "unknown-task"),
    ] == codes(written, catalogue=CATALOGUE)


def test_a_task_is_checked_only_if_all_ports_are_fed() -> None:
    """An unfed port is the first problem to solve."""
    assert [("/tasks/1", "unfed-port")] == codes(document("s:source > j:both.left > k:sink"), catalogue=CATALOGUE)


def test_fields_are_compared_as_they_are_written() -> None:
    """Composed and decomposed letters are different fields."""
    letters = Source(name="letters", owner="ann", schema=Schema.of({"\u00e9": Kind.FLOAT}))
    written = document("s:source{'source': 'letters'} > n:number > k:sink")
    written["tasks"][1]["config"] = {"field": "\u00e9"}
    canonicalise(written, catalogue=CATALOGUE, sources={"letters": letters})
    written["tasks"][1]["config"] = {"field": "e\u0301"}
    [found] = problems(written, catalogue=CATALOGUE, sources={"letters": letters})
    assert "unknown-field-upstream" == found.code


def test_a_stream_has_a_maximum_of_fields() -> None:
    """Two hundred and fifty. The first task beyond it is reported, and none after it."""
    wide = {name: Schema.of({f"f{i}": Kind.FLOAT for i in range(size)}) for name, size in (("a", 248), ("b", 249))}
    sources = {name: Source(name=name, owner="ann", schema=schema) for name, schema in wide.items()}
    chain = "> x:add{'field': 'x'} > y:add{'field': 'y'} > k:sink"
    canonicalise(document("s:source{'source': 'a'} " + chain), catalogue=CATALOGUE, sources=sources)
    message = "the events that leave this task have 251 fields"
    assert [problem("/tasks/2", "too-many-fields", message, "have at most 250")] == field_problems(
        "s:source{'source': 'b'} " + chain.replace("> k", "> z:add{'field': 'z'} > k"), sources=sources
    )
    assert 250 == MOST_FIELDS


def test_checks_of_fields_stop_after_a_thousand_problems() -> None:
    """Of one task, or of many."""
    many = {"fields": [f"x{i}" for i in range(1_500)]}
    written = document("s:source > k:need")
    written["tasks"][1]["config"] = many
    expected = [f"/tasks/1/config/fields/{i}" for i in range(1_000)]
    assert expected == [problem.pointer for problem in problems(written, catalogue=CATALOGUE)]
    written["tasks"].append({"id": "l", "type": "need", "config": many})
    written["streams"].append({"from": "s", "to": "l"})
    assert expected == [problem.pointer for problem in problems(written, catalogue=CATALOGUE)]
    few = {"fields": [f"x{i}" for i in range(400)]}
    written["tasks"][1:] = [{"id": f"k{i}", "type": "need", "config": few} for i in range(5)]
    written["streams"] = [{"from": "s", "to": f"k{i}"} for i in range(5)]
    assert 1_200 == len(problems(written, catalogue=CATALOGUE))


@pytest.mark.parametrize("kind", list(Kind))
def test_a_read_without_kinds_takes_any(kind: Kind) -> None:
    """Every kind there is."""
    assert kind in ANY
    source = Source(name="x", owner="ann", schema=Schema.of(value=kind))
    written = document("s:source{'source': 'x'} > k:need{'fields': ['value']}")
    canonicalise(written, catalogue=CATALOGUE, sources={"x": source})
    is_number = kind in {Kind.INTEGER, Kind.FLOAT}
    assert is_number == (kind in NUMBER)


def test_the_source_has_the_schema_that_was_registered_at_every_port() -> None:
    """Even if a source type has several ports."""
    twin = TaskType(name="twin", config=NamesSource, inputs=(), outputs=("a", "b"))
    catalogue = Catalogue.of([*CATALOGUE.types.values(), twin])
    written = document("s:twin{'source': 'weather'} s.a > k:need{'fields': ['x']} s.b > l:need{'fields': ['y']}")
    assert [
        ("/tasks/1/config/fields/0", "unknown-field-upstream"),
        ("/tasks/2/config/fields/0", "unknown-field-upstream"),
    ] == codes(written, catalogue=catalogue)


def test_a_task_knows_which_of_its_fields_are_json() -> None:
    """At each port, those that all its streams have, from the source or from a task, for sinks too."""
    nest = TaskType(
        name="nest", config=FieldConfig, output_schema=lambda c, i: {"out": i["in"].plus(c.field, Kind.JSON)}
    )
    raw = Source(name="raw", owner="ann", schema=Schema.of(place=Kind.JSON, value=Kind.INTEGER))
    flow = canonicalise(
        document(
            "r:source{'source': 'raw'} > n:nest > k:sink r > b:both.left n > b.right b > l:sink r > m:sink "
            "r > d:drop{'field': 'place'} > o:sink"
        ),
        catalogue=Catalogue.of([*CATALOGUE.types.values(), nest]),
        sources={"raw": raw},
    )
    found = {name: [tuple(each) for each in flow.tasks[place].json_fields] for name, place in flow.places.items()}
    assert {
        "r": [],
        "n": [("in", "place")],
        "k": [("in", "place"), ("in", "value")],
        "b": [("left", "place"), ("right", "place"), ("right", "value")],
        "l": [("in", "place"), ("in", "value")],
        "m": [("in", "place")],
        "d": [("in", "place")],
        "o": [],
    } == found


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
WITH_TOOLS = catalogue_with(
    TOOL, TaskType(name="need", config=ToolConfig, outputs=(), reads=lambda c: (Read(at="field", field=c.field),))
)


def tools(text: str) -> list[Any]:
    return [(each.code, each.pointer) for each in problems(document(text), catalogue=WITH_TOOLS)]


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
    assert [expected] == problems(written, catalogue=WITH_TOOLS)


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
    assert [problem("/tasks/1", "task-type-failed", text, RAN)] == problems(written, catalogue=WITH_TOOLS)


def test_a_type_may_say_why_a_config_has_no_ports() -> None:
    """At the place in the config that it names."""
    written = document("s:source > t:tool > k:sink")
    written["tasks"][1]["config"] = {"takes": ["stdin"]}
    expected = problem("/tasks/1/config/takes/0", "wrong-value", "a tool has no port 'stdin'", "name another")
    assert [expected] == problems(written, catalogue=WITH_TOOLS)


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
    return canonicalise(document(text), catalogue=WITH_TOOLS)
