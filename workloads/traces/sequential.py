"""SEQ: submit every dataflow, then remove every dataflow. Pure; a seed always draws the same trace."""

import random
from collections.abc import Iterator, Sequence

from workloads.traces.trace_file import Action, Trace, TracePhase, TraceStep


def sequential(workload: str, dataflows: Sequence[str], seed: int) -> Trace:
    """Submit all dataflows in random order, then remove all in another random order."""
    draw = random.Random(f"seq {seed}")  # noqa: S311 - a trace is no secret
    return Trace(
        name="SEQ",
        workload=workload,
        seed=seed,
        steps=(
            *submissions(draw.sample(list(dataflows), len(dataflows)), TracePhase.FILL),
            *removals(draw.sample(list(dataflows), len(dataflows)), TracePhase.DRAIN),
        ),
    )


def submissions(dataflows: Sequence[str], phase: TracePhase) -> Iterator[TraceStep]:
    """Submit these dataflows one after the other."""
    return (TraceStep(action=Action.SUBMIT, dataflow=name, phase=phase) for name in dataflows)


def removals(dataflows: Sequence[str], phase: TracePhase) -> Iterator[TraceStep]:
    """Remove these dataflows one after the other."""
    return (TraceStep(action=Action.REMOVE, dataflow=name, phase=phase) for name in dataflows)
