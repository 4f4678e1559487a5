"""The guarded streams of a document: their names, and the ids of their gates."""

from collections import Counter
from collections.abc import Collection
from itertools import count

from pydantic import TypeAdapter, ValidationError

from adaptation.documents.dynamic_document import GuardedStream
from adaptation.documents.dynamic_form import DynamicForm, GuardedStreamForm
from dags import Problem
from dags.document import TaskId
from dags.problems import pointer, quoted

_ID: TypeAdapter[str] = TypeAdapter(TaskId)


def guarded_streams(form: DynamicForm, problems: list[Problem]) -> dict[str, GuardedStream]:
    """The guarded streams by name; what is wrong with them is added to the problems."""
    ids = {entry.id for entry in form.tasks}
    between = Counter((each.origin, each.to) for each in form.streams if each.when is not None)
    found: dict[str, GuardedStream] = {}
    for at, stream in enumerate(form.streams):
        if stream.when is None:
            continue
        name = _name(stream, is_only=between[stream.origin, stream.to] == 1)
        if name in found:
            problems.append(
                Problem(
                    pointer=pointer("streams", at),
                    code="repeated-stream",
                    message=f"another guarded stream is called {quoted(name)}",
                    remedy="remove one of them, or rename a task",
                )
            )
            continue
        gate = _free_id(name, ids)
        ids.add(gate)
        found[name] = GuardedStream(name=name, at=at, gate=gate, when=stream.when)
    return found


def _name(stream: GuardedStreamForm, *, is_only: bool) -> str:
    if is_only:
        return f"{stream.origin}>{stream.to}"
    return f"{stream.origin}.{stream.from_port or 'out'}>{stream.to}.{stream.to_port or 'in'}"


def _free_id(name: str, ids: Collection[str]) -> str:
    """The name of a stream as the id of its gate, or another if it is none or is taken."""
    if name not in ids and _is_id(name):
        return name
    return next(each for number in count(1) if (each := f"gate {number}") not in ids)


def _is_id(text: str) -> bool:
    try:
        return _ID.validate_python(text) == text
    except ValidationError:
        return False
