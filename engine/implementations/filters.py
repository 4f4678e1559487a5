"""Filters: tasks that pass on some of what they take."""

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.behaviour import Behaviour, Emission, Implementation
from engine.staged import Staged
from engine.tasks.filters import RANGE_FILTER, RangeFilterConfig

_LEAST, _MOST = -(2**63), 2**63 - 1


def _range_filter(config: RangeFilterConfig) -> Behaviour:
    """What is in range passes, both bounds included.

    A null is not in range: its event is dropped where others are, and passes as it is where others become null. NaN
    is not in range either.
    """

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, Emission]:
        at = events.schema.get_field_index(config.field)
        column = events.column(at)
        inside = _within(column, config.min, config.max)
        if config.outside == "null":
            return {"out": Emission(events.set_column(at, events.schema.field(at), _nulled(column, inside)))}
        if pc.all(inside).as_py() is not False:
            return {"out": Emission(events)}
        return {"out": Emission(events.filter(inside), np.flatnonzero(inside))}

    return behave


def _within(column: pa.Array, least: float, most: float) -> pa.Array:
    """Where a value lies within the bounds; False for nulls."""
    if pa.types.is_integer(column.type):
        # As integers, because the nearest float of a large one may lie beyond the bound.
        lower, upper = max(math.ceil(least), _LEAST), min(math.floor(most), _MOST)
        if lower > upper:
            return pa.array(np.zeros(len(column), bool))
        bounds = pa.scalar(lower, pa.int64()), pa.scalar(upper, pa.int64())
    else:
        bounds = pa.scalar(least), pa.scalar(most)
    inside = pc.and_(pc.greater_equal(column, bounds[0]), pc.less_equal(column, bounds[1]))
    return inside.fill_null(False)  # noqa: FBT003 - it is the value


def _nulled(column: pa.Array, inside: pa.Array) -> pa.Array:
    return pc.if_else(inside, column, pa.scalar(None, column.type))


range_filter = Implementation(type=RANGE_FILTER, make=_range_filter)
"""Keeps the events whose field is in range."""
