"""Checks of alternates: each makes a document that passes all checks, and all of a task emit the same.

What passes with one alternate passes with another that emits the same, so alternates need not be tried in every
combination.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from adaptation.documents.dynamic_document import DynamicDocument, DynamicTask, Selection
from adaptation.documents.resolution import resolve
from dags import Dataflow, InvalidDocument, Problem, Schemas
from dags.problems import pointer, quoted
from dags.reconfiguration import emitted

_MOST_ALONE = 20_000
"""Of tasks in the documents in which one alternate is tried alone, so that a bad document stays cheap."""

Canonical = Callable[[bytes], Dataflow]
"""Makes a plain document canonical. Raises `InvalidDocument`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one resolution: a dataflow, or problems by their places in the dynamic document."""

    dataflow: Dataflow | None
    problems: tuple[Problem, ...]


def alternate_problems(dynamic: DynamicDocument, canonical: Canonical) -> Iterator[Problem]:
    """What is wrong with the documents that a dynamic one resolves to."""
    first = _outcome(dynamic, dynamic.first, canonical)
    yield from first.problems
    if first.dataflow is not None:
        yield from _ends(dynamic, first.dataflow)
    left = max(1, _MOST_ALONE // len(dynamic.written["tasks"]))
    for changed in _rounds(dynamic):
        together = _outcome(dynamic, _changed(dynamic, changed), canonical)
        is_sound = together.dataflow is not None and first.dataflow is not None
        found: list[Problem] = []
        for task, name in list(changed.items())[: None if is_sound else left]:
            alone = together if is_sound else _outcome(dynamic, _changed(dynamic, {task: name}), canonical)
            found += _of_one(dynamic.tasks[task], name, first, alone)
        left = left if is_sound else max(0, left - len(changed))
        # Where not each could be tried alone, it is at least said what is wrong with all of them.
        yield from found or together.problems


def _rounds(dynamic: DynamicDocument) -> Iterator[Mapping[str, str]]:
    """Every alternate that is not the first one of its task; many at once, since most documents are right."""
    others = {task.id: [name for name in task.alternates if name != task.first] for task in dynamic.tasks.values()}
    for number in range(max(map(len, others.values()), default=0)):
        yield {task: names[number] for task, names in others.items() if number < len(names)}


def _changed(dynamic: DynamicDocument, changed: Mapping[str, str]) -> Selection:
    first = dynamic.first
    return replace(first, alternates={**first.alternates, **changed})


def _outcome(dynamic: DynamicDocument, choice: Selection, canonical: Canonical) -> _Outcome:
    text = json.dumps(resolve(dynamic, choice), ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        return _Outcome(dataflow=canonical(text), problems=())
    except InvalidDocument as refused:
        found = [replace(each, pointer=_place(each.pointer, dynamic, choice)) for each in refused.problems]
        return _Outcome(dataflow=None, problems=tuple(found))


def _of_one(task: DynamicTask, name: str, first: _Outcome, alone: _Outcome) -> Iterator[Problem]:
    """What is wrong with one alternate."""
    at = ("tasks", task.at, "alternates", list(task.alternates).index(name))
    own = [each for each in alone.problems if f"{each.pointer}/".startswith(f"{pointer(*at)}/")]
    if own:
        yield from own
    elif first.dataflow is not None and alone.dataflow is None:
        why = alone.problems[0].message
        yield _differs(at, f"it does not fit in the place of {quoted(task.first)}: {why}")
    elif first.dataflow is not None and alone.dataflow is not None:
        one, other = (_emitted(each, task.id) for each in (first.dataflow, alone.dataflow))
        if one != other:
            message = f"it emits {_words(other)}, but {quoted(task.first)} emits {_words(one)}"
            yield _differs(at, message)


def _differs(at: Iterable[str | int], message: str) -> Problem:
    remedy = "let all alternates of a task emit the same fields at the same ports"
    return Problem(pointer=pointer(*at), code="alternates-differ", message=message, remedy=remedy)


def _ends(dynamic: DynamicDocument, dataflow: Dataflow) -> Iterator[Problem]:
    for task in dynamic.tasks.values():
        kind = dataflow.tasks[dataflow.places[task.id]].type
        if kind.is_source or kind.is_sink:
            yield Problem(
                pointer=pointer("tasks", task.at),
                code="dynamic-end",
                message="a task with alternates is neither where a dataflow begins nor where it ends",
                remedy="give the alternates to a task between the two",
            )


def _emitted(dataflow: Dataflow, task: str) -> Mapping[str, Mapping[str, str]]:
    found = dataflow.tasks[dataflow.places[task]]
    schemas: Schemas = {} if found.type.is_source else emitted(found)
    return {port: dict(schema.fields) for port, schema in schemas.items()}


def _words(ports: Mapping[str, Mapping[str, str]]) -> str:
    """Some schemas in words."""
    parts = [
        f"{', '.join(f'{quoted(name)} ({fields[name]})' for name in sorted(fields)) or 'no fields'} at {quoted(port)}"
        for port, fields in sorted(ports.items())
    ]
    return " and ".join(parts) or "nothing"


def _place(at: str, dynamic: DynamicDocument, choice: Selection) -> str:
    """The place in a dynamic document of a place in what it resolves to."""
    part, *rest = at.split("/")[1:] or [""]
    if part not in {"tasks", "streams"} or not rest:
        return at
    position = int(rest[0])
    written = dynamic.written[part]
    if position >= len(written):
        stream = list(dynamic.streams.values())[position - len(written)]
        end = [] if part == "tasks" or rest[1:2] == ["from"] else rest[1:]
        return _joined("streams", stream.at, *end)
    task = next((each for each in dynamic.tasks.values() if each.at == position), None)
    if part == "streams" or task is None or rest[1:] == ["id"]:
        return at
    return _joined("tasks", position, "alternates", *_in_alternate(task, choice.alternates[task.id], rest[1:], written))


def _in_alternate(task: DynamicTask, name: str, rest: list[str], written: Any) -> tuple[str | int, ...]:
    number = list(task.alternates).index(name)
    given = written[task.at]["alternates"][number]
    is_given = rest[:1] != ["type"] and (rest[:1] != ["config"] or not {*rest[1:2]} - given.get("config", {}).keys())
    return (number, *rest) if is_given or task.alternates[name].module is None else (number, "module")


def _joined(*tokens: str | int) -> str:
    return "".join(f"/{token}" for token in tokens)
