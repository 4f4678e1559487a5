"""Tasks that leave events as they are, and tasks that compute a known amount for measurements.

The output is among them: a dataflow ends there, and its events are delivered unchanged.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission, pass_on
from engine.implementations.values import one_port
from engine.records.state import Staged
from engine.tasks import compute as described


def _output(_config: described.OutputConfig) -> Behaviour:
    """Events are delivered unchanged.

    >>> try_out("output", {}, [{"t": 21.5}])
    {'out': [{'t': 21.5}]}
    """
    # Deliveries leave at the port `out`, which the type does not have for other tasks.
    return pass_on


output = Implementation(type=described.OUTPUT, make=_output)


_AT_ONCE = 4_096
"""The numbers computed at once; few enough for the processor's cache."""
_SCHEMA = pa.schema({"pi": pa.float64()})
_WAITING = ("waiting",)
"""The state's key for the number of events that wait at each input port."""


def _pi_viete(config: described.PiVieteConfig, events: pa.RecordBatch, _state: Staged) -> PortEmission:
    """Computes pi for every event. The fields of the event have no effect.

    >>> try_out(pi_viete, {"iterations": 20}, [{"room": "a"}])
    {'out': [{'pi': 3.1415926535886185}]}
    """
    return PortEmission(_computed(config.iterations, events.num_rows))


def _computed(iterations: int, count: int) -> pa.RecordBatch:
    """Compute pi `count` times, each time anew."""
    at_once, pis = max(1, _AT_ONCE // iterations), np.empty(count)
    for first in range(0, count, at_once):
        pis[first : first + at_once] = _pis(iterations, min(at_once, count - first))
    return pa.record_batch([pa.array(pis)], schema=_SCHEMA)


def _pis(iterations: int, count: int) -> npt.NDArray[np.float64]:
    """Compute Viète's product for each event anew, for the work's sake.

    Every factor is nested from the start, as in the benchmark, so the work grows with the square of the iterations.
    """
    factors = np.full((iterations, count), 2.0)
    for nested in range(1, iterations):
        deeper = factors[nested:]
        np.sqrt(deeper, out=deeper)
        deeper += 2.0
    np.sqrt(factors, out=factors)
    factors /= 2.0
    # One after the other, from the deepest factor on, so that the last digit does not depend on the number of events
    # computed at once.
    products: npt.NDArray[np.float64] = 2.0 / np.multiply.accumulate(factors[::-1], axis=0)[-1]
    return products


def _noop(_config: described.NoopConfig) -> Behaviour:
    """Passes events on.

    >>> try_out(noop, {}, [{"room": "a"}])
    {'out': [{'room': 'a'}]}
    """
    return pass_on


def _step(config: described.StepConfig, events: pa.RecordBatch, state: Staged) -> PortEmission:
    """Computes pi, for any step of a workflow. Parameters of other names have no effect.

    >>> try_out(opmw, {"iterations": 2, "threshold": 0.5}, [{"room": "a"}])
    {'out': [{'pi': 3.0614674589207183}]}
    """
    return _pi_viete(config, events, state)


def _join_step(config: described.JoinStepConfig) -> Behaviour:
    """Computes pi once per complete set, at the event that completes it.

    The first events of all ports make one set, the second events the next. The fields of events have no effect, so the
    state is only the number of events that wait at each port.

    >>> rows = [("in1", {"room": "a"}), ("in1", {"room": "b"}), ("in2", {"table": 7})]
    >>> try_out("opmw-join:Merge", {"inputs": 2, "iterations": 2}, rows)
    {'out': [{'pi': 3.0614674589207183}]}
    """
    ports = described.join_ports(config.inputs)

    def behave(port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        waiting: dict[str, int] = dict(zip(ports, state.get(_WAITING) or [0] * len(ports), strict=True))
        others = min(count for name, count in waiting.items() if name != port)
        # Complete sets never wait, so either this port or another one is empty.
        whole = min(events.num_rows, max(0, others - waiting[port]))
        waiting[port] += events.num_rows
        if events.num_rows:
            state.put(_WAITING, [count - whole for count in waiting.values()])
        return {"out": PortEmission(_computed(config.iterations, whole), np.arange(whole, dtype=np.int64))}

    return behave


pi_viete = Implementation(type=described.PI_VIETE, make=one_port(_pi_viete))
noop = Implementation(type=described.NOOP, make=_noop)
opmw = Implementation(type=described.step_type("opmw:*"), make=one_port(_step))
opmw_join = Implementation(type=described.join_step_type("opmw-join:*"), make=_join_step)
