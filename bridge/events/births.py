"""Births: when the raw events that caused events had been received, so that whoever gets an output can tell its age.

Events that follow each other and were born together share one birth. Over a bridge births go on as they are, while a
stamp tells when a spool got something. What was spooled or recorded without births is of unknown birth.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

UNKNOWN = 0
"""When events were born of which nobody knows it; earlier than all that is known."""


class Birth(NamedTuple):
    """When some consecutive events were born; made by receivers and generators, and by the kernel for what it emits."""

    many: int
    """How many events these are."""
    at: int
    """When Braid's first spool received what caused them, in milliseconds."""


def part_of(births: Sequence[Birth], first: int, end: int) -> tuple[Birth, ...]:
    """The births of some of the events, by their places among all.

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
    """Births as text; empty where there are none.

    >>> births_text([Birth(3, 100), Birth(2, 200)])
    '[[3,100],[2,200]]'
    """
    return msgspec.json.encode(births).decode() if births else ""


def births_in(text: str | None, count: int) -> tuple[Birth, ...]:
    """The births of so many events from their text, which may be absent; raises ValueError where it is none of these.

    >>> births_in("[[3,100],[2,200]]", 5)
    (Birth(many=3, at=100), Birth(many=2, at=200))
    """
    if not text:
        return ()
    try:
        births = tuple(Birth(_whole(many), _whole(at)) for many, at in json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{text[:100]!r} tells no births: {error}") from error
    if sum(birth.many for birth in births) != count:
        raise ValueError(f"{text[:100]!r} tells the births of another number of events than {count}")
    return births


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise TypeError(f"{value!r} is no count and no time")
    return value
