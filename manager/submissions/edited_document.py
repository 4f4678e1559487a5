"""Edited documents: patches applied to a document, and the check that only tasks differ; pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from dags import Problem
from dags.problems import pointer

TaskPatches: TypeAlias = Mapping[str, Mapping[str, Any]]
"""For each task its JSON merge patch (RFC 7396)."""
_PATCHED = frozenset({"type", "config"})


def patched(document: str, patches: TaskPatches) -> tuple[str, tuple[Problem, ...]]:
    """The document with its tasks patched, and the problems with the patches."""
    edited = json.loads(document)
    tasks = {task["id"]: at for at, task in enumerate(edited["tasks"])}
    problems: list[Problem] = []
    for name, patch in patches.items():
        if name not in tasks:
            problems.append(
                Problem(
                    pointer=pointer("tasks", name),
                    code="unknown-task",
                    message=f"the dataflow has no task {name!r}",
                    remedy="name a task of its document",
                )
            )
            continue
        if unknown := sorted(patch.keys() - _PATCHED):
            problems.append(
                Problem(
                    pointer=pointer("tasks", name, unknown[0]),
                    code="not-changeable",
                    message="only the type and the config of a running task can change",
                    remedy="replace the document instead",
                )
            )
            continue
        # What is patched is no module any more.
        task = {key: each for key, each in edited["tasks"][tasks[name]].items() if key != "module"}
        edited["tasks"][tasks[name]] = _merged(task, patch)
    return json.dumps(edited, ensure_ascii=False), tuple(problems)


def streams_of(document: str) -> list[tuple[str, str]]:
    """The streams of a document, as pairs of task ids."""
    return [(stream["from"], stream["to"]) for stream in json.loads(document)["streams"]]


def shape_problems(document: str, edited: str) -> Iterator[Problem]:
    """A problem if more than the types and configs of tasks differ; both documents are valid."""
    before, after = json.loads(document), json.loads(edited)
    if {task["id"] for task in before["tasks"]} != {task["id"] for task in after["tasks"]}:
        yield _replace("tasks", "the edited document has other tasks")
    elif sorted(map(_stream, before["streams"])) != sorted(map(_stream, after["streams"])):
        yield _replace("streams", "the edited document has other streams")


def _replace(part: str, message: str) -> Problem:
    return Problem(
        pointer=pointer(part),
        code="other-shape",
        message=message,
        remedy="replace the document instead; only types and configs change while tasks run",
    )


def _stream(stream: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return stream["from"], stream.get("from_port") or "", stream["to"], stream.get("to_port") or ""


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(value) if isinstance(value, Mapping) else {}
    for key, each in patch.items():
        if each is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), each)
    return merged
