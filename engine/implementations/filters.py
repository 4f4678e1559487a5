"""Filters: tasks that make unwanted values null, or drop their events.

Some look values up in sets. A Bloom filter is a set that may report false members, but never misses a member. A model
is the text of a filter: the number of members it was made for, its error rate, and its bits in base64. The same members
make the same text on every machine.
"""

import base64
import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.behaviour import Behaviour, Implementation, NoBehaviour, PortEmission
from engine.implementations.values import Flags, one_port, replaced, unfit
from engine.records.state import Staged
from engine.tasks import filters as described

if TYPE_CHECKING:
    from rbloom import Bloom


_DIGEST_BYTES = 16
_KIND = "bloom1"
_LARGEST_FILE = described.MOST_FILTER_BITS // 6 + 1_000
"""Bytes of a file with a model: base64 takes a byte for six bits."""


def _digest(value: str) -> bytes:
    return hashlib.blake2b(value.encode(), digest_size=_DIGEST_BYTES).digest()


def _digest_number(digest: bytes) -> int:
    return int.from_bytes(digest, "big", signed=True)


def _bloom_of(members: Iterable[int], expected: int, false_positives: float) -> "Bloom":
    """Make a filter with these members, given as numbers."""
    try:
        from rbloom import Bloom  # noqa: PLC0415 - an optional package, which only these tasks need
    except ImportError as error:
        raise NoBehaviour(f"Bloom filters need rbloom ({error}); install braid[sketches] on every worker") from error
    made = Bloom(expected, false_positives, int)
    made.update(members)
    return made


def _bloom_in(model: str) -> "Bloom":
    """Read a filter from its text. Raises ValueError if it is not one."""
    from rbloom import Bloom  # noqa: PLC0415 - see `bloom_of`

    try:
        kind, expected, rate, text = model.split(":")
        saved = base64.b64decode(text, validate=True)
        # Checked against the actual number of bits, so that a forged text costs nothing.
        count = int(expected)
        if kind != _KIND or not 0 < count <= 8 * len(saved):
            raise ValueError("its form is wrong")  # noqa: TRY301 - handled like all other faults
        empty = _bloom_of((), count, float(rate)).save_bytes()
        if (len(saved), saved[:8]) != (len(empty), empty[:8]):
            raise ValueError("its size is wrong")  # noqa: TRY301 - handled like all other faults
        return Bloom.load_bytes(saved, int)
    except (ValueError, OverflowError) as error:
        message = f"the model {model[:40]!r} is not a Bloom filter: {error}"
        raise ValueError(f"{message}; make it with bloom_filter_train") from None


def _bloom_for(members: described.Members) -> "Bloom":
    """Make the filter of a config, in a worker."""
    if members.file is None:
        known = map(_digest_number, map(_digest, members.known))
        return _bloom_of(known, members.expected, members.false_positives)
    path = Path(members.file.path)
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise NoBehaviour(
                f"the model {members.file.place!r} has more than {_LARGEST_FILE:,} bytes; make it for fewer values"
            )
        content = path.read_bytes()
    except OSError as error:
        raise NoBehaviour(f"the model {members.file.place!r} cannot be read: {error.strerror}; put it there") from error
    if (actual := hashlib.sha256(content).hexdigest()) != members.sha256:
        raise NoBehaviour(
            f"the file {members.file.place!r} has the digest {actual}, not that in the config; correct one of the two"
        )
    _bloom_of((), 1, 0.5)
    return _bloom_in(content.decode("ascii", "replace").strip())


_LEAST, _MOST = -(2**63), 2**63 - 1
_PLAIN = frozenset({pa.int64(), pa.float64()})
"""The types whose columns are arrays of numbers as they are, if nothing is null."""
_NONE: npt.NDArray[np.int64] = np.empty(0, np.int64)


def _range_filter(config: described.RangeFilterConfig, events: pa.RecordBatch, _state: Staged) -> PortEmission:
    """Both bounds are inclusive.

    Null and NaN are out of range.

    >>> bounds, events = {"field": "warmth", "min": -10, "max": 40}, [{"warmth": 20.5}, {"warmth": 99.0}]
    >>> try_out(range_filter, bounds, events)
    {'out': [{'warmth': 20.5}, {'warmth': None}]}
    >>> try_out(range_filter, {**bounds, "outside": "drop"}, events)
    {'out': [{'warmth': 20.5}]}
    """
    inside = _within(events.column(config.field), config.min, config.max)
    return _passed(events, {config.field: inside}, nulls=config.outside == "null")


