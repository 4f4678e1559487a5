"""The inference of a schema from sample events, by the rules by which a receiver takes events of a schema. Pure.

A field gets the narrowest kind that the receiver would take every value of. So a schema that is inferred from events
takes all of them, and where no other kind does, `json` does. A field that some events lack needs nothing special, since
every kind allows null. What the samples leave open is listed, because events to come may settle it in another way.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.raw_events import CONVERTED, REST_COLUMN, parsed, rows_in
from dags import Kind, Schema

MOST_DECLARED_FIELDS = 250
"""The fields that a source declares at most."""
_PREFERRED = (Kind.BOOLEAN, Kind.INTEGER, Kind.FLOAT, Kind.TIMESTAMP, Kind.STRING, Kind.JSON)
"""The kinds from narrow to wide."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]|$)")
_FROM_2001, _TO_2100 = 10**12, 4_102_444_800_000
"""Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The events of messages that a source without any declared field takes."""

    events: tuple[Mapping[str, Any], ...]
    unread: tuple[str, ...]
    """Why each other event, or message without any, is not taken."""


def samples_in(messages: Iterable[bytes]) -> Samples:
    r"""Read the events of messages.

    >>> samples_in([b'[{"t": 1}, 2]', b"warm"])  # doctest: +ELLIPSIS
    Samples(events=({'t': 1},), unread=('the message is not JSON: ...', 'the event is not a JSON object'))
    """
    events: list[Any] = []
    unread: list[str] = []
    for message in messages:
        try:
            content = parsed(message)
        except ValueError as error:
            unread.append(f"the message is not JSON: {error}")
        else:
            events += content if isinstance(content, list) else [content]
    unfit: dict[int, str] = {}

    def note(place: int, error: ValueError) -> None:
        unfit[place] = str(error)

    rows_in(events, Schema.of(), on_unfit=note)
    taken = (event for place, event in enumerate(events) if place not in unfit)
    return Samples(tuple(taken), (*unread, *unfit.values()))


@dataclass(frozen=True, slots=True)
class Undecided:
    """What the samples do not say about a field, or about all of them."""

    field: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Inferred:
    """A schema that takes all samples."""

    fields: Mapping[str, Kind]
    undecided: tuple[Undecided, ...]


def inferred(events: Sequence[Mapping[str, Any]]) -> Inferred:
    """Infer a schema from events that a source without any declared field would take.

    >>> samples = [{"t": 21, "station": "hill"}, {"t": 21.5, "at": "2026-03-01T12:00:00Z"}, {"t": None, "x": None}]
    >>> schema = inferred(samples)
    >>> ", ".join(f"{name} {kind}" for name, kind in schema.fields.items())
    'at timestamp, station string, t float'
    >>> [(undecided.field, undecided.why) for undecided in schema.undecided]
    [('x', 'every value is null, so it is not declared')]
    """
    values: dict[str, list[Any]] = {}
    for event in events:
        for name, value in event.items():
            values.setdefault(name, []).append(value)
    kinds: dict[str, Kind] = {}
    undecided: list[Undecided] = []
    for name in sorted(values):
        present = [value for value in values[name] if value is not None]
        if name == REST_COLUMN:
            undecided.append(Undecided(name, "Braid has a column of this name, so it is not declared"))
        elif not present:
            undecided.append(Undecided(name, "every value is null, so it is not declared"))
        else:
            kinds[name] = _kind(present)
            if why := _open(kinds[name], present):
                undecided.append(Undecided(name, why))
    if len(kinds) > MOST_DECLARED_FIELDS:
        often = Counter({name: len(values[name]) for name in kinds}).most_common(MOST_DECLARED_FIELDS)
        why = f"there are {len(kinds):,} fields; the {MOST_DECLARED_FIELDS} most frequent are declared"
        kinds = {name: kinds[name] for name in sorted(name for name, _ in often)}
        undecided = [one for one in undecided if one.field in kinds or one.field not in values]
        undecided.append(Undecided(None, why))
    return Inferred(kinds, tuple(undecided))


def _kind(values: Sequence[Any]) -> Kind:
    return next(kind for kind in _PREFERRED if _suits(kind, values) and _takes(kind, values))


def _suits(kind: Kind, values: Iterable[Any]) -> bool:
    """True if a kind says what values look like: the receiver also takes 5.0 as an integer, and 5 as a time."""
    match kind:
        case Kind.INTEGER:
            return all(isinstance(value, int) for value in values)
        case Kind.TIMESTAMP:
            return all(isinstance(value, str) and _DATE.match(value) for value in values)
        case _:
            return True


def _takes(kind: Kind, values: Iterable[Any]) -> bool:
    """True if the receiver takes every value as one of this kind."""
    try:
        for value in values:
            CONVERTED[kind](value)
    except (TypeError, ValueError, OverflowError, OSError):
        return False
    return True


def _open(kind: Kind, values: Sequence[Any]) -> str:
    """Return what the values leave open about their kind; empty if nothing."""
    if kind is Kind.INTEGER and all(_FROM_2001 <= value < _TO_2100 for value in values):
        return "the numbers may be times in milliseconds since 1970; if so, it is a timestamp"
    if kind is Kind.INTEGER:
        return "every number is whole; if others may come, it is a float"
    if kind is Kind.JSON and not all(isinstance(value, dict | list) for value in values):
        types = sorted({_WORDS[type(value)] for value in values})
        return f"the values are {' and '.join(types)}, which only json takes"
    return ""


_WORDS: Mapping[type, str] = {
    bool: "booleans",
    int: "numbers",
    float: "numbers",
    str: "texts",
    dict: "objects",
    list: "arrays",
}
