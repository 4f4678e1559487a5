"""The stream of a dataflow's outputs, as JSON lines. Pure."""

import json
from collections.abc import Iterator
from typing import NamedTuple

import httpx
from pydantic import ValidationError

from manager.answers import OutputEvent
from manager.client.errors import not_understood
from manager.client.requests.request import path_to
from manager.client.stream_reader import StreamReader

_REPEATED = 1_000
"""How many past events are asked for again after the stream broke, as far as they are kept."""


class _Position(NamedTuple):
    """The position in a sink's events after the last that was read."""

    epoch: int
    next: int


class OutputStreamReader(StreamReader[OutputEvent]):
    """Reads outputs; a new connection asks for past events again, and those that were read are skipped."""

    def __init__(self, url: str, dataflow: str, sink: str | None, last: int) -> None:
        super().__init__(url, path_to("dataflows", dataflow, "outputs"))
        self._sink = sink
        self._first_last = last
        self._positions: dict[str, _Position] = {}

    @property
    def query(self) -> dict[str, str]:
        """The query of the next connection."""
        last = _REPEATED if self._positions else self._first_last
        return {"last": str(last)} | ({} if self._sink is None else {"sink": self._sink})

    def _parse(self, line: str, answer: httpx.Response) -> Iterator[OutputEvent]:
        if not line.strip():
            return
        try:
            # pydantic's own parser refuses lone surrogates, which events may hold.
            event = OutputEvent.model_validate(json.loads(line))
        except (ValidationError, ValueError, RecursionError):
            raise not_understood(answer) from None
        position = self._positions.get(event.sink)
        end = event.number + (event.missed or 1)
        if position is None or position < (event.epoch, end):
            self._positions[event.sink] = _Position(event.epoch, end)
            yield event
