"""SenML (RFC 8428): packs of records, which apply base values to all that come after them.

A resolved record has the labels of the standard: `n` the whole name, `u` the unit, `t` the time, and `v`, `vs`, `vb` or
`vd` the value. The time is in milliseconds since 1970, as times are in Braid. One that the standard calls relative is
added to when the message is read.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from bridge.formats.texts import NO_KINDS, Kinds
from bridge.formats.values import shown_value, untyped
from bridge.messages import LARGEST_EVENT, LARGEST_RAW_MESSAGE
from bridge.raw_events import (
    MessageReading,
    TooMuch,
    Unfit,
    events_by,
    shown_text,
    texts_to_read,
    too_much,
    values_in,
)
from dags import Schema
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
    return partial(
        events_by, MessageReading(parts=_parts, read=untyped, values=partial(_resolved, clock)), schema=schema
    )


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
