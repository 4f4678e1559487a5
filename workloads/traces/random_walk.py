"""RW: a random walk, which adds or removes a dataflow at each step. Pure; a seed always draws the same trace."""

import random
from collections.abc import Sequence

from workloads.traces.sequential import removals, submissions
from workloads.traces.trace_file import Action, Trace, TracePhase, TraceStep

WALK = 50
"""Default number of steps between filling and draining."""


def random_walk(workload: str, dataflows: Sequence[str], seed: int, *, steps: int = WALK) -> Trace:
    """Submit half of the dataflows, then add or remove one at each step with equal probability, then remove the rest.

    The walk turns round where only one is left, or where all are submitted.
    """
    if len(dataflows) < 2:  # noqa: PLR2004 - a walk needs a pair to move between
        raise ValueError(f"a random walk needs two dataflows, and {workload} has {len(dataflows)}; draw a seq trace")
    draw = random.Random(f"rw {seed}")  # noqa: S311 - a trace is no secret
    order = draw.sample(list(dataflows), len(dataflows))
    submitted, others = order[: len(order) // 2], order[len(order) // 2 :]
    found = [*submissions(submitted, TracePhase.FILL)]
    for _ in range(steps):
        adds = draw.random() < 0.5  # noqa: PLR2004 - equal probability
        if len(submitted) == 1:
            adds = True
        elif not others:
            adds = False
        source, target = (others, submitted) if adds else (submitted, others)
        name = source.pop(draw.randrange(len(source)))
        target.append(name)
        action = Action.SUBMIT if adds else Action.REMOVE
        found.append(TraceStep(action=action, dataflow=name, phase=TracePhase.WALK))
    found += removals(draw.sample(submitted, len(submitted)), TracePhase.DRAIN)
    return Trace(name=f"RW{seed}", workload=workload, seed=seed, steps=tuple(found))
