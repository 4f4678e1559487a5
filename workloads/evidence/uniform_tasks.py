"""A workload whose tasks all cost the same: the regime of the paper's own experiments. Pure.

Each task becomes a step that computes pi for every event. Type, config and inputs stay, so the same tasks are shared as
before, with two exceptions: the ports of a task become one, and a config field that is left out differs from its
default. Tasks that are not shared because they write to the outside stay unshared. A step behind each source stands
for parsing, and is shared as the source is. Filters and windows let every event through. All sources have the same
rate.
"""

from collections.abc import Mapping
from typing import Any

from engine import installed_catalogue
from workloads.opmw.document_encoder import workload_source
from workloads.workload import Document, Workload, WorkloadSource

UNIFORM_ITERATIONS = 1_600
"""Iterations of each computation, as in the paper."""
_SOURCE, _SINK, _STEP = "source", "output", "opmw:"
_STEPS = (_STEP, "opmw-join:")
"""Types of tasks that compute pi already; they stay as they are, ports included."""
_PARSING = f"{_STEP}parsing"
_WORK = "iterations"


def with_uniform_tasks(workload: Workload, *, seconds: float, iterations: int = UNIFORM_ITERATIONS) -> Workload:
    """The workload with uniform tasks; an event takes `seconds` of CPU, and each source sends one event a second."""
    dataflows = {name: _document(document, iterations) for name, document in workload.dataflows.items()}
    read = {task["config"]["source"] for each in dataflows.values() for task in each["tasks"] if _reads(task)}
    return Workload(
        name=f"{workload.name}-alike",
        about={
            "made": "every task computes pi for each event, and so does a step behind each source",
            "iterations of each step": iterations,
            "CPU seconds of an event at each step": seconds,
            "of": {"name": workload.name, **workload.about},
        },
        sources=tuple(_source(name) for name in sorted(read)),
        dataflows=dataflows,
    )


def _source(name: str) -> WorkloadSource:
    made = workload_source(name)
    return WorkloadSource(name=name, schema=made.schema, events=made.events, per_second=1.0)


def _document(document: Document, iterations: int) -> Document:
    tasks: list[dict[str, Any]] = []
    parsed: dict[str, str] = {}
    for task in document["tasks"]:
        tasks.append(_step(task, iterations))
        if _reads(task):
            parsed[task["id"]] = f"{task['id']} parsed"
            tasks.append({"id": parsed[task["id"]], "type": _PARSING, "config": {_WORK: iterations}})
    streams = [{"from": source, "to": step} for source, step in parsed.items()]
    stay = {task["id"] for task in document["tasks"] if task["type"].startswith(_STEPS)}
    streams += [
        {
            "from": parsed.get(stream["from"], stream["from"]),
            **{
                end: stream[end] for end in ("to", "to_port") if end in stream and (end == "to" or stream["to"] in stay)
            },
        }
        for stream in document["streams"]
    ]
    # Streams that differed only in their ports are one.
    return {
        **document,
        "tasks": tasks,
        "streams": [each for at, each in enumerate(streams) if each not in streams[:at]],
    }


def _step(task: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    if task["type"] in {_SOURCE, _SINK}:
        return dict(task)
    config = {f"of {name}" if name == _WORK else name: value for name, value in task.get("config", {}).items()}
    kept = {name: value for name, value in task.items() if name not in {"type", "config"}}
    if task["type"].startswith(_STEPS):
        return {**kept, "type": task["type"], "config": {**task["config"], _WORK: iterations}}
    if not _shared(task["type"]):
        kept["fresh"] = True
    return {**kept, "type": _STEP + task["type"], "config": {**config, _WORK: iterations}}


def _reads(task: Mapping[str, Any]) -> bool:
    return bool(task["type"] == _SOURCE)


def _shared(name: str) -> bool:
    kind = installed_catalogue().find(name)
    return kind is None or kind.shareable
