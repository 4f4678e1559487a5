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

_ENDS, _OTHERS = "Sources and outputs", "Other types"
_HEADINGS = {
    parse: "Parsing",
    filters: "Filters",
    projection: "Projections",
    stream_statistics: "Statistics",
    windows: "Windows and joins",
    predictive: "Prediction",
    visual: "Plots",
    outside: "The outside world",
    compute: "Computation",
    code: "Published code",
}
FAMILIES = (_ENDS, *_HEADINGS.values())
"""The families of the task library, in the order in which the documentation and the console list them."""
TYPES: tuple[AnyTaskType, ...] = tuple(
    sorted(
        (value for family in _HEADINGS for value in vars(family).values() if isinstance(value, TaskType)),
        key=attrgetter("name"),
    )
)
ENTRIES: tuple[AnyTaskType | Namespace, ...] = (*TYPES, compute.OPMW, compute.OPMW_JOIN)
_BY_MODULE = {module.__name__: heading for module, heading in _HEADINGS.items()}


def family_of(kind: AnyTaskType) -> str:
    """The family of a task type; types that other packages bring have one of their own.

    >>> family_of(filters.RANGE_FILTER)
    'Filters'
    """
    if kind.is_source or kind.name == "output":
        return _ENDS
    return _BY_MODULE.get(kind.config.__module__, _OTHERS)
