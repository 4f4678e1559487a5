"""The earlier documents of a dataflow: a change that was made for one of them is refused.

Who sends it with the tag of that document learns what others have changed since then, because the last few documents
that a dataflow had are kept.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from sqlmodel import Session, col, select

from dags import Problem
from dags.problems import pointer, quoted
from manager.documents.difference import ChangeKind, DocumentChange, changes
from manager.kernel.dataflow_rows import document_tag, written_in
from manager.problem import Changed
from manager.store.tables import DataflowRow, ReplacedDocumentRow

Tags: TypeAlias = frozenset[str]
"""The tags of documents of which a dataflow must have one for a change to be made."""
_MOST_DIFFERENCES = 100
_LONGEST_VALUE = 60
_REMEDY = "take it over, or send yours with the tag of what is there to overwrite it"


def check_unchanged(session: Session, row: DataflowRow, tags: Tags | None) -> None:
    """Refuse a change that was made for other documents than a dataflow has; None is one made for any."""
    if tags is None:
        return
    written = written_in(row)
    if (tag := document_tag(written)) in tags:
        return
    wanted = select(ReplacedDocumentRow.document).where(
        col(ReplacedDocumentRow.dataflow) == row.id, col(ReplacedDocumentRow.tag).in_(tags)
    )
    before = session.exec(wanted.limit(1)).first()
    raise Changed(row.id, tag, () if before is None else differences(json.loads(before), json.loads(written)))


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Problem, ...]:
    """How a document differs from what it was, in the words of documents.

    >>> one = {"name": "n", "tasks": [{"id": "a", "type": "count", "config": {"of": 1}}]}
    >>> other = {"name": "n", "tasks": [{"id": "a", "type": "count", "config": {"of": 2}}]}
    >>> [(problem.pointer, problem.message) for problem in differences(one, other)]
    [('/tasks/0/config/of', 'task a has 2 as its config.of, and had 1')]
    """
    places = {f"task {task.get('id')}": at for at, task in enumerate(now.get("tasks", ()))}
    return tuple(
        Problem(pointer=_pointer(change, places), code=change.kind, message=_message(change), remedy=_REMEDY)
        for change in changes(before, now)[:_MOST_DIFFERENCES]
    )


def _pointer(change: DocumentChange, places: Mapping[str, int]) -> str:
    """The place in the document that is there now; of what is gone, where it was."""
    if change.what in places:
        return pointer("tasks", places[change.what], *change.path)
    part, _, rest = change.what.partition(" ")
    return pointer(f"{part}s") if rest else pointer(*change.path)


def _message(change: DocumentChange) -> str:
    match change.kind:
        case ChangeKind.ADDED:
            return f"{change.what} is new"
        case ChangeKind.REMOVED:
            return f"{change.what} is gone"
        case ChangeKind.CHANGED:
            now, before = _value(change.after), _value(change.before)
            return f"{change.what} has {now} as its {change.field}, and had {before}"


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else quoted(text)
