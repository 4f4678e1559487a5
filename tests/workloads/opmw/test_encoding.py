"""Templates as documents."""

from typing import Any

import pytest

from workloads.opmw.encoding import ITERATIONS, SourcesBy, encode, events
from workloads.opmw.templates import Step, Template, Variable

TEMPLATE = Template(
    name="words",
    steps=(
        Step(name="split/1", component="Split", uses=("left", "right"), gives=("pieces",), parameters={"size": 3}),
        Step(name="count", component="Count", uses=("pieces", "stop words"), gives=("counts", "log")),
        Step(name="tick", component="Tick", parameters={"iterations": 9}),
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
        (SourcesBy.TYPE, {"left": "Text", "right": "Text", "stop words": "stop-words", "start": "start"}),
        (SourcesBy.VARIABLE, {"left": "left", "right": "right", "stop words": "stop-words", "start": "start"}),
        (SourcesBy.NONE, {"start": "start"}),
    ],
)
def test_sources(sources: SourcesBy, expected: dict[str, str]) -> None:
    """Each variable from outside has a source, told apart as asked for; what nothing feeds takes the common one."""
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


def test_events() -> None:
    """A source's events are the same for the same seed, differ from another source's, and have its schema's fields."""

    def first(source: str, seed: int) -> list[Any]:
        drawn = events(source, seed)
        return [next(drawn) for _ in range(3)]

    assert first("Text", 1) == first("Text", 1)
    assert first("Text", 1) != first("Text", 2)
    assert first("Text", 1) != first("Table", 1)
    assert [{"value", "number"}] * 3 == [set(event) for event in first("Text", 1)]
