"""The code of the benchmark's task types."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.reconfiguration.task_types import INFERENCE, SPLIT, STEP, InferenceConfig, WorkConfig
from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.records.state import Staged


def spend(work: int) -> float:
    """Turn a loop so many times."""
    value = 2.0
    for _ in range(work):
        value = value * 0.5 + 1.0
    return value


def _step(config: WorkConfig) -> Behaviour:
    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        spend(config.work * events.num_rows)
        return {"out": PortEmission(_stamped(events, config))}

    return behave


def _split(config: WorkConfig) -> Behaviour:
    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        spend(config.work * events.num_rows)
        twice = np.repeat(np.arange(events.num_rows), 2)
        return {"out": PortEmission(_stamped(events.take(pa.array(twice)), config), twice)}

    return behave


def _inference(config: InferenceConfig) -> Behaviour:
    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        scores: list[float] = []
        for user, amount in zip(events["user"].to_pylist(), events["amount"].to_pylist(), strict=True):
            recent = [*(state.get((user,)) or []), amount][-config.window :]
            state.put((user,), recent)
            spend(config.work)
            scores.append(score(recent))
        scored = _stamped(events, config).append_column("score", pa.array(scores, pa.float64()))
        return {"out": PortEmission(scored)}

    return behave


def score(recent: list[float]) -> float:
    """The score of a user with such recent amounts: their mean."""
    return sum(recent) / len(recent)


def _newest(_old: InferenceConfig, new: InferenceConfig, _key: tuple[Any, ...], recent: list[float]) -> list[float]:
    return recent[-new.window :]


def _stamped(events: pa.RecordBatch, config: WorkConfig) -> pa.RecordBatch:
    column = pa.array([config.generation] * events.num_rows, pa.int64())
    place = events.schema.get_field_index(config.stamp)
    if place < 0:
        return events.append_column(config.stamp, column)
    return events.set_column(place, config.stamp, column)


step = Implementation(type=STEP, make=_step)
split = Implementation(type=SPLIT, make=_split)
inference = Implementation(type=INFERENCE, make=_inference, transform=_newest)
