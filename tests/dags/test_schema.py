"""Schemas, and the common fields of streams that meet."""

import pytest

from dags import Kind, Schema, meet

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
