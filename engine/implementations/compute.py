"""Computation for its own sake: known work per event."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.behaviour import Behaviour, Emission, Implementation
from engine.staged import Staged
from engine.tasks.compute import NOOP, PI_VIETE, NoopConfig, PiVieteConfig, StepConfig, step_type

_AT_ONCE = 4_096
"""Numbers computed side by side: few enough for the processor's cache."""
_SCHEMA = pa.schema({"pi": pa.float64()})


def _pi_viete(config: PiVieteConfig) -> Behaviour:
    """Pi for every event, from so many nested square roots; what the event holds is not looked at.

    >>> from engine.trying import tried
    >>> tried(pi_viete, {"iterations": 20}, [{"room": "a"}])
    {'out': [{'pi': 3.1415926535886185}]}
    """
    at_once = max(1, _AT_ONCE // config.iterations)

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, Emission]:
        found = np.empty(events.num_rows)
        for first in range(0, len(found), at_once):
            some = found[first : first + at_once]
            some[:] = _pis(config.iterations, len(some))
        return {"out": Emission(pa.record_batch([pa.array(found)], schema=_SCHEMA))}

    return behave


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

    >>> from engine.trying import tried
    >>> tried(noop, {}, [{"room": "a"}])
    {'out': [{'room': 'a'}]}
    """
    return _pass_on


def _pass_on(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, Emission]:
    return {"out": Emission(events)}


def _step(config: StepConfig) -> Behaviour:
    """The computation of pi, standing for any step of a workflow; parameters of other names change nothing.

    >>> from engine.trying import tried
    >>> tried(opmw, {"iterations": 2, "threshold": 0.5}, [{"room": "a"}])
    {'out': [{'pi': 3.0614674589207183}]}
    """
    return _pi_viete(config)


pi_viete = Implementation(type=PI_VIETE, make=_pi_viete)
"""Pi by Viète's product, once per event."""
noop = Implementation(type=NOOP, make=_noop)
"""Passes on what it takes."""
opmw = Implementation(type=step_type("opmw:*"), make=_step)
"""Every step of published workflow templates."""
