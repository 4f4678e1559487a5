"""Reading what leaves at the outputs of a dataflow: a broken stream is taken up where it broke. Pure."""

import json
from collections.abc import Iterator
from typing import NamedTuple

import httpx
from pydantic import ValidationError

from manager.answers import OutputEvent
from manager.client.errors import not_understood
from manager.client.event_stream import EventStreamReader

_AGAIN = 1_000
"""How many events that left before are asked for where a stream broke, as far as they are still known."""


class _Place(NamedTuple):
    """Up to where a sink was read."""

    epoch: int
    next: int


class OutputStreamReader(EventStreamReader):
    """What was read so far of some outputs, over reconnects."""

    def __init__(self, url: str, sink: str | None, last: int) -> None:
        super().__init__(url)
        self._sink = sink
        self._last_wanted = last
        self._places: dict[str, _Place] = {}

    @property
    def query(self) -> dict[str, str]:
        """What is asked for, so that nothing is missing after what was read."""
        last = _AGAIN if self._places else self._last_wanted
        return {"last": str(last)} | ({} if self._sink is None else {"sink": self._sink})

    def taken(self, text: str, answer: httpx.Response) -> Iterator[OutputEvent]:
        """Take a line of the stream; gives what is new in it."""
        # Whatever it says, a sign of life too.
        self.is_alive()
        if not text.strip():
            return
        try:
            # Not by pydantic: events may hold halves of characters.
            event = OutputEvent.model_validate(json.loads(text))
        except (ValidationError, ValueError, RecursionError):
            raise not_understood(answer) from None
        place = self._places.get(event.sink)
        end = event.number + (event.missed or 1)
        if place is None or place < (event.epoch, end):
            self._places[event.sink] = _Place(event.epoch, end)
            yield event
