"""Computation for its own sake: known work per event."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Emission, Implementation
from engine.staged import Staged
from engine.tasks.compute import PI_VIETE, PiVieteConfig

_AT_ONCE = 4_096
"""Events computed side by side: few enough for the processor's cache."""
_SCHEMA = pa.schema({"pi": pa.float64()})


def _pi_viete(config: PiVieteConfig) -> Behaviour:
    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, Emission]:
        found = np.empty(events.num_rows)
        for first in range(0, len(found), _AT_ONCE):
            _compute(found[first : first + _AT_ONCE], config.iterations)
        return {"out": Emission(pa.record_batch([pa.array(found)], schema=_SCHEMA))}

    return behave


def _compute(product: "np.ndarray[tuple[int], np.dtype[np.float64]]", iterations: int) -> None:
    """Viète's product, in place and for each event on its own: the work is the point."""
    root = np.zeros_like(product)
    product.fill(2.0)
    for _ in range(iterations):
        root += 2.0
        np.sqrt(root, out=root)
        product *= 2.0
        product /= root


pi_viete = Implementation(type=PI_VIETE, make=_pi_viete)
"""Pi by Viète's product, once per event."""
