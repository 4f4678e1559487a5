# Generated from async_connection.py by `make client`: edit that file.
"""The connection to the service: it sends requests by the rules of `braid_client.errors`, and follows streams."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel, PrivateAttr, SecretStr

from braid_client.answers.base import Page
from braid_client.answers.dataflows import DataflowDetail, DataflowState, OutputEvent
from braid_client.answers.overview import EventAnswer
from braid_client.errors import (
    ExchangeStep,
    NotRunning,
    Outcome,
    Sleep,
    exchange,
    headers,
    trusting,
    uses_proxies,
)
from braid_client.events import EventTable, requests_of
from braid_client.request import Request, following, get
from braid_client.streams import (
    STREAM_SILENCE,
    EventStreamReader,
    OutputStreamReader,
    StreamReader,
    pandas_table,
)

A = TypeVar("A", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)
E = TypeVar("E")


class OutputTail:
    """The events that leave a dataflow, without end: with their numbers, or alone as dictionaries or a table.

    As a context manager it ends the stream at the service when its block ends.
    """

    def __init__(self, events: Generator[OutputEvent, None]) -> None:
        self.missed = 0
        """The events that came faster than they were read, and were not."""
        self._events = events

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> OutputEvent:
        event = next(self._events)
        self.missed += event.missed
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the stream."""
        self._events.close()

    def dictionaries(self) -> Iterator[dict[str, Any]]:
        """The events alone; what was missed is counted in `missed`."""
        for event in self:
            if not event.missed:
                yield event.event

    def to_pandas(self, count: int) -> Any:
        """The next so many events as a DataFrame with a column for each field; it waits until they have come."""
        # It says that pandas is missing before it waits.
        made, events = pandas_table(), list[dict[str, Any]]()
        while len(events) < count:
            event = next(self)
            events += [] if event.missed else [event.event]
        return made(events)


_FIRST_PAUSE = 0.2
"""The seconds between the first two looks at a dataflow; each pause is twice as long as the one before."""
_LONGEST_PAUSE = 2.0


class SubmittedDataflow(DataflowDetail):
    """A dataflow as it was when the service was asked, which can be waited for."""

    _look: Callable[[str], Any] = PrivateAttr()
    _sleep: Sleep = PrivateAttr()

    def followed(self, look: Callable[[str], Any], sleep: Sleep) -> Self:
        """The same, with how to look at it again."""
        self._look, self._sleep = look, sleep
        return self

    def wait(self, timeout: float = 120.0) -> Self:
        """Wait until it runs, and return it as it is then; `NotRunning` has the reason if it does not in time."""
        deadline, pause, seen = monotonic() + timeout, _FIRST_PAUSE, self
        while seen.state is not DataflowState.RUNNING:
            if seen.state in {DataflowState.DRAINING, DataflowState.REMOVED}:
                raise NotRunning(f"{self.name} is {seen.state}; submit it again")
            if monotonic() >= deadline:
                why = f": {seen.reason}" if seen.reason else ""
                raise NotRunning(f"{self.name} is {seen.state} after {timeout:g} seconds{why}")
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            seen = self._look(self.id)
        return seen


class ServiceConnection:
    """Sends requests with one API key; close it, or use it as a context manager."""

    def __init__(  # noqa: PLR0913 - all but two have a default that is right
        self,
        url: str,
        key: SecretStr | str | None = None,
        *,
        ca: Path | str | None = None,
        by_name: bool = True,
        transport: httpx.BaseTransport | None = None,
        sleep: Sleep = time.sleep,
    ) -> None:
        """`ca` is a file with the certificates that are trusted, by default those of the system.

        Without `by_name` the certificate of the service may name any host.
        """
        self.url = url.rstrip("/")
        self._sleep = sleep
        proxies = uses_proxies(self.url)
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers(key),
            # Without TLS, also to a proxy, there is nothing to verify, and reading the certificates takes long.
            verify=(proxies or not self.url.startswith("http:")) and trusting(ca, by_name=by_name),
            transport=transport,
            trust_env=proxies,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the service."""
        self._http.close()

    def ask(self, request: Request[A]) -> A:
        """Send a request, again where that is safe and may help, and return its answer."""
        steps = exchange(self.url, request)
        step: ExchangeStep[A] = next(steps)
        while True:
            outcome: Outcome = None
            if isinstance(step, float):
                self._sleep(step)
            else:
                try:
                    outcome = self._http.request(
                        step.method,
                        step.path,
                        params=step.query,
                        headers=step.headers,
                        content=step.body,
                        timeout=step.timeout,
                    )
                except httpx.TransportError as error:
                    outcome = error
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                answer: A = done.value
                return answer

    def items(self, request: Request[Page[P]]) -> Iterator[P]:
        """The items of a list; a page is requested once the one before it is used up."""
        while True:
            page = self.ask(request)
            yield from page.items
            if page.next is None:
                return
            request = following(request, page.next)

    def _stream(self, reader: StreamReader[E]) -> Generator[E, None]:
        """The events of a stream, without end; connects again where the stream breaks."""
        while True:
            try:
                with self._http.stream(
                    "GET", reader.path, params=reader.query, headers=reader.headers, timeout=STREAM_SILENCE
                ) as answer:
                    if answer.is_error:
                        answer.read()
                        wait = reader.reconnect(answer)
                    else:
                        for line in answer.iter_lines():
                            yield from reader.read(line, answer)
                        wait = reader.ended()
            except httpx.TransportError as error:
                wait = reader.reconnect(error)
            self._sleep(wait)

    def dataflow(self, dataflow: str) -> SubmittedDataflow:
        """One dataflow with its document and tasks."""
        detail = self.ask(get(SubmittedDataflow, "dataflows", dataflow))
        return detail.followed(self.dataflow, self._sleep)

    def send(self, source: str, events: EventTable | Iterable[Mapping[str, Any]]) -> int:
        """Send events to a source, each exactly once, and return their number: dictionaries, or a DataFrame of pandas.

        What is missing in a table, and NaN, is null. After an error what was sent before it stays sent.
        """
        sent = 0
        for request in requests_of(source, events):
            sent = (self.ask(request)).next
        return sent

    def tail(self, dataflow: str, sink: str | None = None, *, last: int = 0) -> OutputTail:
        """Follow all outputs of a dataflow or one, without end, from the last so many past events, as far as kept."""
        return OutputTail(self._stream(OutputStreamReader(self.url, dataflow, sink, last)))

    def events(self) -> Iterator[EventAnswer]:
        """Follow what happens from now on, without end."""
        return self._stream(EventStreamReader(self.url))
