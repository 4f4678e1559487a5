"""EventStreamReader the live event stream: its lines become events, and a broken stream is taken up where it broke. Pure."""

from collections.abc import Iterator

import httpx
from pydantic import ValidationError

from manager.answers import EventAnswer
from manager.client.errors import NotDone, not_understood, refused, unreachable

STREAM_SILENCE = 60.0
"""Seconds without a line, or a sign of life, after which a stream counts as broken."""
STREAM_ATTEMPTS = 8
"""How often it is tried in a row to take up the stream; together that is half a minute, in which a service starts."""
_FIRST_WAIT = 0.2
_PASSING = frozenset({502, 503, 504})


class EventStreamReader:
    """What was read so far of the live stream, over reconnects."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._last: str | None = None
        self._coming: str | None = None
        """The id of the event whose lines are coming."""
        self._data: list[str] = []
        self._failed = 0

    @property
    def headers(self) -> dict[str, str]:
        """What is sent to get the events after the last that was read."""
        accept = {"Accept": "text/event-stream"}
        return accept if self._last is None else accept | {"Last-Event-ID": self._last}

    def line(self, text: str, answer: httpx.Response) -> Iterator[EventAnswer]:
        """Take a line of the stream; gives the event that it ends, if it ends one."""
        # Whatever it says, a sign of life too.
        self.is_alive()
        field, _, value = text.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        elif field == "id" and value:
            self._coming = value.strip()
        elif not text and self._data:
            # Only now: of half an event nothing was read.
            self._last = self._coming
            whole, self._data = "\n".join(self._data), []
            try:
                yield EventAnswer.model_validate_json(whole)
            except ValidationError:
                raise not_understood(answer) from None

    def is_alive(self) -> None:
        """Something came, so that whatever failed before is over."""
        self._failed = 0

    def broken(self, trouble: httpx.TransportError | httpx.Response) -> float:
        """After how many seconds to go on; raises where that is no use."""
        self._data, self._coming = [], self._last
        error = self._error(trouble)
        passing = not isinstance(trouble, httpx.Response) or trouble.status_code in _PASSING
        self._failed += 1
        if not passing or self._failed >= STREAM_ATTEMPTS:
            raise error
        return _FIRST_WAIT * 2.0 ** (self._failed - 1)

    def ended(self) -> float:
        """The stream ended without trouble, as when the service stops; after how many seconds to go on."""
        return self.broken(httpx.ReadError("the stream ended"))

    def _error(self, trouble: httpx.TransportError | httpx.Response) -> NotDone:
        if isinstance(trouble, httpx.Response):
            return refused(trouble)
        return unreachable(self._url, trouble, unsure=False)
