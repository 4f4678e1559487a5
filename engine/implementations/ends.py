"""The output, where a dataflow ends."""

from collections.abc import Mapping

import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.records.staged_state import Staged
from engine.tasks.ends import OUTPUT, OutputConfig


def _output(_config: OutputConfig) -> Behaviour:
    """Events are delivered unchanged.

    >>> from engine.trial import try_out
    >>> try_out("output", {}, [{"t": 21.5}])
    {'out': [{'t': 21.5}]}
    """
    return _pass_on


def _pass_on(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
    # The type has no output port for other tasks. Deliveries leave at this one.
    return {"out": PortEmission(events)}


output = Implementation(type=OUTPUT, make=_output)
