"""The builder of documents: a program in Python that says a dataflow step by step, and writes it as JSON.
Start with `Program`: its `stream` begins a stream, the methods of a stream add tasks, and `document` gives the whole.
It knows task types by their names only, but for the few of the library that its operators stand for.
"""

from dags.builder.alternates import BuiltAlternate, BuiltRule, BuiltValue, alternate, rule, value_of
from dags.builder.conditions import (
    BuildError,
    BuiltCondition,
    BuiltGuard,
    BuiltMetric,
    BuiltTest,
    clock,
    event,
    field,
    guard,
    metric,
    sequence,
)
from dags.builder.draft import BuiltTask
from dags.builder.program import OtherOutput, Program
from dags.builder.streams import BuiltOutput, BuiltStream, StreamWindow

__all__ = [
    "BuildError",
    "BuiltAlternate",
    "BuiltCondition",
    "BuiltGuard",
    "BuiltMetric",
    "BuiltOutput",
    "BuiltRule",
    "BuiltStream",
    "BuiltTask",
    "BuiltTest",
    "BuiltValue",
    "OtherOutput",
    "Program",
    "StreamWindow",
    "alternate",
    "clock",
    "event",
    "field",
    "guard",
    "metric",
    "rule",
    "sequence",
    "value_of",
]