def _multi_range_filter(
    config: described.MultiRangeFilterConfig, events: pa.RecordBatch, _state: Staged
) -> PortEmission:
    """Bounds are inclusive.

    Null and NaN are out of range. With `named_by`, each event has one number, whose bounds depend on the name in that
    field. A name without bounds passes with any number, even null.

    >>> ranges = {"warmth": {"min": -10, "max": 40}, "dust": {"min": 0, "max": 500}}
    >>> try_out(multi_range_filter, {"ranges": ranges}, [{"warmth": 20, "dust": 10}, {"warmth": 99, "dust": 10}])
    {'out': [{'dust': 10, 'warmth': 20}, {'dust': 10, 'warmth': None}]}
    >>> events = [{"of": "warmth", "is": 99}, {"of": "dust", "is": 99}, {"of": "noise", "is": 99}]
    >>> try_out(multi_range_filter, {"ranges": ranges, "named_by": "of", "field": "is"}, events)["out"]
    [{'is': None, 'of': 'warmth'}, {'is': 99, 'of': 'dust'}, {'is': 99, 'of': 'noise'}]
    """
    nulls = config.outside == "null"
    if config.named_by is None or config.field is None:
        insides = {name: _within(events.column(name), bounds.min, bounds.max) for name, bounds in config.ranges.items()}
        return _passed(events, insides, nulls=nulls)
    column, names = events.column(config.field), events.column(config.named_by)
    inside = np.ones(events.num_rows, bool)
    for name, bounds in config.ranges.items():
        here = _flags(pc.equal(names, name))
        inside = np.where(here, _within(column, bounds.min, bounds.max), inside)
    return _passed(events, {config.field: inside}, nulls=nulls)


def _within(column: pa.Array, least: float, most: float) -> Flags:
    """True where a value is within the bounds; False for nulls and NaN."""
    if pa.types.is_integer(column.type):
        # As integers, because the nearest float of a large one may be beyond the bound.
        least, most = max(math.ceil(least), _LEAST), min(math.floor(most), _MOST)
        if least > most:
            return np.zeros(len(column), bool)
    if column.type in _PLAIN and not column.null_count:
        # With few events, each call of Arrow costs more than their values do.
        values: npt.NDArray[Any] = column.to_numpy()
        inside: Flags = (values >= least) & (values <= most)
        return inside
    return _flags(pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most)))


def _flags(column: pa.Array) -> Flags:
    """The values of a column of booleans; False for nulls."""
    flags: Flags = column.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - it is the value
    return flags


def _nulled(column: pa.Array, inside: Flags) -> pa.Array:
    return pc.if_else(pa.array(inside), column, pa.scalar(None, column.type))


def _kept(events: pa.RecordBatch, inside: Flags) -> PortEmission:
    if inside.all():
        return PortEmission(events)
    kept = np.flatnonzero(inside)
    return PortEmission(events.take(pa.array(kept)), kept)


def _passed(events: pa.RecordBatch, insides: Mapping[str, Flags], *, nulls: bool) -> PortEmission:
    """The events whose fields are all inside; or all events, with the fields outside made null."""
    if nulls:
        for name, inside in insides.items():
            events = replaced(events, name, _nulled(events.column(name), inside))
        return PortEmission(events)
    return _kept(events, np.logical_and.reduce(list(insides.values())))


def _bloom_filter(config: described.BloomFilterConfig) -> Behaviour:
    """A few values outside the set pass by mistake.

    Null is outside the set. A number is looked up as its text.

    >>> config = {"field": "sensor", "known": ["a", "b"], "expected": 100, "nulls": "warmth"}
    >>> try_out(bloom_filter, config, [{"sensor": "a", "warmth": 20.5}, {"sensor": "x", "warmth": 21.0}])["out"]
    [{'sensor': 'a', 'warmth': 20.5}, {'sensor': 'x', 'warmth': None}]
    """
    bloom = _bloom_for(config)
    return lambda _port, events, _state: {"out": _looked_up(events, config, bloom)}


def _looked_up(events: pa.RecordBatch, config: described.LookedUp, bloom: "Bloom") -> PortEmission:
    inside = _belongs(events.column(config.field), bloom)
    if config.outside == "null":
        nulls = config.nulls or config.field
        return PortEmission(replaced(events, nulls, _nulled(events.column(nulls), inside)))
    return _kept(events, inside)


def _belongs(column: pa.Array, bloom: "Bloom") -> Flags:
    """True where a value is in the set. Each distinct value is looked up once."""
    encoded = column.cast(pa.string()).dictionary_encode()
    members = pa.array(
        [_digest_number(_digest(value)) in bloom for value in encoded.dictionary.to_pylist()], pa.bool_()
    )
    return _flags(members.take(encoded.indices))


def _multi_bloom_filter(config: described.MultiBloomFilterConfig) -> Behaviour:
    """Looks up each field as `bloom_filter` does.

    >>> filters = {"sensor": {"known": ["a"], "expected": 100}, "street": {"known": ["7"], "expected": 100}}
    >>> try_out(multi_bloom_filter, {"filters": filters}, [{"sensor": "a", "street": 7}, {"sensor": "a", "street": 8}])
    {'out': [{'sensor': 'a', 'street': 7}, {'sensor': 'a', 'street': None}]}
    """
    blooms = {name: _bloom_for(members) for name, members in config.filters.items()}

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        insides = {name: _belongs(events.column(name), bloom) for name, bloom in blooms.items()}
        return {"out": _passed(events, insides, nulls=config.outside == "null")}

    return behave


