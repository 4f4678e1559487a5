"""The output, where a dataflow ends."""

from engine.behaviour import Behaviour, Implementation, pass_on
from engine.tasks.ends import OUTPUT, OutputConfig


def _output(_config: OutputConfig) -> Behaviour:
    """Events are delivered unchanged.

    >>> from engine.trial import try_out
    >>> try_out("output", {}, [{"t": 21.5}])
    {'out': [{'t': 21.5}]}
    """
    # Deliveries leave at the port `out`, which the type does not have for other tasks.
    return pass_on


output = Implementation(type=OUTPUT, make=_output)
