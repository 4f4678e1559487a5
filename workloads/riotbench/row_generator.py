"""The generator of RIoTBench's events: rows in the benchmark's form, the same for the same seed.

Measurements follow a daily wave, differ between sensors, and are noisy. Some are out of range and some are missing, so
that filters and interpolation have work.
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
