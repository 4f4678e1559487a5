"""A trace: the submissions and removals of a workload's dataflows, step by step; and the file that holds one."""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

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
    try:
        if content["version"] != _VERSION:
            raise WrongTrace(
                f"{place}: has version {content['version']}, but this program reads version {_VERSION}; draw it again"
            )
        steps = tuple(
            TraceStep(
                action=Action(each["action"]),
                dataflow=each["dataflow"],
                phase=TracePhase(each["phase"]),
                at=each.get("at"),
            )
            for each in content["steps"]
        )
        trace = Trace(name=content["name"], workload=content["workload"], seed=content["seed"], steps=steps)
    except (KeyError, TypeError, AttributeError) as error:
        raise WrongTrace(f"{place}: {error} is missing; draw the trace again with `braid trace`") from None
    except ValueError as error:
        if isinstance(error, WrongTrace):
            raise
        raise WrongTrace(f"{place}: {error}; draw the trace again with `braid trace`") from None
    _check(trace, place)
    return trace


def _check(trace: Trace, place: str) -> None:
    submitted: set[str] = set()
    for number, step in enumerate(trace.steps):
        if (step.dataflow in submitted) is (step.action is Action.SUBMIT):
            state = "is already submitted" if step.dataflow in submitted else "is not submitted"
            raise WrongTrace(f"{place}, step {number}: {step.dataflow!r} {state}; draw the trace again")
        submitted ^= {step.dataflow}
