"""Statistics straight from their definitions, one event after the other."""

from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec
from datasketches import hll_sketch, tgt_hll_type

from engine.trial import At, Event


def key_of(event: Event, by: list[str]) -> tuple[Any, ...]:
    return tuple(event.get(field) for field in by)


def added(values: list[float]) -> float:
    """One after the other; `sum` rounds otherwise from Python 3.12 on."""
    total = 0.0
    for value in values:
        total += value
    return total


def block_window_average(events: Iterator[Event], by: list[str], window: int) -> Iterator[At]:
    blocks: dict[Any, list[float]] = defaultdict(list)
    for event in events:
        if event["v"] is None:
            continue
        key = key_of(event, by)
        blocks[key].append(float(event["v"]))
        if len(blocks[key]) == window:
            yield "out", {**{field: event.get(field) for field in by}, "v": added(blocks.pop(key)) / window}


def count(events: Iterator[Event], by: list[str]) -> Iterator[At]:
    seen: dict[Any, int] = defaultdict(int)
    for event in events:
        seen[key_of(event, by)] += 1
        yield "out", {**{field: event.get(field) for field in by}, "count": seen[key_of(event, by)]}


def kalman_filter(events: Iterator[Event], by: list[str], q: float, r: float, p: float) -> Iterator[At]:
    states: dict[Any, tuple[float, float]] = {}
    for event in events:
        if event["v"] is None:
            yield "out", event
            continue
        x_0, p_0 = states.get(key_of(event, by), (0.0, p))
        p_1 = p_0 + q
        k = p_1 / (p_1 + r)
        x = x_0 + k * (event["v"] - x_0)
        states[key_of(event, by)] = x, (1 - k) * p_1
        yield "out", {**event, "v": x}


def interpolate(events: Iterator[Event], by: list[str], window: int) -> Iterator[At]:
    seen: dict[Any, list[float]] = defaultdict(list)
    for event in events:
        values = seen[key_of(event, by)]
        if event["v"] is not None:
            values.append(float(event["v"]))
            yield "out", {**event, "v": values[-1]}
        else:
            last = values[-window:]
            yield "out", {**event, "v": added(last) / len(last) if last else None}


def second_order_moment(events: Iterator[Event], by: list[str], counters: int) -> Iterator[At]:
    kept: dict[Any, list[int]] = defaultdict(lambda: [0] * counters)
    for event in events:
        mine = kept[key_of(event, by)]
        if event["v"] is not None:
            digest = blake2b(msgspec.msgpack.encode((event["v"],)), digest_size=64).digest()
            bits = "".join(f"{byte:08b}" for byte in digest)
            for at in range(counters):
                mine[at] += 1 if bits[at] == "1" else -1
        yield "out", {**event, "second_order_moment": added([float(each * each) for each in mine]) / counters}


def distinct_approx_count(events: Iterator[Event], by: list[str], log: int) -> Iterator[At]:
    sketches: dict[Any, hll_sketch] = defaultdict(lambda: hll_sketch(log, tgt_hll_type.HLL_8))
    for event in events:
        sketch = sketches[key_of(event, by)]
        if event["v"] is not None:
            sketch.update("=" + event["v"])
        yield "out", {**event, "distinct": sketch.get_estimate()}


def accumulate(events: Iterator[Event], by: list[str], fields: list[str], window: int) -> Iterator[At]:
    kept: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        key = key_of(event, by)
        kept[key].append(event)
        if len(kept[key]) == window:
            block = kept.pop(key)
            arrays = {field: msgspec.json.encode([each.get(field) for each in block]).decode() for field in fields}
            yield "out", {**{field: event.get(field) for field in by}, **arrays}


def sliding_linear_regression(events: Iterator[Event], by: list[str], train: int, predict: int) -> Iterator[At]:
    """Numbers begin at minus half the window, in which the line is the same."""
    seen: dict[Any, list[float]] = defaultdict(list)
    for event in events:
        prediction: dict[str, Any] = {"predicted": None, "predictions": None}
        if event["v"] is not None:
            values = seen[key_of(event, by)]
            values.append(float(event["v"]))
            if len(values) >= train:
                half = (train - 1) / 2
                xs = [at - half for at in range(train)]
                mean = added(values[-train:]) / train
                slope = added([x * y for x, y in zip(xs, values[-train:], strict=True)]) / added([x * x for x in xs])
                line = [mean + slope * (half + ahead) for ahead in range(1, predict + 1)]
                prediction["predictions"] = msgspec.json.encode(line).decode()
                prediction["predicted"] = mean + slope * (half + (1 + predict) / 2)
        yield "out", {**event, **prediction}
