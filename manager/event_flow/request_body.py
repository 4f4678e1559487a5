"""The events in the body of a request: JSON lines or a JSON array, which must all fit the schema of their source.

A problem names the line, the field and the remedy.
"""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bridge.events.raw_events import UnfitField, parsed, rows_in
from dags import Kind, Schema
from dags.problems import pointer
from manager.problem import FieldError, InvalidRequest, TooLarge

MOST_REQUEST_BYTES = 1_000_000
MOST_REQUEST_EVENTS = 10_000
MOST_REQUEST_PROBLEMS = 20
"""Problems that an answer lists at most."""
_BLANK = re.compile(rb"[ \t\r]*")
_REMEDIES = {
    Kind.BOOLEAN: "send true or false, without quotes",
    Kind.INTEGER: "send a whole number, without quotes",
    Kind.FLOAT: "send a number, without quotes",
    Kind.STRING: "send a text, in quotes",
    Kind.TIMESTAMP: "send milliseconds since 1970, or a text as in ISO 8601",
    Kind.JSON: "send JSON of fewer levels, without halves of characters",
}


def events_in(body: bytes, schema: Schema, *, as_lines: bool) -> pa.RecordBatch:
    r"""Parse the events of a body; raises `InvalidRequest` with all problems, up to a limit.

    >>> events_in(b'{"t": 1}\n\n{"t": 2.5, "unit": "C"}\n', Schema.of(t=Kind.FLOAT), as_lines=True).num_rows
    2
    """
    problems: list[FieldError] = []
    items, numbers = _lines(body, problems) if as_lines else _array(body)
    word = "line" if as_lines else "event"
    if len(items) > MOST_REQUEST_EVENTS:
        raise TooLarge(MOST_REQUEST_EVENTS, "events")

    def note(place: int, error: ValueError) -> None:
        if len(problems) < MOST_REQUEST_PROBLEMS:
            problems.append(_problem(word, numbers[place], error))

    events = rows_in(items, schema, on_unfit=note)
    if problems:
        raise InvalidRequest(sorted(problems, key=lambda each: int(each.pointer.split("/")[1])))
    return events


def _lines(body: bytes, problems: list[FieldError]) -> tuple[Sequence[Any], Sequence[int]]:
    """Parse the lines, and number them from 1."""
    items: list[Any] = []
    numbers: list[int] = []
    for number, line in enumerate(body.split(b"\n"), 1):
        if _BLANK.fullmatch(line):
            continue
        try:
            items.append(parsed(line))
        except ValueError as error:
            if len(problems) < MOST_REQUEST_PROBLEMS:
                problems.append(_not_json(number, f"line {number} is not JSON: {error}", "send one JSON object a line"))
        else:
            numbers.append(number)
    return items, numbers


def _array(body: bytes) -> tuple[Sequence[Any], Sequence[int]]:
    """Parse an array, and number its items from 1."""
    try:
        items = parsed(body)
    except ValueError as error:
        remedy = "send a JSON array, or JSON lines with Content-Type: application/x-ndjson"
        raise InvalidRequest([_not_json(None, f"the body is not JSON: {error}", remedy)]) from None
    if not isinstance(items, list):
        items = [items]
    return items, range(1, len(items) + 1)


def _not_json(number: int | None, message: str, remedy: str) -> FieldError:
    place = () if number is None else (number - 1,)
    return FieldError(pointer=pointer(*place), code="not-json", message=message, remedy=remedy)


def _problem(word: str, number: int, error: ValueError) -> FieldError:
    """Describe the problem of an event; the message counts from 1, the pointer from 0."""
    if isinstance(error, UnfitField):
        return FieldError(
            pointer=pointer(number - 1, error.name),
            code="wrong-kind",
            message=f"{word} {number}: {error}",
            remedy=_REMEDIES[error.kind],
        )
    return FieldError(
        pointer=pointer(number - 1),
        code="unfit-event",
        message=f"{word} {number}: {error}",
        remedy="send an object whose fields are those of the source's schema, or others that JSON can write",
    )
