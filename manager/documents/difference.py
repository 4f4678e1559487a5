"""The difference between two documents, in their words: what comes, what goes, and which fields change.

The order of tasks and streams does not matter, nor does a field that is null instead of absent.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field


class ChangeKind(StrEnum):
    """What became of a part of a document."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class DocumentChange(BaseModel):
    """One difference."""

    kind: ChangeKind
    what: str
    """The task, stream or field, such as `task mean` or `stream water → mean`."""
    field: str = ""
    """The field of it that changed, such as `config.window`."""
    path: tuple[str, ...] = Field(default=(), exclude=True)
    """The names that lead to the field, each of which may have a dot."""
    before: Any = None
    after: Any = None


_LISTS = ("tasks", "streams")


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[DocumentChange, ...]:
    """What makes the document `after` of the document `before`.

    >>> one = {"name": "x", "tasks": [{"id": "a", "type": "count", "config": {"by": ["b"]}}], "streams": []}
    >>> other = {**one, "tasks": [{"id": "a", "type": "count", "config": {"by": ["c"]}}, {"id": "o", "type": "output"}]}
    >>> for change in changes(one, other):
    ...     print(change.kind, change.what, change.field, change.before, change.after)
    changed task a config.by ['b'] ['c']
    added task o  None {'id': 'o', 'type': 'output'}
    """
    was_plain, is_plain = ({name: was[name] for name in was if name not in _LISTS} for was in (before, after))
    return (
        *(_changed("document", *field) for field in _fields(was_plain, is_plain)),
        *_parts(*map(_tasks, (before, after))),
        *_parts(*map(_streams, (before, after))),
    )


def _tasks(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {f"task {task.get('id')}": task for task in _listed(document, "tasks")}


def _streams(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {f"stream {_end(one, 'from')} → {_end(one, 'to')}": one for one in _listed(document, "streams")}


def _listed(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    items = document.get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _end(stream: Mapping[str, Any], side: str) -> str:
    port = stream.get(f"{side}_port")
    return f"{stream.get(side)}.{port}" if port else str(stream.get(side))


def _parts(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> Iterator[DocumentChange]:
    for what, was in before.items():
        if what not in after:
            yield DocumentChange(kind=ChangeKind.REMOVED, what=what, before=was)
        else:
            yield from (_changed(what, *field) for field in _fields(was, after[what]))
    for what, becomes in after.items():
        if what not in before:
            yield DocumentChange(kind=ChangeKind.ADDED, what=what, after=becomes)


def _changed(what: str, path: tuple[str, ...], before: Any, after: Any) -> DocumentChange:
    kind, field = ChangeKind.CHANGED, ".".join(path)
    return DocumentChange(kind=kind, what=what, field=field, path=path, before=before, after=after)


def _fields(
    before: Mapping[str, Any], after: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """The paths to the fields that differ, with both values; those of objects one by one."""
    for name in [*before, *(name for name in after if name not in before)]:
        was, becomes = before.get(name), after.get(name)
        if isinstance(was, Mapping) and isinstance(becomes, Mapping):
            yield from _fields(was, becomes, (*above, name))
        # In Python, true equals 1.
        elif was != becomes or isinstance(was, bool) is not isinstance(becomes, bool):
            yield (*above, name), was, becomes
