"""A trace: which dataflow of a workload is submitted or removed, step by step; drawn by `tracing`, kept in a file."""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

_VERSION = 1
"""Of the form of the file."""


class Action(StrEnum):
    """What a step does."""

    SUBMIT = "submit"
    REMOVE = "remove"


class TracePhase(StrEnum):
    """What a step is part of."""

    FILL = "fill"
    WALK = "walk"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One change of what is submitted."""

    action: Action
    dataflow: str
    """Its name within the workload."""
    phase: TracePhase
    at: float | None = None
    """Seconds from the first step on, where the trace has times of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Steps over one workload; a dataflow that runs is not submitted again before it is removed."""

    name: str
    """`SEQ`, `RW1`, `RW2`, or what whoever drew it called it."""
    workload: str
    seed: int
    steps: tuple[TraceStep, ...]


class WrongTrace(ValueError):
    """A file that holds no trace; says where, and why."""


def trace_json(trace: Trace) -> dict[str, Any]:
    """A trace as manifests hold it; `trace_of` reads it."""
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
    """Keep a trace in a file, a line for each step."""
    told = trace_json(trace)
    lines = ",\n".join(f"  {json.dumps(step)}" for step in told.pop("steps"))
    path.write_text(f'{json.dumps(told)[:-1]}, "steps": [\n{lines}\n]}}\n', encoding="utf-8")


def read_trace(path: Path) -> Trace:
    """The trace in a file."""
    try:
        told: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongTrace(f"{path}: {error.strerror}; name a file that `braid trace` has written") from None
    except ValueError as error:
        raise WrongTrace(f"{path}: is not JSON: {error}; draw the trace anew with `braid trace`") from None
    return trace_of(told, str(path))


def trace_of(told: Any, place: str) -> Trace:
    """The trace that a file or a manifest holds; what is wrong with it is told as of this place."""
    try:
        if told["version"] != _VERSION:
            raise WrongTrace(
                f"{place}: has version {told['version']}, and version {_VERSION} is read here; draw it anew"
            )
        steps = tuple(
            TraceStep(
                action=Action(each["action"]),
                dataflow=each["dataflow"],
                phase=TracePhase(each["phase"]),
                at=each.get("at"),
            )
            for each in told["steps"]
        )
        trace = Trace(name=told["name"], workload=told["workload"], seed=told["seed"], steps=steps)
    except (KeyError, TypeError, AttributeError) as error:
        raise WrongTrace(f"{place}: misses {error}; draw the trace anew with `braid trace`") from None
    except ValueError as error:
        if isinstance(error, WrongTrace):
            raise
        raise WrongTrace(f"{place}: {error}; draw the trace anew with `braid trace`") from None
    _check(trace, place)
    return trace


def _check(trace: Trace, place: str) -> None:
    runs: set[str] = set()
    for number, step in enumerate(trace.steps):
        if (step.dataflow in runs) is (step.action is Action.SUBMIT):
            state = "runs already" if step.dataflow in runs else "does not run"
            raise WrongTrace(f"{place}, step {number}: {step.dataflow!r} {state}; draw the trace anew")
        runs ^= {step.dataflow}
