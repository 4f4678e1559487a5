"""SenML (RFC 8428): packs of records, which apply base values to all that come after them.

A resolved record has the labels of the standard: `n` the whole name, `u` the unit, `t` the time, and `v`, `vs`, `vb` or
`vd` the value. The time is in milliseconds since 1970, as times are in Braid. One that the standard calls relative is
added to when the message is read.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from bridge.formats.texts import NO_KINDS, Kinds
from bridge.formats.values import shown_value
from bridge.messages import LARGEST_EVENT, LARGEST_RAW_MESSAGE
from bridge.raw_events import (
    EARLIEST,
    LATEST,
    MessageReading,
    TooMuch,
    Unfit,
    events_by,
    shown_text,
    texts_to_read,
    too_much,
    typed_events,
    untyped,
    values_in,
)
from dags import Kind, Schema
from dags.message_formats import SenmlMessages

_NUMBER, _TEXT = (int, float), (str,)
_BASES: Mapping[str, tuple[type, ...]] = {
    "bn": _TEXT,
    "bt": _NUMBER,
    "bu": _TEXT,
    "bv": _NUMBER,
    "bs": _NUMBER,
    "bver": _NUMBER,
}
_VALUES: Mapping[str, tuple[type, ...]] = {"v": _NUMBER, "vs": _TEXT, "vb": (bool,), "vd": _TEXT}
_LABELS: Mapping[str, tuple[type, ...]] = {**_VALUES, "n": _TEXT, "u": _TEXT, "t": _NUMBER, "s": _NUMBER, "ut": _NUMBER}
_NEWEST_VERSION = 10
_ABSOLUTE = 2**28
"""Seconds from which on a time is one since 1970, and not relative to now."""
_LONGEST_NAMES = 4 * LARGEST_RAW_MESSAGE
"""Characters that the base names and units of a message may take in all its events, each of which repeats them."""
_WORTH_IT = 5
"""Records of a pack from which on it is faster to read them label by label."""


def senml_decoder(
    _messages: SenmlMessages, schema: Schema, _kinds: Kinds = NO_KINDS, *, clock: Callable[[], float] = time.time
) -> Callable[[Sequence[bytes]], tuple[pa.RecordBatch, tuple[Unfit, ...]]]:
    """A decoder of SenML packs.

    >>> from dags import Kind
    >>> decode = senml_decoder(SenmlMessages(), Schema.of(n=Kind.STRING, t=Kind.TIMESTAMP, v=Kind.FLOAT))
    >>> pack = b'[{"bn": "a/", "bt": 1320067464, "n": "warmth", "v": 20.5}, {"n": "light", "t": 1, "v": 3}]'
    >>> events, _ = decode([pack])
    >>> [(event["n"], event["t"].second, event["v"]) for event in events.to_pylist()]
    [('a/warmth', 24, 20.5), ('a/light', 25, 3.0)]
    """
    reading = MessageReading(parts=_parts, read=_typed(schema, clock), values=partial(_resolved, clock))
    return partial(events_by, reading, schema=schema)


_PLAIN_TYPES: Mapping[tuple[type, ...], type] = {_NUMBER: float, _TEXT: str, (bool,): bool}
# A label may be missing, but not null, so None is no value of its type.
_Record: Any = msgspec.defstruct(
    "Record",
    [(label, _PLAIN_TYPES[types], None) for label, types in {**_BASES, **_LABELS}.items()],
    forbid_unknown_fields=True,
    gc=False,
)
"""A record that has the labels of the standard alone."""
_NAMES, _TIMES, _NUMBERS = attrgetter("n"), attrgetter("t"), attrgetter("v")
_SELDOM = attrgetter(*_BASES, "vs", "vb", "vd", "s", "ut", "u")
_NONE_OF_THEM = (None,) * 12
_TYPED: Mapping[str, Kind] = MappingProxyType(
    {
        "n": Kind.STRING,
        "t": Kind.TIMESTAMP,
        "v": Kind.FLOAT,
        "vs": Kind.STRING,
        "vb": Kind.BOOLEAN,
        "vd": Kind.STRING,
        "u": Kind.STRING,
    }
)
"""The labels of records that are read at once, and the kinds that they have to be declared as."""


class _TypedPacks:
    """Reads packs straight into the places for the fields of a schema.

    An error is raised for a pack that is not plain in every way: with labels that are not declared, base values that
    are added, or anything wrong.
    """

    def __init__(self, schema: Schema, clock: Callable[[], float]) -> None:
        labels, names = [*_TYPED], (*schema.names(), "")
        self._clock = clock
        self._decode = msgspec.json.Decoder(_Record | list[_Record]).decode
        self._event = typed_events(schema).event
        # What a record does not have is null, as is the column of undeclared fields.
        self._ordered = itemgetter(*(labels.index(name) if name in labels else len(labels) for name in names))
        self._undeclared = [attrgetter(label) for label in ("s", "ut", *(name for name in labels if name not in names))]
        self._has_unit = "u" in names

    def read(self, message: bytes) -> Any:
        """The events of a pack."""
        pack, now = self._decode(message), self._clock()
        if not isinstance(pack, list):
            return self._one_by_one([pack], now)
        if len(pack) >= _WORTH_IT and list(map(_SELDOM, pack[1:])).count(_NONE_OF_THEM) == len(pack) - 1:
            events = self._one_by_one(pack[:1], now)
            if more := self._together(pack[0], pack[1:]):
                return events + more
        return self._one_by_one(pack, now)

    def _one_by_one(self, pack: Sequence[Any], now: float) -> list[Any]:
        name, start, spent = "", 0.0, 0
        unit: str | None = None
        events: list[Any] = []
        for record in pack:
            if not record.bn is record.bt is record.bu is record.bv is record.bs is record.bver is None:
                if not record.bv is record.bs is record.bver is None:
                    raise ValueError
                name = name if record.bn is None else record.bn
                start = start if record.bt is None else record.bt
                unit = unit if record.bu is None else record.bu
            full_name = name if record.n is None else name + record.n
            seconds = start if record.t is None else start + record.t
            milliseconds = round(1_000 * (seconds if seconds >= _ABSOLUTE else now + seconds))
            values = record.v, record.vs, record.vb, record.vd
            if values.count(None) != len(values) - 1 or not full_name or not EARLIEST <= milliseconds <= LATEST:
                raise ValueError
            for label in self._undeclared:
                if label(record) is not None:
                    raise ValueError
            row = full_name, milliseconds, *values, unit if record.u is None else record.u, None
            events.append(self._event(*self._ordered(row)))
            spent += len(name) + len(unit or "")
        if spent > _LONGEST_NAMES or (unit is not None and not self._has_unit):
            raise ValueError
        return events

    def _together(self, first: Any, rest: Sequence[Any]) -> list[Any]:
        """Records of numbers whose base values are all in a first one, label by label; empty if they are less plain."""
        names, times, numbers = (list(map(label, rest)) for label in (_NAMES, _TIMES, _NUMBERS))
        start, name, unit, count = first.bt, first.bn or "", first.bu, len(rest)
        if start is None or None in names or None in times or None in numbers or ("" in names and not name):
            return []
        if start + min(times) < _ABSOLUTE or 1_000 * (start + max(times)) > LATEST:
            return []
        if (len(name) + len(unit or "")) * count > _LONGEST_NAMES:
            return []
        row = (
            [name + own for own in names] if name else names,
            [round(1_000 * (start + time)) for time in times],
            numbers,
            *(repeat(None) for _text_or_flag in range(3)),
            repeat(unit),
            repeat(None),
        )
        return list(map(self._event, *self._ordered(row)))


def _typed(schema: Schema, clock: Callable[[], float]) -> Callable[[bytes], Any]:
    """What reads packs at once, if the schema declares what all of them have as what it is."""
    kinds = schema.fields
    if not {"n", "t"} <= kinds.keys() or any(kinds.get(label, kind) is not kind for label, kind in _TYPED.items()):
        return untyped
    return _TypedPacks(schema, clock).read


def _parts(message: bytes, unfit: list[Unfit]) -> Sequence[bytes]:
    try:
        if texts_to_read(message) is not None:
            # It cannot be left out, because the records behind it may need its base values.
            raise TooMuch(f"a record of the message has more than {LARGEST_EVENT:,} bytes")  # noqa: TRY301 - as the others
    except TooMuch as error:
        unfit.append(too_much(message, error))
        return ()
    return (message,)


def _resolved(clock: Callable[[], float], message: bytes, unfit: list[Unfit]) -> Iterator[dict[str, Any]]:
    """The records of a pack that have a value, resolved."""
    pack = values_in(message, unfit)
    now, base, spent = clock(), dict[str, Any](), 0
    for place, record in enumerate(pack):
        try:
            base |= _based(record)
        except ValueError as error:
            # All records behind it could be other than they are meant.
            unfit.append(
                Unfit(event=shown_text(message[:1_000]), reason=f"record {place + 1}: {error}", count=len(pack) - place)
            )
            return
        spent += len(base.get("bn", "")) + len(base.get("bu", ""))
        if spent > _LONGEST_NAMES:
            reason = "its base names and units are too long for so many records"
            unfit.append(Unfit(event=shown_text(message[:1_000]), reason=reason, count=len(pack) - place))
            return
        try:
            if event := _event(record, base, now):
                yield event
        except (ValueError, OverflowError) as error:
            unfit.append(Unfit(event=shown_value(record), reason=str(error)))


def _based(record: Any) -> dict[str, Any]:
    """The base values of a record."""
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - the data is wrong, not the call
    bases = {label: record[label] for label in _BASES if label in record}
    _check(bases, _BASES)
    if bases.get("bver", 0) > _NEWEST_VERSION:
        raise ValueError(f"it has version {bases['bver']}, and {_NEWEST_VERSION} is the newest known")
    return bases


def _event(record: Mapping[str, Any], base: Mapping[str, Any], now: float) -> dict[str, Any] | None:
    """A record with its base values applied; None if it has nothing but base values."""
    event = {label: value for label, value in record.items() if label not in _BASES}
    if not event:
        return None
    _check(event, _LABELS)
    if unknown := next((label for label in event if label.endswith("_")), None):
        raise ValueError(f"the label {unknown!r} has to be understood, and is not known")
    if len(_VALUES.keys() & event.keys()) > 1 or not (_VALUES.keys() | {"s"}) & event.keys():
        raise ValueError("a record has one value (v, vs, vb or vd), or a sum (s)")
    event["n"] = base.get("bn", "") + event.get("n", "")
    if not event["n"]:
        raise ValueError("the record has no name")
    if "bu" in base:
        event.setdefault("u", base["bu"])
    for label, added in (("v", "bv"), ("s", "bs")):
        if label in event and added in base:
            event[label] += base[added]
    seconds = base.get("bt", 0) + event.get("t", 0)
    event["t"] = round(1_000 * (seconds if seconds >= _ABSOLUTE else now + seconds))
    return event


def _check(labels: Mapping[str, Any], types: Mapping[str, tuple[type, ...]]) -> None:
    for label, value in labels.items():
        if (kinds := types.get(label)) is None:
            continue
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(f"the value of {label!r} is {str(value)[:100]!r}, which is of another kind")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"the value of {label!r} is not finite")
