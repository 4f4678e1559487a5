"""Live streams: their lines become events, and a broken stream continues where it broke. Pure."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import httpx
from pydantic import ValidationError

from braid_client.answers.dataflows import OutputEvent, OutputPlace
from braid_client.answers.overview import EventAnswer
from braid_client.errors import (
    TRANSIENT,
    not_understood,
    refused,
    unreachable,
)
from braid_client.request import path_to

E = TypeVar("E")
STREAM_SILENCE = 60.0
"""The seconds without a line after which a stream counts as broken; the service sends signs of life more often."""
STREAM_ATTEMPTS = 8
"""Attempts in a row to connect again; they take half a minute, in which a service can start."""
_FIRST_WAIT = 0.2


class StreamReader(ABC, Generic[E]):
    """The state of one stream over all its connections."""

    def __init__(self, url: str, path: str) -> None:
        self.path = path
        self._url = url
        self._failed = 0

    @property
    def query(self) -> Mapping[str, str]:
        """The query of the next connection."""
        return {}

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the next connection."""
        return {}

    def read(self, line: str, answer: httpx.Response) -> Iterator[E]:
        """The events that a line completes."""
        # Any line is a sign of life.
        self._failed = 0
        yield from self._parse(line, answer)

    def reconnect(self, trouble: httpx.TransportError | httpx.Response) -> float:
        """The seconds until the next connection; raises if there is none."""
        self._failed += 1
        if isinstance(trouble, httpx.Response):
            if trouble.status_code not in TRANSIENT or self._failed >= STREAM_ATTEMPTS:
                raise refused(trouble)
        elif self._failed >= STREAM_ATTEMPTS:
            raise unreachable(self._url, trouble, unsure=False)
        return _FIRST_WAIT * 2.0 ** (self._failed - 1)

    def ended(self) -> float:
        """The seconds until the next connection after the stream ended, as it does when the service stops."""
        return self.reconnect(httpx.ReadError("the stream ended"))

    @abstractmethod
    def _parse(self, line: str, answer: httpx.Response) -> Iterator[E]:
        """The events that a line completes."""


class EventStreamReader(StreamReader[EventAnswer]):
    """Reads events; a new connection asks for those after the last complete one."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "/v1/events")
        self._last: str | None = None
        """The id of the last complete event."""
        self._current: str | None = None
        """The id of the event that is being read."""
        self._data: list[str] = []

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the next connection."""
        accept = {"Accept": "text/event-stream"}
        return accept if self._last is None else accept | {"Last-Event-ID": self._last}

    def reconnect(self, trouble: httpx.TransportError | httpx.Response) -> float:
        """The seconds until the next connection, which sends an event that was read in part again."""
        self._data, self._current = [], self._last
        return super().reconnect(trouble)

    def _parse(self, line: str, answer: httpx.Response) -> Iterator[EventAnswer]:
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        elif field == "id" and value:
            self._current = value.strip()
        elif not line and self._data:
            self._last = self._current
            whole, self._data = "\n".join(self._data), []
            try:
                yield EventAnswer.model_validate_json(whole)
            except ValidationError:
                raise not_understood(answer) from None


def pandas_table() -> Callable[[list[dict[str, Any]]], Any]:
    """The class of pandas' tables; raises an error that says what to do if pandas is not installed."""
    try:
        # Loading it takes longer than most uses of a client.
        import pandas as pd  # type: ignore[import-untyped]  # noqa: PLC0415 - it ships without types
    except ImportError as error:
        raise ImportError("pandas, which makes DataFrames, is not installed; pip install pandas") from error
    table: Callable[[list[dict[str, Any]]], Any] = pd.DataFrame
    return table


_REPEATED = 1_000
"""How many past events are asked for again after the stream broke, as far as they are kept."""


class OutputStreamReader(StreamReader[OutputEvent]):
    """Reads outputs; a new connection asks for past events again, and those that were read are skipped."""

    def __init__(self, url: str, dataflow: str, sink: str | None, last: int) -> None:
        super().__init__(url, path_to("dataflows", dataflow, "outputs"))
        self._sink = sink
        self._first_last = last
        self._places: dict[str, OutputPlace] = {}
        """The place up to which each sink was read."""

    @property
    def query(self) -> dict[str, str]:
        """The query of the next connection."""
        last = _REPEATED if self._places else self._first_last
        return {"last": str(last)} | ({} if self._sink is None else {"sink": self._sink})

    def _parse(self, line: str, answer: httpx.Response) -> Iterator[OutputEvent]:
        if not line.strip():
            return
        try:
            # pydantic's own parser refuses lone surrogates, which events may hold.
            event = OutputEvent.model_validate(json.loads(line))
        except (ValidationError, ValueError, RecursionError):
            raise not_understood(answer) from None
        place, after = self._places.get(event.sink), OutputPlace(event.epoch, event.number + (event.missed or 1))
        if place is None or place < after:
            self._places[event.sink] = after
            yield event
