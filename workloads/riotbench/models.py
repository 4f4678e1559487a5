"""Models as events of a source: regressions and trees in turn, learned from the generated rows of the same seed."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from engine.tasks.predictive import DecisionTree, LinearRegression, written
from workloads.riotbench.datasets import DataSet
from workloads.riotbench.row_generator import rows
from workloads.workload import Event

CLASSES = ("BAD", "GOOD", "VERYGOOD", "EXCELLENT")
"""The classes of `annotate_class`, from the smallest values to the largest."""


def models(data: DataSet, seed: int) -> Iterator[Event]:
    """Endless events with the field `model`, each learned from the next block of rows."""
    drawn = rows(data, seed)
    while True:
        learned = _numbers(data, islice(drawn, data.learned))
        features, target = learned[:, :-1], learned[:, -1]
        yield {"model": written(_line(data, features, target))}
        yield {"model": written(_tree(data, features, target))}


def _numbers(data: DataSet, drawn: Iterator[str]) -> npt.NDArray[np.float64]:
    """The features and, last, the target of the rows that have all of them."""
    wanted = (*data.features, data.target)
    found = []
    for row in drawn:
        values = {entry["n"]: entry.get("v") for entry in json.loads(row.partition(",")[2])["e"]}
        if all(name in values for name in wanted):
            found.append([float(values[name]) for name in wanted])
    return np.array(found)


def _line(data: DataSet, features: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> LinearRegression:
    """A least-squares regression."""
    solved = np.linalg.lstsq(np.column_stack((np.ones(len(target)), features)), target, rcond=None)[0].tolist()
    return LinearRegression(fields=data.features, intercept=solved[0], coefficients=tuple(solved[1:]))


def _tree(data: DataSet, features: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> DecisionTree:
    """A tree over the quartiles of the feature that correlates most with the target."""
    weights: Sequence[float] = [float(np.corrcoef(column, target)[0, 1]) for column in features.T]
    best = int(np.argmax(np.abs(weights)))
    low, middle, high = np.quantile(features[:, best], (0.25, 0.5, 0.75)).tolist()
    quarters = (0, 1, 2, 3) if weights[best] > 0 else (3, 2, 1, 0)
    return DecisionTree(
        fields=data.features,
        classes=CLASSES,
        left=(1, 3, 5, -1, -1, -1, -1),
        right=(2, 4, 6, -1, -1, -1, -1),
        field=(best,) * 7,
        threshold=(middle, low, high, 0.0, 0.0, 0.0, 0.0),
        leaf=(0, 0, 0, *quarters),
    )
