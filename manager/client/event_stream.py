"""The live event stream, as server-sent events. Pure."""

from collections.abc import Iterator

import httpx
from pydantic import ValidationError

from manager.answers import EventAnswer
from manager.client.errors import not_understood
from manager.client.stream_reader import StreamReader


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
