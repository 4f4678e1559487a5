"""Edited documents: patches applied to a document, and the check that tasks change, come and go in place; pure."""

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from graphlib import TopologicalSorter
from typing import Any, NamedTuple, TypeAlias

from dags import Problem
from dags.problems import pointer
from merge.reconfiguration.alteration import below

TaskPatches: TypeAlias = Mapping[str, Mapping[str, Any]]
"""For each task its JSON merge patch (RFC 7396)."""
_PATCHED = frozenset({"type", "config"})


def patched(document: str, patches: TaskPatches) -> tuple[str, tuple[Problem, ...]]:
    """The document with its tasks patched, and the problems with the patches."""
    edited = json.loads(document)
    tasks = {task["id"]: at for at, task in enumerate(edited["tasks"])}
    problems: list[Problem] = []
    for name, patch in patches.items():
        unknown = sorted(patch.keys() - _PATCHED)
        if name not in tasks:
            at, message = pointer("tasks", name), f"the dataflow has no task {name!r}"
            problem = Problem(pointer=at, code="unknown-task", message=message, remedy="name a task of its document")
        elif unknown:
            at, message = (
                pointer("tasks", name, unknown[0]),
                "only the type and the config of a running task can change",
            )
            problem = Problem(pointer=at, code="not-changeable", message=message, remedy="replace the document instead")
        else:
            # What is patched is no module any more.
            task = {key: value for key, value in edited["tasks"][tasks[name]].items() if key != "module"}
            edited["tasks"][tasks[name]] = _merged(task, patch)
            continue
        problems.append(problem)
    return json.dumps(edited, ensure_ascii=False), tuple(problems)


class DocumentDifference(NamedTuple):
    """The difference between a document and the edited one."""

    rerouted: frozenset[str]
    """The tasks of the edited document that other streams enter than before, those that are new among them."""
    streams: list[tuple[str, str]]
    """The streams of the edited document, as pairs of task ids."""
    problem: Problem | None
    """What is in the way if tasks are fed otherwise, except by tasks that are inserted or taken out in between."""


def compared(document: str, edited: str) -> DocumentDifference:
    """Compare two valid documents. A task lies in between if some task that stays is above it, and some below."""
    before, after = _entering(document), _entering(edited)
    stay = before.keys() & after.keys()
    problem = None
    if outside := [*_outside(after, stay), *_outside(before, stay)]:
        problem = _replace("tasks", f"the task {outside[0]!r} is new or gone, and not between tasks that stay")
    elif _without_between(before, stay) != _without_between(after, stay):
        problem = _replace("streams", "the edited document has other streams, apart from tasks in between")
    return DocumentDifference(
        rerouted=frozenset(task for task, streams in after.items() if streams != before.get(task, frozenset())),
        streams=_downwards(after),
        problem=problem,
    )


_Entering: TypeAlias = Mapping[str, frozenset[tuple[str, str, str]]]
"""To each task the streams that enter it: its port, the parent, and the parent's port."""


def _entering(document: str) -> _Entering:
    read = json.loads(document)
    entering: dict[str, set[tuple[str, str, str]]] = {task["id"]: set() for task in read["tasks"]}
    for stream in read["streams"]:
        entering[stream["to"]].add((stream.get("to_port") or "", stream["from"], stream.get("from_port") or ""))
    return {task: frozenset(streams) for task, streams in entering.items()}


def _downwards(entering: _Entering) -> list[tuple[str, str]]:
    """The streams, as pairs of task ids."""
    return [(parent, task) for task, streams in entering.items() for _, parent, _ in streams]


def _outside(entering: _Entering, stay: AbstractSet[str]) -> list[str]:
    """The tasks that do not stay, and have none that does above them or below."""
    downwards = _downwards(entering)
    reached = below(downwards, stay) & below([(task, parent) for parent, task in downwards], stay)
    return sorted(entering.keys() - reached)


def _without_between(entering: _Entering, stay: AbstractSet[str]) -> _Entering:
    """To each task that stays the streams that enter it, as if the others were not there and handed events on."""
    origins: dict[str, frozenset[tuple[str, str, str]]] = {}
    parents = {task: [parent for _, parent, _ in streams] for task, streams in entering.items()}
    for task in TopologicalSorter(parents).static_order():
        origins[task] = frozenset(
            (port, *origin)
            for port, parent, parent_port in entering[task]
            for origin in ([(parent, parent_port)] if parent in stay else [stream[1:] for stream in origins[parent]])
        )
    return {task: origins[task] for task in stay}


def _replace(part: str, message: str) -> Problem:
    return Problem(
        pointer=pointer(part),
        code="other-shape",
        message=message,
        remedy="replace the document instead; while tasks run, they change, and others come and go between them",
    )


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(value) if isinstance(value, Mapping) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), change)
    return merged
