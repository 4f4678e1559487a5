"""Events that callers send to sources over REST: read from the request, and published until the spool has them.

The body of a request is JSON lines, a JSON array, or a message in the format of the source. Its events must all fit the
schema of their source. A problem of JSON names the line, the field and the remedy.

A host answers each message with the producer's position in the spool. A broker that was killed may have lost a message,
and a host that starts may not be subscribed yet. So a message without an answer is published again once the broker has
accepted it; events are numbered, so none counts twice.
"""

import logging
import re
import secrets
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

import pyarrow as pa

from bridge import MalformedFrame, Message, cut, topics
from bridge.formats.decoders import decoder
from bridge.intake import Receipt, Sent
from bridge.raw_events import UnfitField, parsed, rows_in
from bridge.transport.mqtt_client import MqttClient
from dags import Kind, Schema
from dags.message_formats import JsonLinesMessages, JsonMessages, MessageFormat, UnusableFormat
from dags.problems import pointer
from manager.problem import (
    FieldError,
    InvalidRequest,
    NotTaken,
    QuotaExceeded,
    StateNotReady,
    TooLarge,
    UnsupportedMediaType,
    invalid,
)

MOST_REQUEST_EVENTS = 10_000
MOST_REQUEST_PROBLEMS = 20
"""Problems that an answer lists at most."""
_SHOWN = 200
"""Characters of an unfit event that a problem shows."""
_JSON_TYPES = (*JsonMessages.media_types, *JsonLinesMessages.media_types)
_BLANK = re.compile(rb"[ \t\r]*")
_REMEDIES = {
    Kind.BOOLEAN: "send true or false, without quotes",
    Kind.INTEGER: "send a whole number, without quotes",
    Kind.FLOAT: "send a number, without quotes",
    Kind.STRING: "send a text, in quotes",
    Kind.TIMESTAMP: "send milliseconds since 1970, or a text as in ISO 8601",
    Kind.JSON: "send JSON of fewer levels, without halves of characters",
}


def events_of(body: bytes, media_type: str, messages: MessageFormat, schema: Schema) -> pa.RecordBatch:
    """Read the events of a body as its content type says; raises `InvalidRequest` with all problems, up to a limit."""
    if media_type in _JSON_TYPES:
        return events_in(body, schema, as_lines=media_type in JsonLinesMessages.media_types)
    if media_type not in messages.media_types:
        raise UnsupportedMediaType("Content-Type", media_type, (*messages.media_types, *_JSON_TYPES))
    try:
        events, unfit = decoder(messages, schema)([body])
    except UnusableFormat as error:
        raise StateNotReady(str(error)) from error
    if len(events) > MOST_REQUEST_EVENTS:
        raise TooLarge(MOST_REQUEST_EVENTS, "events")
    if unfit:
        remedy = f"send what the source's schema and its format ({messages.kind}) say"
        raise InvalidRequest(
            FieldError(pointer="", code="unfit-event", message=f"{event.reason}: {event.event[:_SHOWN]}", remedy=remedy)
            for event in unfit[:MOST_REQUEST_PROBLEMS]
        )
    return events


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
        raise InvalidRequest(sorted(problems, key=lambda problem: int(problem.pointer.split("/")[1])))
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
            place, message = pointer(number - 1), f"line {number} is not JSON: {error}"
            problem = FieldError(pointer=place, code="not-json", message=message, remedy="send one JSON object a line")
            problems += [problem] if len(problems) < MOST_REQUEST_PROBLEMS else []
        else:
            numbers.append(number)
    return items, numbers


def _array(body: bytes) -> tuple[Sequence[Any], Sequence[int]]:
    """Parse an array, and number its items from 1."""
    try:
        items = parsed(body)
    except ValueError as error:
        remedy = "send a JSON array, or JSON lines with Content-Type: application/x-ndjson"
        raise invalid("", "not-json", f"the body is not JSON: {error}", remedy) from None
    if not isinstance(items, list):
        items = [items]
    return items, range(1, len(items) + 1)


def _problem(word: str, number: int, error: ValueError) -> FieldError:
    """Describe the problem of an event; the message counts from 1, the pointer from 0."""
    place: tuple[int | str, ...] = (number - 1,)
    code = "unfit-event"
    remedy = "send an object whose fields are those of the source's schema, or others that JSON can write"
    if isinstance(error, UnfitField):
        place, code, remedy = (number - 1, error.name), "wrong-kind", _REMEDIES[error.kind]
    return FieldError(pointer=pointer(*place), code=code, message=f"{word} {number}: {error}", remedy=remedy)


