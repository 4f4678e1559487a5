"""Births: the times at which the raw events behind an event were received, so that the age of an output is known.

Consecutive events that were born together share one birth. Births stay the same over a bridge, while a stamp is the
time at which a spool received something. Events that were spooled or recorded without births have an unknown birth.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

UNKNOWN = 0
"""The time of an unknown birth; earlier than all known ones."""


class Birth(NamedTuple):
    """The birth of consecutive events; made by receivers, by generators, and by the kernel for emitted events."""

    many: int
    """The number of events."""
    at: int
    """The time when Braid's first spool received their raw events, in milliseconds."""


def part_of(births: Sequence[Birth], first: int, end: int) -> tuple[Birth, ...]:
    """The births of a slice of the events.

    >>> part_of([Birth(3, 100), Birth(2, 200)], 2, 4)
    (Birth(many=1, at=100), Birth(many=1, at=200))
    """
    found, place = [], 0
    for many, at in births:
        if (left := min(end, place + many) - max(first, place)) > 0:
            found.append(Birth(left, at))
        place += many
    return tuple(found)


def births_text(births: Sequence[Birth]) -> str:
    """Births as text; empty if there are none.

    >>> births_text([Birth(3, 100), Birth(2, 200)])
    '[[3,100],[2,200]]'
    """
    return msgspec.json.encode(births).decode() if births else ""


def births_in(text: str | None, count: int) -> tuple[Birth, ...]:
    """The births of `count` events from their text, which may be absent; raises ValueError if it does not fit.

    >>> births_in("[[3,100],[2,200]]", 5)
    (Birth(many=3, at=100), Birth(many=2, at=200))
    """
    if not text:
        return ()
    try:
        births = tuple(Birth(_whole(many), _whole(at)) for many, at in json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{text[:100]!r} has no births: {error}") from error
    if sum(birth.many for birth in births) != count:
        raise ValueError(f"{text[:100]!r} has the births of another number of events than {count}")
    return births


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise TypeError(f"{value!r} is neither a count nor a time")
    return value
