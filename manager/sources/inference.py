"""The inference of a format and a schema from samples, by the rules by which a receiver takes events of a schema. Pure.

A field gets the narrowest kind that the receiver would take every value of. So a schema that is inferred from events
takes all of them, and where no other kind does, `json` does. A field that some events lack needs nothing special, since
every kind allows null. What the samples leave open is listed, because events to come may settle it in another way.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.formats.decoders import decoder
from bridge.formats.texts import FROM_TEXT
from bridge.raw_events import CONVERTED, REST_COLUMN, parsed
from dags import Kind, Schema
from dags.message_formats import (
    JSON,
    AvroMessages,
    JsonLinesMessages,
    JsonMessages,
    MessageFormat,
    MsgpackMessages,
    SenmlMessages,
    TextMessages,
    UnusableFormat,
)

MOST_DECLARED_FIELDS = 250
"""The fields that a source declares at most."""
_PREFERRED = (Kind.BOOLEAN, Kind.INTEGER, Kind.FLOAT, Kind.TIMESTAMP, Kind.STRING, Kind.JSON)
"""The kinds from narrow to wide."""
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]|$)")
_FROM_2001, _TO_2100 = 10**12, 4_102_444_800_000
"""Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The events of messages that a source without any declared field takes."""

    events: tuple[Mapping[str, Any], ...]
    unread: tuple[str, ...]
    """Why each other event, or message without any, is not taken."""


def samples_in(messages: Iterable[bytes], form: MessageFormat = JSON) -> Samples:
    r"""Read the events of messages.

    >>> samples_in([b'[{"t": 1}, 2]', b"warm"])  # doctest: +ELLIPSIS
    Samples(events=({'t': 1},), unread=('the event is not a JSON object', 'the message is not JSON: ...'))
    >>> from dags.message_formats import CsvMessages
    >>> samples_in([b"t,unit\n20.5,C"], CsvMessages())
    Samples(events=({'t': '20.5', 'unit': 'C'},), unread=())
    """
    # Without a declared field, each event stands as a whole in the column of those that are not.
    batch, unfit = decoder(form, Schema.of())(list(messages))
    events = (parsed((text or "{}").encode()) for text in batch.column(REST_COLUMN).to_pylist())
    return Samples(tuple(events), tuple(event.reason for event in unfit for _ in range(event.count)))


_SENML_LABELS = frozenset(["bn", "bt", "bu", "bv", "bs", "bver", "n", "u", "t", "v", "vs", "vb", "vd", "s", "ut"])


def _is_senml(message: bytes) -> bool:
    """Whether a message is a pack of SenML, of which one without a base name could as well be plain JSON."""
    pack = parsed(message)
    records = pack if isinstance(pack, list) and all(isinstance(record, dict) for record in pack) else []
    return any("bn" in record for record in records) and all(record.keys() <= _SENML_LABELS for record in records)


_CERTAIN: Sequence[tuple[MessageFormat, Callable[[bytes], object]]] = (
    (SenmlMessages(), _is_senml),
    (JsonMessages(), parsed),
    (JsonLinesMessages(), lambda message: message.strip().startswith(b"{")),
    (AvroMessages(), lambda message: message.startswith(b"Obj\x01")),
    (MsgpackMessages(), lambda message: message[:1] > b"\x7f"),
    (TextMessages(field="value"), float),
)
"""Formats that can be recognised, and what has to be true of every message besides that it can be read."""
_LOOKED_AT = 20
"""Messages by which a format is recognised."""


def recognised(messages: Sequence[bytes]) -> MessageFormat:
    r"""The format of messages that leave no doubt about it; JSON if they do.

    >>> [recognised([message]).kind for message in (b'{"t": 1}', b"\x81\xa1t\x01", b"21.5", b"t,unit\n20.5,C")]
    ['json', 'msgpack', 'text', 'json']
    """
    some = messages[:_LOOKED_AT]
    return next((form for form, is_certain in _CERTAIN if some and _are(form, is_certain, some)), JSON)


def _are(form: MessageFormat, is_certain: Callable[[bytes], object], messages: Sequence[bytes]) -> bool:
    try:
        if not all(is_certain(message) is not False for message in messages):
            return False
        return all(samples.events and not samples.unread for samples in (samples_in([one], form) for one in messages))
    except (ValueError, UnusableFormat):
        return False


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


def inferred(events: Sequence[Mapping[str, Any]], *, from_texts: bool = False) -> Inferred:
    """Infer a schema from events that a source without any declared field would take.

    Where a format has texts alone, the kinds of fields are those that their texts can be read as.

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
            kinds[name] = _kind_of_texts(present) if from_texts else _kind(present)
            if from_texts:
                present = [FROM_TEXT[kinds[name]](text) for text in present]
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


def _kind_of_texts(texts: Sequence[str]) -> Kind:
    # Of 0 and 1 it is likelier that they are numbers than that they are all true or false.
    narrow_first = (Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN, Kind.TIMESTAMP)
    return next((kind for kind in narrow_first if _suits(kind, texts) and _reads(kind, texts)), Kind.STRING)


def _reads(kind: Kind, texts: Iterable[str]) -> bool:
    """True if the receiver reads every text as a value of this kind."""
    try:
        for text in texts:
            FROM_TEXT[kind](text)
    except (TypeError, ValueError, OverflowError, OSError):
        return False
    return True


def _suits(kind: Kind, values: Iterable[Any]) -> bool:
    """True if a kind says what values look like: the receiver also takes 5.0 as an integer, and 5 as a time."""
    match kind:
        case Kind.INTEGER:
            return all(
                isinstance(value, int) or (isinstance(value, str) and _WHOLE.fullmatch(value)) for value in values
            )
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
