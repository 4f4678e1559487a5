"""Traces: submissions and removals of a workload's dataflows, step by step; the models that draw one, and its file.

- SEQ submits every dataflow, then removes every dataflow.
- RW is a random walk, which adds or removes a dataflow at each step.
- POISSON has dataflows that arrive at random times and stay for random lifetimes.

The models are pure; a seed always draws the same trace. A way to replay a trace is a mode, a placement and a kind of
defragmentation, with its name in results, figures and messages.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from manager.settings import Placement

_VERSION = 1
"""The version of the file format."""


class Action(StrEnum):
    """The change that a step makes."""

    SUBMIT = "submit"
    REMOVE = "remove"


class TracePhase(StrEnum):
    """The part of a trace that a step belongs to."""

    FILL = "fill"
    WALK = "walk"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One submission or removal."""

    action: Action
    dataflow: str
    """Its name within the workload."""
    phase: TracePhase
    at: float | None = None
    """Seconds since the first step; None where the trace has no times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Steps over one workload; a submitted dataflow is removed before it is submitted again."""

    name: str
    """`SEQ`, `RW1`, `RW2` or another name."""
    workload: str
    seed: int
    steps: tuple[TraceStep, ...]


class WrongTrace(ValueError):
    """A file that holds no valid trace; the message says where and why."""


