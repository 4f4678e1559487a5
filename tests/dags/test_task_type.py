"""Task types, their catalogues, tags and schemas."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import (
    AnyTaskType,
    Catalogue,
    Config,
    Continuation,
    Effect,
    Emission,
    InvalidDocument,
    Kind,
    Namespace,
    NamesSource,
    Ports,
    Read,
    Schema,
    Secret,
    State,
    TaskType,
    meet,
    passes_on,
)
from dags.task_type import no_keys, reads_nothing
from tests.catalogue import SCHEMA, NoConfig, TagsConfig
from tests.notation import document, flow
from tests.strategies import Document, documents


def test_a_type_is_a_simple_filter_by_default() -> None:
    """One port on each side, no state, no reads, no effect."""
    kind = TaskType(name="t", config=NoConfig)
    assert (1, ("in",), ("out",)) == (kind.version, kind.inputs, kind.outputs)
    assert (State.NONE, Effect.NONE, Emission.AT_MOST_ONE) == (kind.state, kind.effect, kind.emission)
    assert (True, None, frozenset(), None) == (kind.deterministic, kind.unique_by, kind.tags, kind.normalise)
    assert {"out": SCHEMA} == kind.output_schema(NoConfig(), {"in": SCHEMA})
    assert ((), ()) == (kind.reads(NoConfig()), kind.key_fields(NoConfig()))


def test_the_defaults_of_hooks_are_public() -> None:
    """A type may name them."""
    assert {"out": Schema.of()} == passes_on(NoConfig(), {"in": Schema.of()})
    assert ((), ()) == (reads_nothing(NoConfig()), no_keys(NoConfig()))


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ({"inputs": (), "outputs": ()}, "task type 't' has no ports; give it inputs or outputs"),
        ({"inputs": ("a", "a")}, "task type 't' names a port twice; give each port on a side its own name"),
        ({"outputs": ("a", "b", "a")}, "task type 't' names a port twice; give each port on a side its own name"),
        ({"version": 0}, "task type 't' has version 0; versions start at 1"),
        ({"version": -3}, "task type 't' has version -3; versions start at 1"),
        (
            {"version": 3, "keeps_state_of": frozenset({1, 4, 3})},
            (
                "task type 't' keeps the state of version 3, which is not before its version 3; "
                "name earlier versions only"
            ),
        ),
        (
            {"unique_by": lambda _config: ("id",)},
            (
                "task type 't' says that it emits once by some fields, but has no state to remember that it has; "
                "declare the state, or leave out unique_by"
            ),
        ),
        (
            {"gathers": "size"},
            (
                "task type 't' gathers as many events as its config field 'size' says, but its config has no such "
                "field; name a field with a whole number"
            ),
        ),
        (
            {"ports": lambda _config: Ports()},
            (
                "task type 't' has ports that depend on its config; give it an output_schema, which returns the "
                "schema at each of them"
            ),
        ),
        (
            {"inputs": ()},
            (
                "source type 't' has neither a config field 'source' nor an output_schema; derive its config from "
                "NamesSource, or give it an output_schema if it makes its events itself"
            ),
        ),
        *(
            (
                ports,
                (
                    "task type 't' has the default output_schema, which needs the input port 'in', not optional, and "
                    "the output port 'out' alone; give it an output_schema for its own ports"
                ),
            )
            for ports in (
                {"outputs": ("out", "late")},
                {"inputs": ("left",)},
                {"inputs": ("in", "side"), "optional": frozenset({"in"})},
            )
        ),
        (
            {"continues": (Continuation("t"),)},
            "task type 't' continues 't', which is itself or named twice; name each other type once",
        ),
        (
            {"continues": (Continuation("u", same=("b", "a")),)},
            (
                "task type 't' continues 'u' of the same 'a', but its config has no such field; "
                "name fields of both configs"
            ),
        ),
    ],
)
def test_a_type_that_contradicts_itself_is_refused(ports: dict[str, Any], message: str) -> None:
    """With a remedy."""
    with pytest.raises(ValueError, match=r"(task|source) type 't'") as refused:
        TaskType(name="t", config=NoConfig, **ports)
    assert message == str(refused.value)


def test_types_that_do_not_contradict_themselves_are_made() -> None:
    """The same port name on both sides, the first version, and a source that names a source."""
    kind = TaskType(
        name="t", config=NoConfig, inputs=("a",), outputs=("a",), version=1, output_schema=lambda _, i: {"a": i["a"]}
    )
    assert (False, False) == (kind.is_source, kind.is_sink)
    source = TaskType(name="s", config=NamesSource, inputs=())
    assert (True, False) == (source.is_source, source.is_sink)
    sink = TaskType(name="k", config=NoConfig, outputs=())
    assert (False, True) == (sink.is_source, sink.is_sink)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("effect", list(Effect))
def test_only_deterministic_types_without_effect_are_shareable(*, deterministic: bool, effect: Effect) -> None:
    """Both conditions are needed."""
    kind = TaskType(name="t", config=NoConfig, deterministic=deterministic, effect=effect)
    assert (deterministic and effect is Effect.NONE) == kind.shareable


def test_a_type_is_frozen_and_known_by_name() -> None:
    """It cannot be changed, and its parts are given by name."""
    kind = TaskType(name="t", config=NoConfig)
    with pytest.raises(AttributeError):
        kind.version = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        TaskType("t", config=NoConfig)  # type: ignore[call-arg]


def test_a_read_takes_any_kind_at_the_default_port() -> None:
    """By default."""
    read = Read(at="field", field="x")
    assert (6, "in") == (len(read.kinds), read.port)


def test_a_secret_has_an_owner_only_if_one_is_given() -> None:
    """Without one, it is as in the document."""

    class LoginConfig(Config):
        password: Secret

    login = LoginConfig(password=Secret(secret="x"))  # noqa: S106 - the name of a secret is none
    assert {"password": {"secret": "x"}} == login.model_dump()
    assert {"password": {"secret": "x", "owner": "ann"}} == login.model_dump(context={"owner": "ann"})
    assert '{"password":{"secret":"x","owner":"ann"}}' == login.model_dump_json(context={"owner": "ann"})


@pytest.mark.parametrize(
    ("enum", "values"),
    [
        (State, ["none", "key", "stream"]),
        (Effect, ["none", "reads outside", "writes outside"]),
        (Emission, ["at most one", "one per port", "many"]),
    ],
)
def test_words_for_behaviour_are_stable(enum: Any, values: list[str]) -> None:
    """They are written to files and read by programs."""
    assert values == list(enum)


NO_TAGS: frozenset[str] = frozenset()


def tags_of(text: str) -> dict[str, frozenset[str]]:
    """The tags of each task of a line."""
    made = flow(text)
    return {task: made.tasks[place].tags for task, place in made.places.items()}


def test_tags_come_from_type_config_and_document() -> None:
    """A task needs those of its type, those that its config asks for, and those that its document names."""
    found = tags_of("s:source > a:map > b:gpu[big] > c:either[big,fast]{'needs': 'fpga'} > d:either > k:sink[near]")
    assert {
        "s": NO_TAGS,
        "a": NO_TAGS,
        "b": {"gpu", "big"},
        "c": {"gpu", "fpga", "big", "fast"},
        "d": {"gpu"},
        "k": {"near"},
    } == found


def test_equivalent_tasks_need_the_tags_of_all() -> None:
    """Tasks of one document that become one run where the tags of each are offered."""
    found = tags_of("s:source > a:map[gpu] > k:sink s > b:map[big] > l:sink")
    assert {"gpu", "big"} == found["a"] == found["b"]


@given(document=documents(), tags=st.lists(st.sampled_from(["gpu", "big"])))
def test_tags_have_no_effect_on_what_is_computed(document: Document, tags: list[str]) -> None:
    """The keys, texts and streams of a document are the same with whatever tags, so they change nothing in sharing."""
    other = {**document, "tasks": [{**task, "tags": tags} for task in document["tasks"]]}
    one, two = flow(document), flow(other)
    assert [replace(task, tags=NO_TAGS) for task in one.tasks] == [replace(task, tags=NO_TAGS) for task in two.tasks]
    assert one.places == two.places


@pytest.mark.parametrize(
    ("tags", "code", "pointer"),
    [
        ("gpu", "wrong-type", "/tasks/1/tags"),
        ([1], "wrong-type", "/tasks/1/tags/0"),
        (["gpu", ""], "too-short", "/tasks/1/tags/1"),
        (["a b"], "wrong-value", "/tasks/1/tags/0"),
        (["a,b"], "wrong-value", "/tasks/1/tags/0"),
        (["x" * 101], "too-long", "/tasks/1/tags/0"),
        (["x"] * 51, "wrong-value", "/tasks/1/tags"),
    ],
)
def test_unfit_tags_are_refused_in_their_place(tags: Any, code: str, pointer: str) -> None:
    """Tags are texts that a command line can name; anything else is a problem there."""
    written = document("s:source > a:map > k:sink")
    written["tasks"][1]["tags"] = tags
    assert [(pointer, code)] == [(each.pointer, each.code) for each in refused(written)]


def refused(written: Any) -> Any:
    with pytest.raises(InvalidDocument) as error:
        flow(written)
    return error.value.problems


def test_tags_of_a_config_that_are_none_are_the_fault_of_the_type() -> None:
    """A task type whose hook returns something else is reported, and nothing is accepted."""
    broken: Any = ["gpu"]
    kind = TaskType(name="broken", config=TagsConfig, config_tags=lambda _: broken)
    with pytest.raises(TypeError, match="config_tags returned list, not frozenset"):
        kind.of(TagsConfig())


def named(name: str) -> AnyTaskType:
    return TaskType(name=name, config=NoConfig)


def nothing(_name: str) -> AnyTaskType | None:
    return None


A, B = named("a"), named("b")
NAMESPACE = Namespace("n:", lambda name: named(name) if name != "n:none" else None)


def test_types_are_found_by_name() -> None:
    """An unknown name gives None."""
    catalogue = Catalogue.of([A, B])
    assert catalogue.find("a") is A
    assert catalogue.find("b") is B
    assert catalogue.find("c") is None
    assert Catalogue().find("a") is None


def test_a_namespace_is_asked_for_names_with_its_prefix() -> None:
    """It gets the full name, and only if no type has that name."""
    catalogue = Catalogue.of([NAMESPACE, A])
    found = catalogue.find("n:x")
    assert found is not None
    assert "n:x" == found.name
    assert catalogue.find("n:none") is None
    assert catalogue.find("m:x") is None
    assert catalogue.find("n") is None
    assert catalogue.find("a") is A


def test_the_namespace_with_the_prefix_answers_among_several() -> None:
    """The order of namespaces does not matter."""
    other = Namespace("o:", named)
    for entries in ([NAMESPACE, other], [other, NAMESPACE]):
        catalogue = Catalogue.of(entries)
        assert ["n:x", "o:x"] == [found.name for name in ("n:x", "o:x") if (found := catalogue.find(name))]


def test_names_to_suggest_are_sorted_types_then_namespaces() -> None:
    """Namespaces have a star."""
    assert ("a", "b", "n:*", "m:*") == Catalogue.of([NAMESPACE, B, A, Namespace("m:", nothing)]).names()


def test_two_types_of_one_name_are_refused() -> None:
    """Even if they come from different packages."""
    with pytest.raises(ValueError, match="two task types") as refused:
        Catalogue.of([A, B, named("a")])
    assert "two task types are named 'a'; rename one, or install only one of them" == str(refused.value)


@pytest.mark.parametrize(
    ("entries", "prefix", "clash"),
    [
        ([named("n:x"), NAMESPACE], "n:", "n:x"),
        ([NAMESPACE, named("n:x")], "n:", "n:x"),
        ([NAMESPACE, Namespace("n:", nothing)], "n:", "n:"),
        ([NAMESPACE, Namespace("n:m:", nothing)], "n:", "n:m:"),
        ([Namespace("n:m:", nothing), NAMESPACE], "n:", "n:m:"),
        ([A, Namespace("", nothing)], "", "a"),
    ],
)
def test_a_namespace_that_covers_another_entry_is_refused(
    entries: list[AnyTaskType | Namespace], prefix: str, clash: str
) -> None:
    """The other entry is a type in it, the same namespace, or a part of it."""
    with pytest.raises(ValueError, match="also covers") as refused:
        Catalogue.of(entries)
    assert f"namespace '{prefix}' also covers '{clash}'; choose another prefix" == str(refused.value)


def test_entries_with_a_common_beginning_do_not_clash() -> None:
    """A type that is the beginning of a prefix, and namespaces side by side."""
    catalogue = Catalogue.of([named("n"), NAMESPACE, Namespace("n-", nothing)])
    assert ("n", "n:*", "n-*") == catalogue.names()


@pytest.mark.parametrize(("answer", "given"), [(5, "int"), (A, "'a'"), (TaskType, "type")])
def test_a_namespace_that_answers_with_something_else_is_refused(answer: Any, given: str) -> None:
    """It must return the type of the full name, or None."""
    catalogue = Catalogue.of([Namespace("n:", lambda _: answer)])
    with pytest.raises(TypeError) as refused:
        catalogue.find("n:x")
    assert f"the namespace 'n:' returned {given} instead of 'n:x'" == str(refused.value)


AB = Schema.of(a=Kind.FLOAT, b=Kind.STRING)


def test_a_schema_is_made_of_a_mapping_and_names() -> None:
    """Names override the mapping."""
    assert Schema.of({"a": Kind.FLOAT, "b": Kind.STRING}) == AB
    assert Schema.of({"a": Kind.JSON, "b": Kind.STRING}, a=Kind.FLOAT) == AB
    assert () == Schema.of().names()


def test_names_are_sorted() -> None:
    """By code point, in whatever order they were added."""
    assert ("B", "a", "b", "é") == Schema.of({"é": Kind.JSON, "b": Kind.JSON, "a": Kind.JSON, "B": Kind.JSON}).names()


def test_a_field_is_added_changed_or_dropped_in_a_new_schema() -> None:
    """The old schema does not change."""
    assert Schema.of(a=Kind.FLOAT, b=Kind.STRING, c=Kind.JSON) == AB.plus("c", Kind.JSON)
    assert Schema.of(a=Kind.INTEGER, b=Kind.STRING) == AB.plus("a", Kind.INTEGER)
    assert Schema.of(b=Kind.STRING) == AB.without("a")
    assert AB == AB.without("c")
    assert {"a": Kind.FLOAT, "b": Kind.STRING} == dict(AB.fields.items())


def test_a_selection_has_the_fields_that_are_there() -> None:
    """Missing names are ignored, and repeated names count once."""
    assert Schema.of(b=Kind.STRING) == AB.only(["b", "c", "b"])
    assert Schema.of() == AB.only([])


@pytest.mark.parametrize(
    ("schemas", "expected"),
    [
        ([AB], AB),
        ([AB, AB], AB),
        ([AB, Schema.of()], Schema.of()),
        ([AB, Schema.of(b=Kind.STRING, c=Kind.FLOAT)], Schema.of(b=Kind.STRING)),
        ([AB, Schema.of(a=Kind.INTEGER, b=Kind.STRING)], Schema.of(b=Kind.STRING)),
        ([AB, AB.plus("c", Kind.JSON), AB.without("a")], Schema.of(b=Kind.STRING)),
        ([AB, AB, AB.without("b")], Schema.of(a=Kind.FLOAT)),
        ([AB, Schema.of(a=Kind.FLOAT, b=Kind.STRING)], AB),
    ],
)
def test_where_streams_meet_the_shared_fields_are_left(schemas: list[Schema], expected: Schema) -> None:
    """The fields that all streams have with the same kind, in any order of the streams."""
    assert expected == meet(schemas)
    assert expected == meet(iter(schemas[::-1]))


def test_a_schema_that_enters_by_many_streams_is_looked_at_once() -> None:
    """Tasks that pass events on return the same schema object."""
    assert AB is meet([AB] * 1_000)
