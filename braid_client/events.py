"""Events that a client sends: a table or dictionaries become requests of bounded size, numbered so as to count once."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

from pydantic_core import to_json

from braid_client.answers.sources import SentAnswer
from braid_client.request import Request
from braid_client.sources import one_time_producer, send_events

_MOST_EVENTS = 5_000
"""How many events one request has at most; the service takes twice as many."""
_MOST_BYTES = 500_000
"""How many bytes of events one request has at most; a longer event is sent alone. The service takes twice as many."""


class EventTable(Protocol):
    """A table with a row for each event, such as a DataFrame of pandas."""

    def to_dict(self, orient: Any) -> Any:
        """Its rows as dictionaries, if `orient` is `"records"`."""


def requests_of(source: str, events: EventTable | Iterable[Mapping[str, Any]]) -> Iterator[Request[SentAnswer]]:
    r"""The requests that send events; they are made as they are needed, so that events may come without end.

    >>> [request.body for request in requests_of("street", [{"t": 1.5}, {"t": float("nan")}])]
    [b'{"t":1.5}\n{"t":null}']
    """
    rows = events if isinstance(events, Iterable) and not hasattr(events, "to_dict") else events.to_dict("records")
    producer = one_time_producer()
    lines: list[bytes] = []
    first = size = 0
    for line in map(_line, rows):
        if lines and (len(lines) >= _MOST_EVENTS or size + len(line) > _MOST_BYTES):
            yield send_events(source, b"\n".join(lines), producer, first)
            first, size, lines = first + len(lines), 0, []
        lines.append(line)
        size += len(line)
    if lines:
        yield send_events(source, b"\n".join(lines), producer, first)


def _line(event: Mapping[str, Any]) -> bytes:
    # The missing time of pandas is a datetime, but has no text.
    given = {name: None if isinstance(value, datetime) and value != value else value for name, value in event.items()}  # noqa: PLR0124
    return to_json(given, inf_nan_mode="null", fallback=_plain)


def _plain(value: object) -> object:
    """A value of numpy or pandas as one of Python."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if type(value).__name__ == "NAType":
        return None
    raise TypeError(f"{value!r} has no form in JSON; make it a number, a text, a time, a list or a dictionary")
