"""Computation for its own sake: known work per event."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.records.staged_state import Staged
from engine.tasks.compute import (
    NOOP,
    PI_VIETE,
    JoinStepConfig,
    NoopConfig,
    PiVieteConfig,
    StepConfig,
    join_ports,
    join_step_type,
    step_type,
)

_AT_ONCE = 4_096
"""Numbers computed side by side: few enough for the processor's cache."""
_SCHEMA = pa.schema({"pi": pa.float64()})
_WAITING = ("waiting",)
"""In the state: for each input port how many events wait there."""


def _pi_viete(config: PiVieteConfig) -> Behaviour:
    """Pi for every event, from so many nested square roots; what the event holds is not looked at.

    >>> from engine.trial import try_out
    >>> try_out(pi_viete, {"iterations": 20}, [{"room": "a"}])
    {'out': [{'pi': 3.1415926535886185}]}
    """

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        return {"out": PortEmission(_computed(config.iterations, events.num_rows))}

    return behave


def _computed(iterations: int, count: int) -> pa.RecordBatch:
    """Pi so many times, each on its own."""
    at_once, found = max(1, _AT_ONCE // iterations), np.empty(count)
    for first in range(0, count, at_once):
        some = found[first : first + at_once]
        some[:] = _pis(iterations, len(some))
    return pa.record_batch([pa.array(found)], schema=_SCHEMA)


def _pis(iterations: int, count: int) -> npt.NDArray[np.float64]:
    """Viète's product for so many events, each on its own: the work is the point.

    Every factor is nested from the start, as the benchmark does it: its work grows with the square of the iterations.
    """
    factors = np.full((iterations, count), 2.0)
    for nested in range(1, iterations):
        deeper = factors[nested:]
        np.sqrt(deeper, out=deeper)
        deeper += 2.0
    np.sqrt(factors, out=factors)
    factors /= 2.0
    # From the deepest factor on, and one after the other, so that the last digit does not hang on how many events
    # are computed at once.
    products: npt.NDArray[np.float64] = 2.0 / np.multiply.accumulate(factors[::-1], axis=0)[-1]
    return products


def _noop(_config: NoopConfig) -> Behaviour:
    """Every event as it is.

    >>> from engine.trial import try_out
    >>> try_out(noop, {}, [{"room": "a"}])
    {'out': [{'room': 'a'}]}
    """
    return _pass_on


def _pass_on(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
    return {"out": PortEmission(events)}


def _step(config: StepConfig) -> Behaviour:
    """The computation of pi, standing for any step of a workflow; parameters of other names change nothing.

    >>> from engine.trial import try_out
    >>> try_out(opmw, {"iterations": 2, "threshold": 0.5}, [{"room": "a"}])
    {'out': [{'pi': 3.0614674589207183}]}
    """
    return _pi_viete(config)


def _join_step(config: JoinStepConfig) -> Behaviour:
    """The computation of pi, once per complete set: at the event that completes it.

    The first event of each port make one set, the second of each the next. What an event holds is not looked at, so
    only the number of events that wait at each port is kept.

    >>> from engine.trial import try_out
    >>> rows = [("in1", {"room": "a"}), ("in1", {"room": "b"}), ("in2", {"table": 7})]
    >>> try_out("opmw-join:Merge", {"inputs": 2, "iterations": 2}, rows)
    {'out': [{'pi': 3.0614674589207183}]}
    """
    ports = join_ports(config.inputs)

    def behave(port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        waiting: dict[str, int] = dict(zip(ports, state.get(_WAITING) or [0] * len(ports), strict=True))
        others = min(count for name, count in waiting.items() if name != port)
        # Complete sets never wait. So either another port has nothing, or this one.
        whole = min(events.num_rows, max(0, others - waiting[port]))
        waiting[port] += events.num_rows
        if events.num_rows:
            state.put(_WAITING, [count - whole for count in waiting.values()])
        return {"out": PortEmission(_computed(config.iterations, whole), np.arange(whole, dtype=np.int64))}

    return behave


pi_viete = Implementation(type=PI_VIETE, make=_pi_viete)
"""Pi by Viète's product, once per event."""
noop = Implementation(type=NOOP, make=_noop)
"""Passes on what it takes."""
opmw = Implementation(type=step_type("opmw:*"), make=_step)
"""Every step of published workflow templates."""
opmw_join = Implementation(type=join_step_type("opmw-join:*"), make=_join_step)
"""Every step of published workflow templates that joins its inputs."""
