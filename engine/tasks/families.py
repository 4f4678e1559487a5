"""The families of task types, by which the documentation and the console list them."""

from collections.abc import Mapping
from types import MappingProxyType

from dags import AnyTaskType

_ENDS = "Sources and outputs"
OTHER_FAMILY = "Other types"
"""The family of types that other packages bring."""
FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "ends": _ENDS,
        "parse": "Parsing",
        "filters": "Filters",
        "projection": "Projections",
        "stream_statistics": "Statistics",
        "windows": "Windows and joins",
        "predictive": "Prediction",
        "visual": "Plots",
        "outside": "The outside world",
        "compute": "Computation",
        "code": "Published code",
    }
)
"""The families of the task library in their order, by the module that describes their configs."""


def family_of(kind: AnyTaskType) -> str:
    """The family of a task type.

    >>> from engine.tasks.filters import RANGE_FILTER
    >>> family_of(RANGE_FILTER)
    'Filters'
    """
    package, _, module = kind.config.__module__.rpartition(".")
    if kind.is_source or kind.name == "output":
        return _ENDS
    return FAMILIES.get(module, OTHER_FAMILY) if package == "engine.tasks" else OTHER_FAMILY
