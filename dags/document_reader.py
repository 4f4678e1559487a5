"""Read a document from bytes. Malformed, oversized or unfit text becomes problems, never a traceback.

Readable parts are kept even if other parts are not, so that the passes find their problems in the same run.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dags.document import MOST_DOCUMENT_STREAMS, MOST_TASKS, Document, StreamForm, TaskForm
from dags.json_text import MOST_UNFIT, Path, parsed_object, refusal, unfit_values
from dags.problems import MOST_DOCUMENT_PROBLEMS, InvalidDocument, Problem, pointer
from dags.pydantic_errors import describe_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The readable parts of a document; made by `read`. An unreadable entry is None."""

    name: str
    tasks: tuple[TaskForm | None, ...]
    streams: tuple[StreamForm | None, ...]
    unreadable_ids: frozenset[str]
    """Ids of unreadable tasks, so that streams to them are no second problem."""
    problems: tuple[Problem, ...]


def read(raw: bytes | str) -> Reading:
    """Read a document's text. Raises `InvalidDocument` only if no part is readable."""
    value = parsed_object(raw)
    for part, most in (("tasks", MOST_TASKS), ("streams", MOST_DOCUMENT_STREAMS)):
        if isinstance(items := value.get(part), list) and len(items) > most:
            raise refusal(
                f"too-many-{part}",
                f"the document has {len(items):,} {part}; {most:,} are allowed",
                "split it into several dataflows; they share what they have in common",
                part,
            )
    problems: list[Problem] = []
    spoilt: set[Path] = set()
    for path, problem in unfit_values(value):
        problems.append(problem)
        spoilt.add(path[:2])
        if len(problems) == MOST_UNFIT:
            raise InvalidDocument(problems)
    try:
        # Without the parts already reported: pydantic stops at a key with half a character.
        document = Document.model_validate({key: item for key, item in value.items() if (key,) not in spoilt})
    except ValidationError as error:
        findings = [found for found in error.errors(include_url=False, include_input=False) if _is_new(found, value)]
        new = (found for found in findings if found["loc"][:2] not in spoilt)
        problems += [_form_problem(found) for found in islice(new, MOST_DOCUMENT_PROBLEMS)]
        spoilt |= {found["loc"][:2] for found in findings}
        return _salvage(value, spoilt, problems)
    if problems:
        return _salvage(value, spoilt, problems)
    return Reading(
        name=document.name,
        tasks=document.tasks,
        streams=document.streams,
        unreadable_ids=frozenset(),
        problems=(),
    )


def _is_new(found: ErrorDetails, value: dict[str, Any]) -> bool:
    """False for a list that counts as empty because all its entries are bad."""
    return not (found["type"] == "too_short" and value[str(found["loc"][0])])


def _salvage(value: dict[str, Any], spoilt: set[Path], problems: list[Problem]) -> Reading:
    """Keep the readable parts of a document that has problems."""

    def entries(part: str) -> list[Any]:
        # One unreadable entry stands for an unreadable list, so that nothing counts as missing from it.
        items = value.get(part)
        return items if isinstance(items, list) else [None]

    # Without a list of tasks, streams cannot be checked.
    if not isinstance(value.get("tasks"), list):
        value = {**value, "streams": None}
    spoilt = {*spoilt, *((part, 0) for part in _FORMS if not isinstance(value.get(part), list))}
    return Reading(
        name=str(value.get("name")),
        tasks=tuple(
            None if ("tasks", i) in spoilt else TaskForm.model_validate(item) for i, item in enumerate(entries("tasks"))
        ),
        streams=tuple(
            None if ("streams", i) in spoilt else StreamForm.model_validate(item)
            for i, item in enumerate(entries("streams"))
        ),
        unreadable_ids=frozenset(
            item["id"]
            for i, item in enumerate(entries("tasks"))
            if ("tasks", i) in spoilt and isinstance(item, dict) and isinstance(item.get("id"), str)
        ),
        problems=tuple(problems),
    )


_FORMS: dict[str, type[BaseModel]] = {"tasks": TaskForm, "streams": StreamForm}


def _form_problem(found: ErrorDetails) -> Problem:
    """The problem for one of pydantic's errors in the document's form."""
    path = found["loc"]
    if path == ("version",) and found["type"] != "missing":
        code, message, remedy = "unknown-version", "the version is unknown", "use 1"
    else:
        form: type[BaseModel] = Document if len(path) == 1 else _FORMS[str(path[0])]
        known = [field.alias or name for name, field in form.model_fields.items()]
        code, message, remedy = describe_error(found, known)
    return Problem(pointer=pointer(*path), code=code, message=message, remedy=remedy)
