"""Pass: find each task's type in the catalogue."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dags.canonical.draft import DraftDocument
from dags.canonical.hooks import ask
from dags.problems import Problem, listed, pointer, quoted, suggestion
from dags.task_type import AnyTaskType


def find_types(draft: DraftDocument) -> DraftDocument:
    """Give every task its type.

    >>> find_types(draft("s:source > a:map > k:sink")).types[1].name
    'map'
    >>> find_types(draft("s:source > a:mapp > k:sink")).problems[0].remedy
    "did you mean 'map'?"
    """
    known: dict[str, AnyTaskType | None] = {}
    types: list[AnyTaskType | None] = []
    unknown: dict[int, str] = {}
    problems: list[Problem] = []
    for i, form in enumerate(draft.reading.tasks):
        if form is None:
            types.append(None)
            continue
        if form.type not in known:
            found = ask(i, form.type, draft.catalogue.find, form.type)
            if isinstance(found, Problem):
                problems.append(found)
                types.append(None)
                continue
            known[form.type] = found
        types.append(known[form.type])
        if types[-1] is None:
            unknown[i] = form.type
    problems += _unknown(draft, unknown) if unknown else ()
    return replace(draft, types=tuple(types), problems=(*draft.problems, *problems))


def _unknown(draft: DraftDocument, named: Mapping[int, str]) -> Iterable[Problem]:
    known = draft.catalogue.names()
    otherwise = f"the known types are {listed(known)}"
    for task, name in named.items():
        yield Problem(
            pointer=pointer("tasks", task, "type"),
            code="unknown-type",
            message=f"unknown task type {quoted(name)}",
            remedy=suggestion(name, known, otherwise),
        )
