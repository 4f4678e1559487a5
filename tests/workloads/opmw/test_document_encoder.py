"""Templates as documents."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dags import Dataflow, canonicalise
from engine import installed_catalogue
from manager.answers.base import SourceName
from workloads.opmw.document_encoder import (
    ITERATIONS,
    Inputs,
    SourcesBy,
    encode,
    events,
    registered,
    source_name,
    sources_of,
)
from workloads.opmw.templates import Template, TemplateStep, Variable

TEMPLATE = Template(
    name="words",
    steps=(
        TemplateStep(
            name="split/1", component="Split", uses=("left", "right"), gives=("pieces",), parameters={"size": 3}
        ),
        TemplateStep(name="count", component="Count", uses=("pieces", "stop words"), gives=("counts", "log")),
        TemplateStep(name="tick", component="Tick", parameters={"iterations": 9}),
    ),
    variables=(
        Variable(name="left", data_type="Text"),
        Variable(name="right", data_type="Text"),
        Variable(name="stop words", data_type=None),
        Variable(name="pieces", data_type="Text"),
        Variable(name="counts", data_type="Table"),
        Variable(name="log", data_type=None),
    ),
)


STOP_WORDS = source_name("stop words")


def canonical(document: Any) -> Dataflow:
    return canonicalise(
        json.dumps(document),
        dataflow=document["name"],
        tenant="ann",
        catalogue=installed_catalogue(),
        sources=registered(sources_of(document)),
    )


def feeds(document: Any) -> dict[str, str]:
    return {task["id"]: task["config"]["source"] for task in document["tasks"] if task["type"] == "source"}


def streams(document: Any) -> set[tuple[str, str]]:
    return {(stream["from"], stream["to"]) for stream in document["streams"]}


def test_steps() -> None:
    """A step's component is its task's type, its bound parameters the config, beside how much it computes."""
    document = encode(TEMPLATE, name="words")
    assert [
        {"id": "split-1", "type": "opmw:Split", "config": {"size": 3, "iterations": ITERATIONS}},
        {"id": "count", "type": "opmw:Count", "config": {"iterations": ITERATIONS}},
        {"id": "tick", "type": "opmw:Tick", "config": {"parameter iterations": 9, "iterations": ITERATIONS}},
    ] == document["tasks"][:3]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (SourcesBy.TYPE, {"left": "Text", "right": "Text", "stop words": STOP_WORDS, "start": "start"}),
        (SourcesBy.VARIABLE, {"left": "left", "right": "right", "stop words": STOP_WORDS, "start": "start"}),
        (SourcesBy.NONE, {"start": "start"}),
    ],
)
def test_sources(sources: SourcesBy, expected: dict[str, str]) -> None:
    """Each variable from outside has a source, named as asked for; what nothing feeds takes the common one."""
    assert expected == feeds(encode(TEMPLATE, name="words", sources=sources))


def test_outputs() -> None:
    """With sinks each unused variable has an output, without there is one; all streams are joined."""
    inner = {
        ("left", "split-1"),
        ("right", "split-1"),
        ("split-1", "count"),
        ("stop words", "count"),
        ("start", "tick"),
    }
    assert inner | {("count", "counts"), ("count", "log"), ("tick", "tick result")} == streams(
        encode(TEMPLATE, name="words")
    )
    assert inner | {("count", "result"), ("tick", "result")} == streams(encode(TEMPLATE, name="words", sinks=False))


def test_joining_steps() -> None:
    """Where steps join, one with several inputs has a port for each of them; one with a single input is as ever."""
    document = encode(TEMPLATE, name="words", inputs=Inputs.JOIN)
    assert ["opmw-join:Split", "opmw-join:Count", "opmw:Tick"] == [task["type"] for task in document["tasks"][:3]]
    ports = {(each["from"], each["to"]): each.get("to_port") for each in document["streams"]}
    assert {"in1", "in2"} == {ports["left", "split-1"], ports["right", "split-1"]}
    assert {"in1", "in2"} == {ports["split-1", "count"], ports["stop words", "count"]}
    assert ports["start", "tick"] is None
    assert len(canonical(document).tasks) == len(canonical(encode(TEMPLATE, name="words")).tasks)


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_joining_steps_stay_equal(one: list[int], other: list[int]) -> None:
    """Steps of two templates are equal where what they join is, however things are called and in whatever order."""
    found = []
    for order, letters in ((one, "abc"), (other, "xyz")):
        names = [letters[place] for place in order]
        steps = tuple(
            TemplateStep(name=names[place], component=f"Make{place}", uses=("in",), gives=(f"made {names[place]}",))
            for place in sorted(range(3), key=names.__getitem__)
        )
        last = TemplateStep(
            name="last", component="Merge", uses=tuple(f"made {name}" for name in sorted(names)), gives=("end",)
        )
        variables = tuple(Variable(name=name, data_type=None) for name in ("in", *last.uses, "end"))
        template = Template(name=letters, steps=(*steps, last), variables=variables)
        found.append({task.key for task in canonical(encode(template, name=letters, inputs=Inputs.JOIN)).tasks})
    assert found[0] == found[1]


def test_parameters_called_as_fields() -> None:
    """A parameter that is called as a field that steps have for themselves gets another name."""
    step = TemplateStep(name="s", component="Sort", uses=("a", "b"), parameters={"inputs": 7, "iterations": 1})
    template = Template(name="t", steps=(step,), variables=tuple(Variable(name=n, data_type=None) for n in "ab"))
    expected = {"parameter inputs": 7, "parameter iterations": 1, "iterations": ITERATIONS}
    for inputs, own in ((Inputs.INTERLEAVE, {}), (Inputs.JOIN, {"inputs": 2})):
        (task, *_) = encode(template, name="t", inputs=inputs)["tasks"]
        assert {**expected, **own} == task["config"]


NAMES = st.text(max_size=120)


@given(st.lists(NAMES, unique=True, max_size=6))
def test_source_names(names: list[str]) -> None:
    """Whatever letters data types have, each has a source of its own, whose name the service takes."""
    found = [TypeAdapter(SourceName).validate_python(source_name(name)) for name in names]
    assert len(names) == len(set(found))


def test_legible_source_names() -> None:
    """Names that fit stay; others are written in ASCII, with a digest that tells them apart."""
    assert ["Table", "v1.2_x"] == [source_name(name) for name in ("Table", "v1.2_x")]
    written = [source_name(name) for name in ("Größe", "Grüße", "Таблица", "表", "Table of words", "start", "", "é")]
    assert [
        "Grosse",
        "Grusse",
        "u0422u0430u0431u043Bu0438u0446u0430",
        "u8868",
        "Table-of-words",
        "start",
        "unnamed",
        "e",
    ] == [name.rpartition("-")[0] for name in written]
    assert len(written) == len(set(written))


def test_events() -> None:
    """A source's events are the same for the same seed, differ from another source's, and have its schema's fields."""

    def first(source: str, seed: int) -> list[Any]:
        drawn = events(source, seed)
        return [next(drawn) for _ in range(3)]

    assert first("Text", 1) == first("Text", 1)
    assert first("Text", 1) != first("Text", 2)
    assert first("Text", 1) != first("Table", 1)
    assert [{"value", "number"}] * 3 == [set(event) for event in first("Text", 1)]
