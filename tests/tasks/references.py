"""Tasks straight from their definitions, one event after the other; trees are grown by the same library."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from datasketches import hll_sketch, tgt_hll_type
from sklearn.tree import DecisionTreeClassifier

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


@dataclass
class Waiting:
    expires: datetime
    events: list[Event]


def join_by_id(  # noqa: PLR0913, PLR0917 - the config
    events: Iterator[Event], by: list[str], expected: int, observed: list[str], expiry: timedelta, most: int
) -> Iterator[At]:
    waiting: dict[Any, Waiting] = {}
    latest: datetime | None = None
    for event in events:
        latest = max(latest or event["time"], event["time"])
        for key in [key for key, each in waiting.items() if each.expires <= latest]:
            yield "expired", merged(waiting.pop(key).events, observed)
        key = key_of(event, by)
        if key not in waiting:
            if len(waiting) == most:
                yield "expired", merged(waiting.pop(next(iter(waiting))).events, observed)
            waiting[key] = Waiting(latest + expiry, [])
        waiting[key].events.append(event)
        if len(waiting[key].events) == expected:
            yield "out", merged(waiting.pop(key).events, observed)


def self_join(  # noqa: PLR0913, PLR0917 - the config
    events: Iterator[Event], by: list[str], expected: int, observed: list[str], expiry: timedelta, most: int
) -> Iterator[At]:
    known: dict[Any, Waiting] = {}
    forgotten: list[datetime] = []
    latest: datetime | None = None
    for event in events:
        latest = max(latest or event["time"], event["time"])
        outdated = [key for key, waiting in known.items() if waiting.expires <= latest]
        forgotten += [known.pop(key).events[0]["time"] for key in outdated]
        key = key_of(event, [*by, "time"])
        if key not in known:
            if any(event["time"] <= time for time in forgotten):
                continue
            if len(known) == most:
                forgotten.append(known.pop(next(iter(known))).events[0]["time"])
            known[key] = Waiting(latest + expiry, [])
        known[key].events.append(event)
        if len(known[key].events) == expected:
            yield "out", merged(known[key].events, observed)


def merged(events: list[Event], observed: list[str]) -> Event:
    copies = [dict(each) for each in events]
    if observed:
        for each in copies:
            each[each.pop("field")] = each.pop("value")
    found: dict[str, Any] = {}
    for each in copies:
        for field, value in each.items():
            if found.get(field) is None:
                found[field] = value
    return found


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def tumbling_window(events: Iterator[Event], by: list[str], size: timedelta, lateness: timedelta) -> Iterator[At]:
    open_: dict[datetime, dict[Any, list[Event]]] = {}
    watermark: datetime | None = None
    for event in events:
        watermark = max(watermark or event["at"], event["at"])
        start = EPOCH + (event["at"] - EPOCH) // size * size
        if start + size + lateness <= watermark:
            yield "late", event
            continue
        open_.setdefault(start, {}).setdefault(key_of(event, by), []).append(event)
        for due in sorted(open_):
            if due + size + lateness <= watermark:
                for key, members in open_.pop(due).items():
                    values = [each["v"] for each in members if each["v"] is not None]
                    yield (
                        "out",
                        {
                            **dict(zip(by, key, strict=True)),
                            "window_start": due,
                            "window_end": due + size,
                            "count": len(values),
                            "sum": added(values),
                            "mean": added(values) / len(values) if values else None,
                            "min": min(values, default=None),
                            "max": max(values, default=None),
                        },
                    )


def whole(events: Iterator[Event], fields: list[str], window: int) -> Iterator[list[Event]]:
    """Blocks of those that lack nothing; an empty one where none is complete."""
    kept: list[Event] = []
    for event in events:
        if all(event[field] is not None for field in fields):
            kept.append(event)
            if len(kept) == window:
                yield kept
                kept = []


def grown(rows: list[Event], fields: list[str], label: str) -> DecisionTreeClassifier:
    tree = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2, random_state=0)
    return tree.fit(np.array([[float(row[field]) for field in fields] for row in rows]), [row[label] for row in rows])


def decision_tree_train(events: Iterator[Event], fields: list[str], label: str, window: int) -> Iterator[At]:
    for rows in whole(events, [*fields, label], window):
        made = grown(rows, fields, label)
        tree = made.tree_
        model = {
            "kind": "decision_tree",
            "fields": fields,
            "classes": list(made.classes_),
            "left": tree.children_left.tolist(),
            "right": tree.children_right.tolist(),
            "field": [max(0, each) for each in tree.feature.tolist()],
            "threshold": tree.threshold.tolist(),
            "leaf": [max(range(len(row[0])), key=row[0].__getitem__) for row in tree.value.tolist()],
        }
        yield "out", {"model": json.dumps(model, separators=(",", ":"))}


def decision_tree_classify(events: Iterator[At], fields: list[str]) -> Iterator[At]:
    model: dict[str, Any] | None = None
    for port, event in events:
        if port == "model":
            model_read = json.loads(event["model"])
            model = model_read if model_read["kind"] == "decision_tree" else model
            continue
        if model is None or any(event[field] is None for field in fields):
            yield "out", {**event, "class": None}
            continue
        node = 0
        while model["left"][node] >= 0:
            # Else the threshold would be rounded too.
            value = float(np.float32(event[model["fields"][model["field"][node]]]))
            node = model["left" if value <= model["threshold"][node] else "right"][node]
        yield "out", {**event, "class": model["classes"][model["leaf"][node]]}


def linear_regression_predict(events: Iterator[At], fields: list[str]) -> Iterator[At]:
    model: dict[str, Any] | None = None
    for port, event in events:
        if port == "model":
            model_read = json.loads(event["model"])
            model = model_read if model_read["kind"] == "linear_regression" else model
        elif model is None or any(event[field] is None for field in fields):
            yield "out", {**event, "prediction": None}
        else:
            total = model["intercept"]
            for field, coefficient in zip(model["fields"], model["coefficients"], strict=True):
                total += coefficient * event[field]
            yield "out", {**event, "prediction": total}


def least_squares(rows: list[list[float]], targets: list[float]) -> list[Fraction]:
    """Intercept and coefficients by the normal equations, in fractions."""
    matrix = [[Fraction(1), *map(Fraction, row)] for row in rows]
    size = len(matrix[0])
    system = [
        [sum((row[i] * row[j] for row in matrix), Fraction(0)) for j in range(size)]
        + [sum((row[i] * Fraction(target) for row, target in zip(matrix, targets, strict=True)), Fraction(0))]
        for i in range(size)
    ]
    for i in range(size):
        pivot = next(k for k in range(i, size) if system[k][i])
        system[i], system[pivot] = system[pivot], system[i]
        system[i] = [each / system[i][i] for each in system[i]]
        for k in range(size):
            if k != i:
                system[k] = [a - system[k][i] * b for a, b in zip(system[k], system[i], strict=True)]
    return [row[-1] for row in system]


def error_estimate(events: Iterator[At], by: list[str]) -> Iterator[At]:
    averages: dict[Any, float] = defaultdict(float)
    for port, event in events:
        if port == "average":
            if event["mean"] is not None:
                averages[key_of(event, by)] = event["mean"]
            continue
        average = averages[key_of(event, by)]
        usable = average and event["v"] is not None and event["prediction"] is not None
        yield "out", {**event, "error": (event["v"] - event["prediction"]) / average if usable else None}


def annotate_class(events: Iterator[Event], classes: list[str], window: int) -> Iterator[At]:
    kept: list[Event] = []
    for event in events:
        kept.append(event)
        if len(kept) < window:
            continue
        ranked = sorted(each["v"] for each in kept if each["v"] is not None)
        for each in kept:
            if each["v"] is None:
                yield "out", {**each, "class": None}
                continue
            # The first part whose last number is not smaller.
            for part, name in enumerate(classes, 1):
                if each["v"] <= ranked[math.ceil(Fraction(len(ranked) * part, len(classes))) - 1]:
                    yield "out", {**each, "class": name}
                    break
        kept = []
