"""The builder of documents: a program in Python that says a dataflow step by step, and writes it as JSON.
Start with `Program`: its `stream` begins a stream, the methods of a stream add tasks, and `document` gives the whole.
It knows task types by their names only, but for the few of the library that its operators stand for.
"""

from dags.builder.alternates import alternate, rule, value_of
from dags.builder.conditions import BuildError, clock, event, field, metric, sequence
from dags.builder.program import OtherOutput, Program
from dags.builder.streams import BuiltStream, StreamWindow
