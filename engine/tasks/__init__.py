"""The task library's descriptions, a file per family; what they do stands in `engine.implementations`.

A description imports no implementation, so that checking a document stays light. `ENTRIES` is what Braid offers through
the entry point group `braid.task_types`, the same way as third parties do.
"""

from itertools import chain

from dags import AnyTaskType, Namespace
from engine.tasks import compute, ends, filters, join, outside, parse, predictive, stream_statistics, visual, windows

_FAMILIES = (compute, ends, filters, join, outside, parse, predictive, stream_statistics, visual, windows)
TYPES: tuple[AnyTaskType, ...] = tuple(
    sorted(chain.from_iterable(each.TYPES for each in _FAMILIES), key=lambda kind: kind.name)
)
ENTRIES: tuple[AnyTaskType | Namespace, ...] = (*TYPES, compute.OPMW, compute.OPMW_JOIN)
