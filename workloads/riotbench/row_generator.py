"""Events of RIoTBench's data sets as a seed draws them: rows in the benchmark's form, the same ones for the same seed.

What is measured takes its daily course, differs from sensor to sensor, and is noisy. Some of it is out of range and
some missing, so that filters and interpolation have work.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from workloads.riotbench.datasets import TAXI, DataSet, Field
from workloads.riotbench.rides import RideColumn, rides
from workloads.riotbench.rows import before, head
from workloads.workload import Event

STRAY = 0.02
"""Which part of the values with bounds is drawn to lie out of them; a few more do by chance."""
MISSING = 0.01
"""Which part of the observed values is not told."""
_BLOCK = 1_000
"""Rows that are drawn at once."""

Numbers: TypeAlias = npt.NDArray[np.float64]


def events(data: DataSet, seed: int) -> Iterator[Event]:
    """Endless events of a data set: rows, each with its number."""
    return ({"msg": number, "row": row} for number, row in enumerate(rows(data, seed)))


def rows(data: DataSet, seed: int) -> Iterator[str]:
    """Endless rows of a data set."""
    random = np.random.default_rng([seed, *data.name.encode()])
    # What tells one sensor from another does not change any more.
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
        told = drawn.get(field.name)
        if told is None:
            told = _wave(field, random, offsets[field.name][sensors], times / 1_000 / data.course)
        texts = told if isinstance(told, list) else _written(field, random, told)
        start = before(field)
        columns.append([f'{start}{text}"}}' if text else "" for text in texts])
    start = head(data)
    keys = [data.sensors[at] for at in sensors.tolist()]
    for time, key, *entries in zip(times.tolist(), keys, *columns, strict=True):
        yield f'{time},{start}{key}"}}{"".join(entries)}],"bt":{time}}}'


def _wave(field: Field, random: np.random.Generator, offset: Numbers, course: Numbers) -> Numbers:
    noise = field.noise * random.standard_normal(len(course))
    return field.middle + field.spread * offset - field.swing * np.cos(2 * np.pi * course) + noise


def _written(field: Field, random: np.random.Generator, values: Numbers) -> list[str]:
    """Values as they are told, some of them out of range; an empty text for one that is not told."""
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