def _bloom_filter_train(config: described.BloomFilterTrainConfig) -> Behaviour:
    """Emits a model at the event that completes a block. Skips nulls.

    The state is 16 bytes for each event of the incomplete block.

    >>> config = {"field": "sensor", "every": 2, "expected": 10}
    >>> out = try_out(bloom_filter_train, config, [{"sensor": "a"}, {"sensor": "b"}])["out"]
    >>> [event["model"][:10] for event in out]
    ['bloom1:10:']
    """
    full = config.every * _DIGEST_BYTES
    _bloom_of((), 1, 0.5)

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        column = events.column(config.field)
        present = np.flatnonzero(column.is_valid())
        kept: bytes = state.get(()) or b""
        digests = kept + b"".join(map(_digest, column.cast(pa.string()).drop_null().to_pylist()))
        count = len(digests) // full
        models = [_model(digests[at * full : (at + 1) * full], config) for at in range(count)]
        if len(present):
            state.put((), digests[count * full :])
        ends = present[np.arange(1, count + 1) * config.every - len(kept) // _DIGEST_BYTES - 1]
        return {"out": PortEmission(pa.record_batch({"model": pa.array(models, pa.string())}), ends)}

    return behave


def _newest(
    _old: described.BloomFilterTrainConfig, new: described.BloomFilterTrainConfig, _key: tuple[Any, ...], digests: bytes
) -> bytes | None:
    """The state for smaller blocks. The next value ends a block."""
    most = (new.every - 1) * _DIGEST_BYTES
    return digests[-most:] if most else None


def _model(digests: bytes, config: described.BloomFilterTrainConfig) -> str:
    """The text of the filter of concatenated digests."""
    members = (_digest_number(digests[at : at + _DIGEST_BYTES]) for at in range(0, len(digests), _DIGEST_BYTES))
    bloom = _bloom_of(members, config.expected, config.false_positives)
    return f"{_KIND}:{config.expected}:{config.false_positives!r}:{base64.b64encode(bloom.save_bytes()).decode()}"


def _trained_bloom_filter(config: described.TrainedBloomFilterConfig) -> Behaviour:
    """Before the first model, everything passes.

    A text that is not a model is parked, and the earlier model stays. The state is the model.

    >>> train = {"field": "sensor", "every": 1, "expected": 10}
    >>> (model,) = try_out(bloom_filter_train, train, [{"sensor": "a"}])["out"]
    >>> events = [("in", {"sensor": "x"}), ("model", model), ("in", {"sensor": "x"}), ("in", {"sensor": "a"})]
    >>> try_out(trained_bloom_filter, {"field": "sensor"}, events)
    {'out': [{'sensor': 'x'}, {'sensor': None}, {'sensor': 'a'}]}
    """
    _bloom_of((), 1, 0.5)
    loaded: dict[str, Bloom] = {}

    def bloom_of(model: str) -> "Bloom":
        if model not in loaded:
            bloom = _bloom_in(model)
            loaded.clear()
            loaded[model] = bloom
        return loaded[model]

    def behave(port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        if port == "model":
            models = events.column("model").to_pylist()
            for model in models:
                if model is None:
                    raise unfit("model", None, "it needs a model")
                bloom_of(model)
            if models:
                state.put((), models[-1])
            return {}
        latest = state.get(())
        return {"out": PortEmission(events) if latest is None else _looked_up(events, config, bloom_of(latest))}

    return behave


def _gate(config: described.GateConfig, events: pa.RecordBatch, _state: Staged) -> PortEmission:
    """Opened and closed while it runs, from one event to the next; nothing is kept meanwhile.

    >>> try_out(gate, {}, [{"room": "a"}]), try_out(gate, {"open": False}, [{"room": "a"}])
    ({'out': [{'room': 'a'}]}, {'out': []})
    """
    return PortEmission(events) if config.open else PortEmission(events.slice(0, 0), _NONE)


range_filter = Implementation(type=described.RANGE_FILTER, make=one_port(_range_filter))
multi_range_filter = Implementation(type=described.MULTI_RANGE_FILTER, make=one_port(_multi_range_filter))
bloom_filter = Implementation(type=described.BLOOM_FILTER, make=_bloom_filter)
multi_bloom_filter = Implementation(type=described.MULTI_BLOOM_FILTER, make=_multi_bloom_filter)
bloom_filter_train = Implementation(type=described.BLOOM_FILTER_TRAIN, make=_bloom_filter_train, transform=_newest)
trained_bloom_filter = Implementation(type=described.TRAINED_BLOOM_FILTER, make=_trained_bloom_filter)
gate = Implementation(type=described.GATE, make=one_port(_gate))
