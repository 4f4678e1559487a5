"""The descriptions of the task library, a file per family. Their code is in `engine.implementations`.

A description imports no implementation, so that checking a document loads little. `ENTRIES` is Braid's entry in the
entry point group `braid.task_types`, which third parties use in the same way.
"""

from operator import attrgetter

from dags import AnyTaskType, Namespace, TaskType
from engine.tasks import (
    code,
    compute,
    filters,
    outside,
    parse,
    predictive,
    projection,
    stream_statistics,
    visual,
    windows,
)

_FAMILIES = (code, compute, filters, outside, parse, predictive, projection, stream_statistics, visual, windows)
TYPES: tuple[AnyTaskType, ...] = tuple(
    sorted(
        (value for family in _FAMILIES for value in vars(family).values() if isinstance(value, TaskType)),
        key=attrgetter("name"),
    )
)
ENTRIES: tuple[AnyTaskType | Namespace, ...] = (*TYPES, compute.OPMW, compute.OPMW_JOIN)
