"""The generator of RIoTBench's events: rows in the benchmark's form, and models learned from them.

Measurements follow a daily wave, differ between sensors, and are noisy. Some are out of range and some are missing, so
that filters and interpolation have work. Of taxi rides, longer ones take longer and cost more, and rides at night are
fast. Models are regressions and trees in turn. The same seed always gives the same events.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from engine.tasks.predictive import DecisionTree, LinearRegression, written
from workloads.riotbench.datasets import TAXI, DataSet, Field
from workloads.riotbench.rows import before, head
from workloads.workload import Event

RideColumn: TypeAlias = npt.NDArray[np.float64] | list[str]
"""A column of rides: numbers or texts."""
_DAY = 86_400_000


def rides(
    random: np.random.Generator, taxis: npt.NDArray[np.int64], times: npt.NDArray[np.int64]
) -> Mapping[str, RideColumn]:
    """The fields of rides, one for each taxi. As in the benchmark, cash tips and the tolls of most rides are 0."""
    count = len(taxis)
    busy = 1 - np.cos(2 * np.pi * (times % _DAY) / _DAY)
    distance = np.clip(random.lognormal(1.1, 0.6, count), 1.4, 29.8)
    seconds = np.clip(distance * (140 + 60 * busy) * random.uniform(0.8, 1.2, count), 141, 3_154)
    fare = np.clip(np.round(2 * (2.5 + 2 * distance + seconds / 180)) / 2, 6.0, 200.0)
    card = random.random(count) < 1 / 2
    tip = np.where(card, np.clip(fare * random.uniform(0.15, 0.25, count), 0.7, 38.5), 0.0)
    tolls = np.where(random.random(count) < 1 / 8, 4.8, 0.0)
    surcharge = np.where(busy > 1, 0.0, 0.5)
    tax = np.full(count, 0.5)
    begun = (times // 1_000 - seconds.astype(np.int64)).astype("datetime64[s]")
    return {
        "hack_license": [f"08F944E76118632BE09B9D4B04C7{at:04X}" for at in (0x0120 + taxis).tolist()],
        "pickup_datetime": [moment.replace("T", " ") for moment in np.datetime_as_string(begun).tolist()],
        "trip_time_in_secs": seconds,
        "trip_distance": distance,
        "pickup_longitude": _places(random, -73.98, count),
        "pickup_latitude": _places(random, 40.75, count),
        "dropoff_longitude": _places(random, -73.96, count),
        "dropoff_latitude": _places(random, 40.77, count),
        "payment_type": ["CRD" if is_card else "CSH" for is_card in card.tolist()],
        "fare_amount": fare,
        "surcharge": surcharge,
        "mta_tax": tax,
        "tip_amount": tip,
        "tolls_amount": tolls,
        "total_amount": fare + surcharge + tax + tip + tolls,
    }


def _places(random: np.random.Generator, middle: float, count: int) -> list[str]:
    return [f"{place:.6f}" for place in random.normal(middle, 0.02, count).tolist()]


STRAY = 0.02
"""The part of the values with bounds that is moved out of them; a few more are out by chance."""
MISSING = 0.01
"""The part of the observed values that is left out."""
_BLOCK = 1_000
"""Rows that are generated at once."""

Numbers: TypeAlias = npt.NDArray[np.float64]


def events(data: DataSet, seed: int) -> Iterator[Event]:
    """Endless events of a data set: numbered rows."""
    return ({"msg": number, "row": row} for number, row in enumerate(rows(data, seed)))


def rows(data: DataSet, seed: int) -> Iterator[str]:
    """Endless rows of a data set."""
    random = np.random.default_rng([seed, *data.name.encode()])
    # The differences between sensors stay the same.
    offsets = {field.name: random.uniform(-1.0, 1.0, len(data.sensors)) for field in data.fields}
    first = 0
    while True:
        yield from _block(data, random, offsets, np.arange(first, first + _BLOCK))
        first += _BLOCK


def _block(
    data: DataSet, random: np.random.Generator, offsets: Mapping[str, Numbers], numbers: npt.NDArray[np.int64]
) -> Iterator[str]:
    sensors = numbers % len(data.sensors)
    times = data.begin + numbers * data.step
    drawn: Mapping[str, RideColumn] = rides(random, sensors, times) if data is TAXI else {}
    columns = []
    for field in data.fields:
        values = drawn.get(field.name)
        if values is None:
            values = _wave(field, random, offsets[field.name][sensors], times / 1_000 / data.course)
        texts = values if isinstance(values, list) else _texts(field, random, values)
        start = before(field)
        columns.append([f'{start}{text}"}}' if text else "" for text in texts])
    start = head(data)
    keys = [data.sensors[at] for at in sensors.tolist()]
    for time, key, *entries in zip(times.tolist(), keys, *columns, strict=True):
        yield f'{time},{start}{key}"}}{"".join(entries)}],"bt":{time}}}'


def _wave(field: Field, random: np.random.Generator, offset: Numbers, course: Numbers) -> Numbers:
    noise = field.noise * random.standard_normal(len(course))
    return field.middle + field.spread * offset - field.swing * np.cos(2 * np.pi * course) + noise


def _texts(field: Field, random: np.random.Generator, values: Numbers) -> list[str]:
    """Values as texts, some of them out of range; an empty text for a missing value."""
    if field.valid is not None:
        low, high = field.valid
        beyond = (high - low) * random.uniform(0.05, 0.5, len(values))
        out = np.where(random.random(len(values)) < 1 / 2, low - beyond, high + beyond)
        values = np.where(random.random(len(values)) < STRAY, out, values)
    form = f"%.{field.decimals}f"
    texts = [form % value for value in values.tolist()]
    if field.observed:
        for at in np.flatnonzero(random.random(len(texts)) < MISSING).tolist():
            texts[at] = ""
    return texts


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
    complete = []
    for row in drawn:
        values = {entry["n"]: entry.get("v") for entry in json.loads(row.partition(",")[2])["e"]}
        if all(name in values for name in wanted):
            complete.append([float(values[name]) for name in wanted])
    return np.array(complete)


def _line(data: DataSet, features: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> LinearRegression:
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
