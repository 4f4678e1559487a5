"""Drawing traces: the same one for the same dataflows and the same seed. Pure."""

import random
from collections.abc import Iterator, Sequence

from workloads.traces.trace_file import Action, Trace, TracePhase, TraceStep

WALK = 50
"""Steps of a random walk between filling and draining, where nobody says otherwise."""
ARRIVALS = 50
"""Arrivals of a Poisson trace, where nobody says otherwise."""
BETWEEN = 10.0
"""Mean seconds from one arrival to the next, where nobody says otherwise."""
LIFETIME = 120.0
"""Median seconds that a dataflow stays, where nobody says otherwise."""
LIFETIME_SPREAD = 1.0
"""The standard deviation of a lifetime's logarithm: at 1 one in six stays less than a third of the median."""


def sequential(workload: str, dataflows: Sequence[str], seed: int) -> Trace:
    """SEQ: submit all in random order, then remove all in another random order."""
    draw = random.Random(f"seq {seed}")  # noqa: S311 - a trace is no secret
    return Trace(
        name="SEQ",
        workload=workload,
        seed=seed,
        steps=(
            *_submitted(draw.sample(list(dataflows), len(dataflows)), TracePhase.FILL),
            *_removed(draw.sample(list(dataflows), len(dataflows)), TracePhase.DRAIN),
        ),
    )


def random_walk(workload: str, dataflows: Sequence[str], seed: int, *, steps: int = WALK) -> Trace:
    """RW: submit half of them, then add or remove one with equal probability so many times, then remove the rest.

    The walk turns round where only one is left, or all are there.
    """
    if len(dataflows) < 2:  # noqa: PLR2004 - a pair is the least that one can walk between
        raise ValueError(f"a random walk needs two dataflows, and {workload} has {len(dataflows)}; draw a seq trace")
    draw = random.Random(f"rw {seed}")  # noqa: S311 - as above
    order = draw.sample(list(dataflows), len(dataflows))
    runs, rests = order[: len(order) // 2], order[len(order) // 2 :]
    found = [*_submitted(runs, TracePhase.FILL)]
    for _ in range(steps):
        adds = draw.random() < 0.5  # noqa: PLR2004 - equal probability
        if len(runs) == 1:
            adds = True
        elif not rests:
            adds = False
        taken, given = (rests, runs) if adds else (runs, rests)
        name = taken.pop(draw.randrange(len(taken)))
        given.append(name)
        action = Action.SUBMIT if adds else Action.REMOVE
        found.append(TraceStep(action=action, dataflow=name, phase=TracePhase.WALK))
    found += _removed(draw.sample(runs, len(runs)), TracePhase.DRAIN)
    return Trace(name=f"RW{seed}", workload=workload, seed=seed, steps=tuple(found))


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
    """Arrivals at exponential distances, each of a random dataflow that does not run, each with a lognormal lifetime.

    Where all run an arrival is turned away, and another is drawn. What runs after the last arrival leaves at its time.
    """
    draw = random.Random(f"poisson {seed}")  # noqa: S311 - as above
    leaves: dict[str, float] = {}
    found: list[TraceStep] = []
    now, come = 0.0, 0
    while come < arrivals:
        found += _left(leaves, now, TracePhase.WALK)
        if rests := [name for name in dataflows if name not in leaves]:
            name = draw.choice(rests)
            leaves[name] = now + lifetime * draw.lognormvariate(0.0, spread)
            found.append(TraceStep(action=Action.SUBMIT, dataflow=name, phase=TracePhase.WALK, at=round(now, 3)))
            come += 1
        now += draw.expovariate(1 / between)
    found += _left(leaves, float("inf"), TracePhase.DRAIN)
    return Trace(name=f"POISSON{seed}", workload=workload, seed=seed, steps=tuple(found))


def _submitted(names: Sequence[str], phase: TracePhase) -> Iterator[TraceStep]:
    return (TraceStep(action=Action.SUBMIT, dataflow=name, phase=phase) for name in names)


def _removed(names: Sequence[str], phase: TracePhase) -> Iterator[TraceStep]:
    return (TraceStep(action=Action.REMOVE, dataflow=name, phase=phase) for name in names)


def _left(leaves: dict[str, float], now: float, phase: TracePhase) -> Iterator[TraceStep]:
    """Those that leave until now, in the order in which they do; they are taken out."""
    for name, at in sorted(leaves.items(), key=lambda each: (each[1], each[0])):
        if at <= now:
            del leaves[name]
            yield TraceStep(action=Action.REMOVE, dataflow=name, phase=phase, at=round(at, 3))