_PATIENCE = 25.0
"""Seconds until the spool must have the events of a request; clients wait longer."""
_REPUBLISH_AFTER = 1.0
"""Seconds without an answer after which a message is published again."""
_MOST_AT_ONCE = 12
"""Requests that wait at once, of all callers; each holds a thread of REST."""
MOST_REQUESTS_OF_ONE = 4
"""Requests that wait at once of a tenant, or of the operators."""
log = logging.getLogger("braid.sending")


class Gap(Exception):
    """Events are missing before the ones that were sent."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        """The number of the next event."""
        super().__init__(f"number {expected} comes next")


class EventSender:
    """Sends events from `start` to `stop`; only the leading manager runs it. Thread-safe; calls block."""

    def __init__(
        self,
        connect: Callable[..., MqttClient],
        *,
        patience: float = _PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._patience = patience
        self._clock = clock
        # Guards the fields below.
        self._guard = threading.Lock()
        self._line: MqttClient | None = None
        self._waiting: dict[str, SimpleQueue[int]] = {}
        """The queues of the waiting callers, by the id of their question."""
        self._busy: Counter[str] = Counter()

    def start(self) -> None:
        """Send from now on. It can be started again after a stop."""
        line = self._connect(
            f"braid-sends-{uuid.uuid4().hex[:12]}", topics=[f"{topics.ROOT}/kept/+"], on_message=self._take
        )
        with self._guard:
            self._line = line

    def stop(self) -> None:
        """Stop sending; idempotent. Waiting callers get an error."""
        with self._guard:
            line, self._line = self._line, None
        if line is not None:
            line.stop()

    @contextmanager
    def admitted(self, who: str) -> Iterator[float]:
        """Admit a request, and yield its deadline; refused if too many wait."""
        with self._guard:
            if self._busy[who] >= MOST_REQUESTS_OF_ONE or self._busy.total() >= _MOST_AT_ONCE:
                raise QuotaExceeded(
                    f"{self._busy[who]} requests of {who} that send events are under way, and {self._busy.total()} in "
                    "all; send more events in one, or ask again later",
                    retry_after=_REPUBLISH_AFTER,
                )
            self._busy[who] += 1
        try:
            yield self._clock() + self._patience
        finally:
            with self._guard:
                self._busy[who] -= 1

    def send(self, stream: str, producer: str, first: int, events: pa.RecordBatch, *, until: float) -> int:
        """Send events to a stream's spool, and return the number after the last; `Gap` if some are missing before."""
        for part in cut(events):
            sent = Sent(producer=producer, first=first, events=part, ask=secrets.token_urlsafe(12))
            following = self._answer(stream, sent, until)
            if following < sent.first:
                raise Gap(following)
            first = sent.end
        return first

    def next(self, stream: str, producer: str, *, until: float) -> int:
        """Return the number of a producer's next event."""
        return self._answer(stream, Sent.question(producer, secrets.token_urlsafe(12)), until)

    def _answer(self, stream: str, sent: Sent, until: float) -> int:
        """Publish until a host answers, and return the producer's position in the spool."""
        topic, payload = topics.sent(stream), sent.encoded()
        answers, has_left = SimpleQueue[int](), threading.Event()
        with self._guard:
            self._waiting[sent.ask] = answers
        try:
            has_left.set()
            while (left := until - self._clock()) > 0:
                with self._guard:
                    line = self._line
                if line is None:
                    raise StateNotReady("events are taken only by a manager that leads and has a broker; ask that one")
                if has_left.is_set():
                    has_left.clear()
                    line.publish(topic, payload, answered=lambda _refusal: has_left.set())
                try:
                    return answers.get(timeout=min(_REPUBLISH_AFTER, left))
                except Empty:
                    continue
        finally:
            with self._guard:
                del self._waiting[sent.ask]
        raise NotTaken

    def _take(self, message: Message) -> None:
        try:
            receipt = Receipt.decoded(message.payload)
        except MalformedFrame as error:
            log.warning("topic %s: passed over: %s", message.topic, error)
        else:
            with self._guard:
                if (answers := self._waiting.get(receipt.ask)) is not None:
                    answers.put(receipt.next)
        # A message that arrives before the line is assigned answers no question of this sender.
        if (line := self._line) is not None:
            line.acknowledge([message.token])
