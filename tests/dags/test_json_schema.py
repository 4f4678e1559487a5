"""The JSON Schema of documents agrees with the reader about their form."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types of its own

from dags import Document, InvalidDocument
from dags.document import MOST_TASKS, read
from tests.notation import document

VALIDATOR = Draft202012Validator(Document.model_json_schema())
TWO = document("s:source > k:sink")


def task(**fields: Any) -> dict[str, Any]:
    return {**TWO, "tasks": [{"id": "s", "type": "source", **fields}, TWO["tasks"][1]]}


def stream(**fields: Any) -> dict[str, Any]:
    return {**TWO, "streams": [{"from": "s", "to": "k", **fields}]}


def without(written: dict[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in written.items() if name != field}


WELL_FORMED: dict[str, dict[str, Any]] = {
    "plain": TWO,
    "ports": document("s:source > p:split..even > j:join.left > k:sink p.odd > j.right"),
    "fresh": document("s:source > a!:map{'add': 1} > k:sink"),
    "null ports": stream(from_port=None, to_port=None),
    "free config": task(config={"": [None, {"a": [1.5, "é"]}]}),
    "no config": task(),
    "version as a float": {**TWO, "version": 1.0},
    "longest id": task(id="é" * 128),
    "longest type": task(type="t" * 200),
    "longest name": {**TWO, "name": "😀" * 200},
    "longest port": stream(to_port="p" * 64),
    "id of a stream may be empty": stream(to=""),
    "no streams": {**TWO, "streams": []},
}
MALFORMED: dict[str, Any] = {
    "not an object": [],
    "empty": {},
    **{f"no {field}": without(TWO, field) for field in TWO},
    **{f"{field} null": {**TWO, field: None} for field in TWO},
    "version 2": {**TWO, "version": 2},
    "version true": {**TWO, "version": True},
    "version as a text": {**TWO, "version": "1"},
    "unknown field": {**TWO, "extra": 1},
    "empty name": {**TWO, "name": ""},
    "long name": {**TWO, "name": "n" * 201},
    "control character in the name": {**TWO, "name": "a\tb"},
    "no task": {**TWO, "tasks": []},
    "too many tasks": {**TWO, "tasks": TWO["tasks"] * (MOST_TASKS // 2 + 1)},
    "task no object": {**TWO, "tasks": ["s"]},
    "tasks no list": {**TWO, "tasks": {"s": {"type": "source"}}},
    "task without id": {**TWO, "tasks": [{"type": "source"}]},
    "task without type": {**TWO, "tasks": [{"id": "s"}]},
    "unknown field of a task": task(extra=1),
    "empty id": task(id=""),
    "long id": task(id="i" * 129),
    "slash in an id": task(id="a/b"),
    "plus in an id": task(id="+"),
    "hash in an id": task(id="#"),
    "control character in an id": task(id="a\x85b"),
    "number as an id": task(id=5),
    "empty type": task(type=""),
    "long type": task(type="t" * 201),
    "config no object": task(config=[]),
    "config null": task(config=None),
    "fresh as a number": task(fresh=1),
    "fresh null": task(fresh=None),
    "stream no object": {**TWO, "streams": [["s", "k"]]},
    "stream without from": {**TWO, "streams": [{"to": "k"}]},
    "stream without to": {**TWO, "streams": [{"from": "s"}]},
    "unknown field of a stream": stream(extra=1),
    "null end": stream(to=None),
    "long end": stream(to="t" * 129),
    "empty port": stream(from_port=""),
    "long port": stream(from_port="p" * 201),
    "number as a port": stream(to_port=0),
}


@pytest.mark.parametrize("name", WELL_FORMED)
def test_the_reader_accepts_what_the_schema_accepts(name: str) -> None:
    """Without a problem of form."""
    assert [] == list(VALIDATOR.iter_errors(WELL_FORMED[name]))
    assert () == read(json.dumps(WELL_FORMED[name])).problems


@pytest.mark.parametrize("name", MALFORMED)
def test_the_reader_refuses_what_the_schema_refuses(name: str) -> None:
    """With a problem of form."""
    assert not VALIDATOR.is_valid(MALFORMED[name])
    try:
        found = read(json.dumps(MALFORMED[name])).problems
    except InvalidDocument as refused:
        found = refused.problems
    assert found


def test_the_schema_is_valid() -> None:
    """By the rules of JSON Schema itself."""
    Draft202012Validator.check_schema(Document.model_json_schema())
