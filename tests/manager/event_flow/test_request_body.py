"""The events of a request: accepted as the schema has them, or all refused with every problem."""

import json

import pytest

from bridge.raw_events import REST_COLUMN
from dags import Kind, Schema
from manager.problem import InvalidRequest, TooLarge
from manager.sources.events import MOST_REQUEST_EVENTS, MOST_REQUEST_PROBLEMS, events_in

SCHEMA = Schema.of(n=Kind.INTEGER, at=Kind.TIMESTAMP, k=Kind.STRING)


def refused(body: bytes, *, as_lines: bool = True) -> list[tuple[str, str, str]]:
    """Return the pointer, the code and the message of each problem."""
    with pytest.raises(InvalidRequest) as caught:
        events_in(body, SCHEMA, as_lines=as_lines)
    assert all(each.remedy for each in caught.value.errors)
    return [(each.pointer, each.code, each.message) for each in caught.value.errors]


def test_lines_and_arrays_give_the_same_events() -> None:
    """Blank lines are skipped, undeclared fields are kept together, and a single object is an array of one."""
    events = [{"n": 1, "k": "a", "unit": "C"}, {"n": 2.0, "at": "2026-01-02T03:04:05Z"}]
    lines = events_in("\r\n\n".join(map(json.dumps, events)).encode(), SCHEMA, as_lines=True)
    assert lines == events_in(json.dumps(events).encode(), SCHEMA, as_lines=False)
    assert ['{"unit":"C"}', None] == lines.column(REST_COLUMN).to_pylist()
    assert 1 == events_in(json.dumps(events[0]).encode(), SCHEMA, as_lines=False).num_rows
    assert 0 == events_in(b"", SCHEMA, as_lines=True).num_rows


def test_every_problem_is_named_by_line_and_field() -> None:
    """Lines count from 1 with blank ones, pointers from 0, and several bad fields of an event are several problems."""
    body = b'{"n": 1}\n\n{"n": "many", "at": "soon"}\n{\n[1]\n{"k": "b"}'
    where = [(pointer, code) for pointer, code, _ in refused(body)]
    assert [("/2/at", "wrong-kind"), ("/2/n", "wrong-kind"), ("/3", "not-json"), ("/4", "unfit-event")] == where
    assert refused(body)[1][2] == "line 3: the field 'n' should be of kind integer"
    assert [("/1/n", "wrong-kind", "event 2: the field 'n' should be of kind integer")] == refused(
        b'[{}, {"n": true}]', as_lines=False
    )
    assert [("", "not-json")] == [each[:2] for each in refused(b"{}\n{}", as_lines=False)]
    deep = b'{"n": 1, "x": ' + b"[" * 200 + b"]" * 200 + b"}"
    assert [("/0", "unfit-event")] == [each[:2] for each in refused(deep)]


def test_problems_and_events_of_a_request_are_limited() -> None:
    """So a wrong file is answered at once, and no request delays others."""
    assert MOST_REQUEST_PROBLEMS == len(refused(b'{"n": "x"}\n' * 100))
    with pytest.raises(TooLarge, match="10000 events"):
        events_in(b"{}\n" * (MOST_REQUEST_EVENTS + 1), SCHEMA, as_lines=True)