def trace_json(trace: Trace) -> dict[str, Any]:
    """The JSON of a trace, in files and in manifests; `trace_of` reads it."""
    steps = [
        {"action": step.action, "dataflow": step.dataflow, "phase": step.phase}
        | ({} if step.at is None else {"at": step.at})
        for step in trace.steps
    ]
    return {
        "version": _VERSION,
        "name": trace.name,
        "workload": trace.workload,
        "seed": trace.seed,
        "steps": steps,
    }


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace to a file, one line for each step."""
    content = trace_json(trace)
    lines = ",\n".join(f"  {json.dumps(step)}" for step in content.pop("steps"))
    path.write_text(f'{json.dumps(content)[:-1]}, "steps": [\n{lines}\n]}}\n', encoding="utf-8")


def read_trace(path: Path) -> Trace:
    """Read the trace in a file."""
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongTrace(f"{path}: {error.strerror}; name a file that `braid trace` has written") from None
    except ValueError as error:
        raise WrongTrace(f"{path}: is not JSON: {error}; draw the trace again with `braid trace`") from None
    return trace_of(content, str(path))


def trace_of(content: Any, place: str) -> Trace:
    """The trace in a file or a manifest; errors name `place`."""
    again = "draw the trace again with `braid trace`"
    try:
        if content["version"] != _VERSION:
            raise WrongTrace(
                f"{place}: has version {content['version']}, but this program reads version {_VERSION}; draw it again"
            )
        steps = tuple(
            TraceStep(
                action=Action(step["action"]),
                dataflow=step["dataflow"],
                phase=TracePhase(step["phase"]),
                at=step.get("at"),
            )
            for step in content["steps"]
        )
        trace = Trace(name=content["name"], workload=content["workload"], seed=content["seed"], steps=steps)
    except (KeyError, TypeError, AttributeError) as error:
        raise WrongTrace(f"{place}: {error} is missing; {again}") from None
    except ValueError as error:
        if isinstance(error, WrongTrace):
            raise
        raise WrongTrace(f"{place}: {error}; {again}") from None
    _check(trace, place)
    return trace


def _check(trace: Trace, place: str) -> None:
    submitted: set[str] = set()
    for number, step in enumerate(trace.steps):
        if (step.dataflow in submitted) is (step.action is Action.SUBMIT):
            state = "is already submitted" if step.dataflow in submitted else "is not submitted"
            raise WrongTrace(f"{place}, step {number}: {step.dataflow!r} {state}; draw the trace again")
        submitted ^= {step.dataflow}


def sequential(workload: str, dataflows: Sequence[str], seed: int) -> Trace:
    """Submit all dataflows in random order, then remove all in another random order."""
    draw = random.Random(f"seq {seed}")  # noqa: S311 - a trace is no secret
    return Trace(
        name="SEQ",
        workload=workload,
        seed=seed,
        steps=(
            *_steps(Action.SUBMIT, draw.sample(list(dataflows), len(dataflows)), TracePhase.FILL),
            *_steps(Action.REMOVE, draw.sample(list(dataflows), len(dataflows)), TracePhase.DRAIN),
        ),
    )


def _steps(action: Action, dataflows: Sequence[str], phase: TracePhase) -> Iterator[TraceStep]:
    return (TraceStep(action=action, dataflow=name, phase=phase) for name in dataflows)


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
    walk = [*_steps(Action.SUBMIT, submitted, TracePhase.FILL)]
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
        walk.append(TraceStep(action=action, dataflow=name, phase=TracePhase.WALK))
    walk += _steps(Action.REMOVE, draw.sample(submitted, len(submitted)), TracePhase.DRAIN)
    return Trace(name=f"RW{seed}", workload=workload, seed=seed, steps=tuple(walk))


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
    drawn: list[TraceStep] = []
    now, arrived = 0.0, 0
    while arrived < arrivals:
        drawn += _departures(leaves, now, TracePhase.WALK)
        if others := [name for name in dataflows if name not in leaves]:
            name = draw.choice(others)
            leaves[name] = now + lifetime * draw.lognormvariate(0.0, spread)
            drawn.append(TraceStep(action=Action.SUBMIT, dataflow=name, phase=TracePhase.WALK, at=round(now, 3)))
            arrived += 1
        now += draw.expovariate(1 / between)
    drawn += _departures(leaves, float("inf"), TracePhase.DRAIN)
    return Trace(name=f"POISSON{seed}", workload=workload, seed=seed, steps=tuple(drawn))


def _departures(leaves: dict[str, float], now: float, phase: TracePhase) -> Iterator[TraceStep]:
    """Remove the dataflows that leave by now, in order of their times, and take them out of `leaves`."""
    for name, at in sorted(leaves.items(), key=lambda leave: (leave[1], leave[0])):
        if at <= now:
            del leaves[name]
            yield TraceStep(action=Action.REMOVE, dataflow=name, phase=phase, at=round(at, 3))


Mode: TypeAlias = Literal["default", "reuse"]
"""Nothing is shared, or everything that can be."""
Defragment: TypeAlias = Literal["off", "itself", "step"]
"""Never, when the service decides, or on request after each step."""
_PLACED: Mapping[Placement, str] = {"launch": "", "graft": "-grafted", "pack": "-packed", "plan": "-planned"}
_DEFRAGMENTED: Mapping[Defragment, str] = {"off": "", "step": "-defragmented", "itself": "-defragmented-by-itself"}


class Way(NamedTuple):
    """A mode, a placement and a way of defragmentation, compared with other ways on the same trace."""

    mode: Mode
    placement: Placement = "launch"
    defragment: Defragment = "off"

    @property
    def name(self) -> str:
        """The name in results, figures and messages.

        >>> Way("reuse").name, Way("default", "pack").name, Way("reuse", "launch", "step").name
        ('reuse', 'default-packed', 'reuse-defragmented')
        >>> Way("reuse", "plan").name
        'reuse-planned'
        """
        return self.mode + _PLACED[self.placement] + _DEFRAGMENTED[self.defragment]

    @property
    def baseline(self) -> "Way":
        """The way that this one is compared with: the same placement without sharing."""
        return Way("default", self.placement)


DEFAULT, REUSE = Way("default"), Way("reuse")
DEFRAGMENTED = Way("reuse", "launch", "step")
DEFAULT_PACKED, REUSE_PACKED = Way("default", "pack"), Way("reuse", "pack")
