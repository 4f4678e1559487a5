"""Predictive tasks straight from their definitions, one event after the other; trees are grown by the same library."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from engine.trial import At, Event
from tests.tasks.references.statistics import key_of


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
