"""Resolution: the plain document for a selection, and the selection that a plain document stands for."""

import json
from collections.abc import Mapping
from typing import Any

from adaptation.documents.dynamic_document import Alternate, DynamicDocument, DynamicTask, GuardedStream, Selection

GATE_TYPE = "gate"
"""The type of the tasks that open and close streams."""


class NotAResolution(ValueError):
    """A plain document is none that a dynamic one resolves to."""


def resolve(dynamic: DynamicDocument, choice: Selection) -> dict[str, Any]:
    """The plain document in which each task has its chosen alternate, and each guarded stream a gate.

    Tasks and streams keep their positions. Gates, and the streams out of them, stand after all others.
    """
    tasks = list(dynamic.written["tasks"])
    streams = list(dynamic.written["streams"])
    for task in dynamic.tasks.values():
        tasks[task.at] = _resolved(task, choice.alternates[task.id])
    for stream in dynamic.streams.values():
        tasks.append({"id": stream.gate, "type": GATE_TYPE, "config": {"open": choice.opened[stream.name]}})
        into, out = _halves(streams[stream.at], stream.gate)
        streams[stream.at] = into
        streams.append(out)
    plain = {key: dynamic.written[key] for key in ("version", "name")}
    return {**plain, "tasks": tasks, "streams": [_without_guard(each) for each in streams]}


def choices_in(plain: Mapping[str, Any], dynamic: DynamicDocument) -> Selection:
    """The selection that resolves to a plain document. Raises `NotAResolution`."""
    found = {each["id"]: each for each in plain["tasks"]}
    return Selection(
        alternates={each.id: _alternate_in(found.get(each.id), each) for each in dynamic.tasks.values()},
        opened={each.name: _opened_in(found.get(each.gate), each) for each in dynamic.streams.values()},
    )


def implementation_text(alternate: Alternate) -> str:
    """What an alternate is, as a text in which 1 and true differ."""
    return json.dumps([alternate.type, alternate.config], sort_keys=True)


def _resolved(task: DynamicTask, name: str) -> dict[str, Any]:
    chosen = task.alternates[name]
    module = {} if chosen.module is None else {"module": chosen.module}
    tags = {"tags": sorted(task.tags)} if task.tags else {}
    return {"id": task.id, "type": chosen.type, "config": dict(chosen.config), **module, **tags}


def _halves(stream: Mapping[str, Any], gate: str) -> tuple[dict[str, Any], dict[str, Any]]:
    into = {key: value for key, value in stream.items() if key in {"from", "from_port"}}
    out = {key: value for key, value in stream.items() if key in {"to", "to_port"}}
    return {**into, "to": gate}, {"from": gate, **out}


def _without_guard(stream: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stream.items() if key != "when"}


def _alternate_in(found: Mapping[str, Any] | None, task: DynamicTask) -> str:
    text = None if found is None else json.dumps([found.get("type"), found.get("config", {})], sort_keys=True)
    for name, alternate in task.alternates.items():
        if text == implementation_text(alternate):
            return name
    raise NotAResolution(f"the task {task.id!r} has none of its alternates")


def _opened_in(found: Mapping[str, Any] | None, stream: GuardedStream) -> bool:
    opened = None if found is None else found.get("config", {}).get("open")
    if found is None or found.get("type") != GATE_TYPE or not isinstance(opened, bool):
        raise NotAResolution(f"the stream {stream.name!r} has no gate")
    return opened
