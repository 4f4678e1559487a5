"""What a published function keeps from event to event, `entry(event, kept, config) -> (output, kept)`, and migrates.

The function gets the value that is kept under the key of the event, or None, and returns what leaves, as other
functions do, with the value to keep; None forgets the key. If it raises, or returns something else than it declares,
the key keeps its value.

Values are packed after each event, so a function gets a copy of its own, and the same however batches are cut. What
cannot be packed cannot be kept.

A migration calls `migrate(old_config, new_config, key, kept)` for each key, and keeps what that returns.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from engine.code.cell.calls import GIVEN, EventCalls, Outcome, WrongOutput, failure

_pack = msgspec.msgpack.Encoder().encode
unpacked_kept: Callable[[bytes], Any] = msgspec.msgpack.Decoder().decode
"""A value, from what `packed_kept` made of it."""


class KeptTooMuch(ValueError):
    """A function would keep more than it declares."""


class KeptBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a function may keep, and what it keeps so far under all its keys; made by the worker."""

    most_keys: int
    most_bytes: int
    keys: int
    bytes: int


class KeptValues:
    """The packed values of some keys as the events of a batch change them. A key is known by its place."""

    def __init__(self, values: Sequence[bytes | None], key_bytes: Sequence[int], bounds: KeptBounds) -> None:
        """Each key has as many bytes as `key_bytes` says."""
        self._values = list(values)
        self._key_bytes = key_bytes
        self._bounds = bounds
        self.keys, self.bytes = bounds.keys, bounds.bytes
        """What is kept under all keys by now."""
        self.changed: dict[int, bytes | None] = {}
        """The values that have changed since it was emptied."""

    def get(self, at: int) -> Any:
        """The value of a key, for its function alone; None if there is none."""
        packed = self._values[at]
        return None if packed is None else unpacked_kept(packed)

    def put(self, at: int, packed: bytes | None) -> None:
        """Keep a packed value. Raises `KeptTooMuch`."""
        if packed != self._values[at]:
            self.put_all({at: packed})

    def put_all(self, values: Mapping[int, bytes | None]) -> None:
        """Keep packed values together, or none of them. Raises `KeptTooMuch`."""
        keys, size, bounds = self.keys, self.bytes, self._bounds
        for at, packed in values.items():
            before = self._values[at]
            keys += (packed is not None) - (before is not None)
            size += self._weight(at, packed) - self._weight(at, before)
        if keys > max(self.keys, bounds.most_keys):
            raise KeptTooMuch(f"it would keep something under more than {bounds.most_keys:,} keys")
        if size > max(self.bytes, bounds.most_bytes):
            raise KeptTooMuch(f"it would keep more than {bounds.most_bytes:,} bytes")
        self.keys, self.bytes = keys, size
        for at, packed in values.items():
            self._values[at] = self.changed[at] = packed

    def part(self, places: Sequence[int]) -> tuple[list[bytes | None], list[int], KeptBounds]:
        """What is kept under some of the keys: as another one is made of it."""
        bounds = msgspec.structs.replace(self._bounds, keys=self.keys, bytes=self.bytes)
        return [self._values[at] for at in places], [self._key_bytes[at] for at in places], bounds

    def _weight(self, at: int, packed: bytes | None) -> int:
        return 0 if packed is None else self._key_bytes[at] + len(packed)


def packed_kept(value: Any) -> bytes:
    """A value as it is kept. Raises `WrongOutput`.

    >>> unpacked_kept(packed_kept({"seen": (1, 2.5)}))
    {'seen': [1, 2.5]}
    """
    try:
        packed = _pack(value)
        # What cannot be read again is refused now, and not with the next event.
        unpacked_kept(packed)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise WrongOutput(f"what it keeps cannot be kept: {str(error)[:200]}") from None
    return packed


class KeepingCalls(EventCalls):
    """The calls of a function that keeps something."""

    def __init__(  # noqa: PLR0913, PLR0917 - as for all calls, and what it keeps
        self,
        function: Callable[..., Any],
        digest: str,
        needed: Mapping[str, str],
        fields: Mapping[str, str],
        kept: KeptValues,
        config: str,
    ) -> None:
        super().__init__(function, digest, needed, fields)
        self._kept = kept
        self._config = config

    def outcomes_at(self, places: Sequence[int], columns: Sequence[Sequence[Any]]) -> Iterator[Outcome]:
        """The outcome of each event, in order; each is at the place of its key."""
        return map(self._outcome_at, places, zip(*columns, strict=True) if columns else [()] * len(places))

    def _outcome_at(self, at: int, row: tuple[Any, ...]) -> Outcome:
        event: dict[str, Any] = dict(zip(self._names, row, strict=True))
        try:
            self._give(event)
            return self._kept_and_made(at, event)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
            return failure(error, self._digest)

    def _kept_and_made(self, at: int, event: dict[str, Any]) -> list[Any] | None:
        pair = self._function(dict(event), self._kept.get(at), json.loads(self._config))
        if not isinstance(pair, tuple) or len(pair) != 2:  # noqa: PLR2004 - a pair
            raise WrongOutput(f"it returns a {type(pair).__name__}, not a pair of what leaves and what it keeps")
        output, value = pair
        made = self._taken(event, output)
        self._kept.put(at, None if value is None else packed_kept(value))
        return made


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that a migration is about; made by the worker."""

    old: str
    new: str
    """The configs, as JSON."""
    kinds: list[str]
    """The kinds of the fields of the key."""
    keys: list[list[Any]]
    values: list[bytes]

    def values_by(self, function: Callable[..., Any]) -> Iterator[bytes | None]:
        """What each key keeps from now on. Raises what the function raises, and `WrongOutput`."""
        for key, value in zip(self.keys, self.values, strict=True):
            given = (
                GIVEN[kind](part) if kind in GIVEN and part is not None else part
                for kind, part in zip(self.kinds, key, strict=True)
            )
            becomes = function(json.loads(self.old), json.loads(self.new), tuple(given), unpacked_kept(value))
            yield None if becomes is None else packed_kept(becomes)
