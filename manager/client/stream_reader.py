"""The reader of a live stream: its lines become events, and a broken stream continues where it broke. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

import httpx

from manager.client.errors import refused, unreachable
from manager.client.retry import TRANSIENT

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
