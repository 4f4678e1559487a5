"""Values of formats that have more kinds of them than JSON, as JSON could hold them."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from bridge.raw_events import DEEPEST, TooMuch, Unfit, check_size, too_much
from dags import Kind, Schema

Decoding: TypeAlias = Callable[[Sequence[bytes]], tuple[pa.RecordBatch, tuple[Unfit, ...]]]
"""One way to read messages as events."""


def whole_message(message: bytes, unfit: list[Unfit]) -> Sequence[bytes]:
    """The one part of a message that is read at once; none if it is too large, which is noted."""
    try:
        check_size(message)
    except TooMuch as error:
        unfit.append(too_much(message, error))
        return ()
    return (message,)


class HeldValues:
    """How much the values of one message may still take. A byte of a message can stand for an object of a hundred."""

    def __init__(self, left: int = 0) -> None:
        self.left = left

    def take(self, size: int) -> None:
        """Hold more of them; raises `TooMuch`."""
        self.left -= size
        if self.left < 0:
            raise TooMuch("the message holds too many values; send several")


MOST_HELD_VALUES = 3_000_000
"""Values of a message, where some count for more, by the time that they take; so all take about a second."""
_CONTAINER, _BYTES, _DATE = 4, 3, 12
_PLAIN = frozenset({type(None), bool, int, float, str})


def plain(event: Any, held: HeldValues) -> Any:
    """An event as JSON could hold it: bytes as base64 text, and times as ISO 8601.

    >>> plain({"picture": b"abc"}, HeldValues(10))
    {'picture': 'YWJj'}
    """
    return _plain(event, DEEPEST + 1, held.take)


def _plain(value: Any, levels: int, take: Callable[[int], None]) -> Any:
    # By its type, because matching patterns takes three times as long.
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        if not levels:
            raise RecursionError
        take(len(value) + _CONTAINER)
        if not all(type(name) is str for name in value):
            odd = next(name for name in value if type(name) is not str)
            raise ValueError(f"the name {odd!r} of a field is not a text")
        return {
            name: inner if type(inner) in _PLAIN else _plain(inner, levels - 1, take) for name, inner in value.items()
        }
    if kind is list:
        if not levels:
            raise RecursionError
        take(len(value) + _CONTAINER)
        return [inner if type(inner) in _PLAIN else _plain(inner, levels - 1, take) for inner in value]
    if kind is bytes:
        take(_BYTES)
        return base64.b64encode(value).decode()
    if isinstance(value, date):
        take(_DATE)
        return value.isoformat()
    raise ValueError(f"a value is of the type {kind.__name__}, which JSON does not have")


def shown_value(value: Any) -> str:
    """A value that is unfit, as a text to show."""
    try:
        return repr(value)[:1_000]
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that is too deep or too large to show"


def finite_values(fast: Decoding, slow: Decoding, schema: Schema) -> Decoding:
    """What reads by a way that also takes numbers that are not finite, and by a stricter one if there were any.

    In JSON there is no such number. To look for them by column takes next to nothing.
    """
    floats = [name for name, kind in schema.fields.items() if kind is Kind.FLOAT]

    def decode(messages: Sequence[bytes]) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
        events, unfit = fast(messages)
        if all(pc.all(pc.is_finite(events.column(name))).as_py() is not False for name in floats):
            return events, unfit
        return slow(messages)

    return decode


_SHOWN = 100
"""Characters that are shown of a topic."""


def on_topic(topic: str, unfit: Unfit) -> Unfit:
    """What is reported of a message or event, with the topic that it came on."""
    shown = topic if len(topic) <= _SHOWN else f"{topic[: _SHOWN - 1]}…"
    return replace(unfit, reason=f"on {shown}: {unfit.reason}")
