"""POISSON: dataflows arrive at random times and stay for random lifetimes. Pure; a seed always draws the same trace."""

import random
from collections.abc import Iterator, Sequence

from workloads.traces.trace_file import Action, Trace, TracePhase, TraceStep

ARRIVALS = 50
"""Default number of arrivals."""
BETWEEN = 10.0
"""Default mean of the seconds between two arrivals."""
LIFETIME = 120.0
"""Default median of the seconds that a dataflow stays."""
LIFETIME_SPREAD = 1.0
"""Default standard deviation of a lifetime's logarithm; at 1 one in six stays less than a third of the median."""


def poisson(  # noqa: PLR0913 - the numbers of the two distributions
    workload: str,
    dataflows: Sequence[str],
    seed: int,
    *,
    arrivals: int = ARRIVALS,
    between: float = BETWEEN,
    lifetime: float = LIFETIME,
    spread: float = LIFETIME_SPREAD,
) -> Trace:
    """Submit random dataflows at exponential intervals, each for a lognormal lifetime.

    An arrival is skipped while all dataflows are submitted. After the last arrival the others leave at their times.
    """
    draw = random.Random(f"poisson {seed}")  # noqa: S311 - a trace is no secret
    leaves: dict[str, float] = {}
    found: list[TraceStep] = []
    now, arrived = 0.0, 0
    while arrived < arrivals:
        found += _departures(leaves, now, TracePhase.WALK)
        if others := [name for name in dataflows if name not in leaves]:
            name = draw.choice(others)
            leaves[name] = now + lifetime * draw.lognormvariate(0.0, spread)
            found.append(TraceStep(action=Action.SUBMIT, dataflow=name, phase=TracePhase.WALK, at=round(now, 3)))
            arrived += 1
        now += draw.expovariate(1 / between)
    found += _departures(leaves, float("inf"), TracePhase.DRAIN)
    return Trace(name=f"POISSON{seed}", workload=workload, seed=seed, steps=tuple(found))


def _departures(leaves: dict[str, float], now: float, phase: TracePhase) -> Iterator[TraceStep]:
    """Remove the dataflows that leave by now, in order of their times, and take them out of `leaves`."""
    for name, at in sorted(leaves.items(), key=lambda each: (each[1], each[0])):
        if at <= now:
            del leaves[name]
            yield TraceStep(action=Action.REMOVE, dataflow=name, phase=phase, at=round(at, 3))
