"""The document: the JSON form in which a tenant submits a dataflow, and its reader.

The models are the published JSON Schema (`docs/dataflow.schema.json`) and check the form only. The canonical passes
check the meaning (types, sources, ports, fields). Malformed, oversized or unfit text becomes problems, never a
traceback. Readable parts are kept even if others are not, so that the passes find their problems in the same run.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from dags.json_text import LONGEST_KEY, MOST_UNFIT, F, Path, describe_error, parsed_object, refusal, unfit_values
from dags.problems import MOST_DOCUMENT_PROBLEMS, InvalidDocument, Problem, problem_at
from dags.task_type import LONGEST_PORT

MOST_TASKS = 10_000
MOST_DOCUMENT_STREAMS = 50_000
MOST_TAGS = 50

# A task's id names its output topic, so it may contain no control character and none that is special in MQTT.
TaskId = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^/+#\x00-\x1f\x7f-\x9f]+$", strict=True)
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", strict=True)]
HostTag = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\s,\x00-\x1f\x7f-\x9f]+$", strict=True)
]
"""What a host must offer; the command line joins several by commas."""
PortName = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_PORT, strict=True)]


_ID: TypeAdapter[str] = TypeAdapter(TaskId)


def is_task_id(text: str) -> bool:
    """Whether a task may have such an id."""
    try:
        _ID.validate_python(text)
    except ValidationError:
        return False
    return True


class StrictForm(BaseModel):
    """The base of all forms: what JSON texts are read as."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TaskForm(StrictForm):
    """One task: a vertex of the dataflow."""

    id: TaskId
    """Unique within the document."""
    type: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """The name of a task type in the catalogue."""
    config: dict[str, Any] = Field(
        default_factory=dict, json_schema_extra={"propertyNames": {"maxLength": LONGEST_KEY}}
    )
    """As the task type's schema requires. Fields with a default may be left out."""
    module: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The module that planning chose for it. It has no effect on sharing."""
    # Not strict, because JSON has no tuples.
    tags: Annotated[tuple[HostTag, ...], Field(max_length=MOST_TAGS, strict=False)] = ()
    """Tags that a host must offer to run it, besides those of its type. They have no effect on sharing."""
    fresh: bool = False
    """Start this task and all tasks after it anew, instead of sharing tasks that already run."""


class StreamForm(StrictForm):
    """One stream: from an output port of a task to an input port of another."""

    origin: str = Field(alias="from", max_length=128)
    """The id of the task that emits."""
    from_port: PortName | None = None
    """May be left out if the task has one output port."""
    to: Annotated[str, StringConstraints(max_length=128)]
    """The id of the task that receives."""
    to_port: PortName | None = None
    """May be left out if the task has one input port."""


class Document(StrictForm):
    """A dataflow as its tenant wrote it."""

    model_config = ConfigDict(title="Braid dataflow")

    # Bounds, not a literal: a literal 1 also accepts true.
    version: Annotated[int, Field(ge=1, le=1)]
    """The version of the document format."""
    name: Name
    """A name for people. It has no effect on sharing."""
    # Not strict, because JSON has no tuples.
    tasks: Annotated[tuple[TaskForm, ...], Field(min_length=1, max_length=MOST_TASKS, strict=False)]
    streams: Annotated[tuple[StreamForm, ...], Field(max_length=MOST_DOCUMENT_STREAMS, strict=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The readable parts of a document; made by `read`. An unreadable entry is None."""

    name: str
    tasks: tuple[TaskForm | None, ...]
    streams: tuple[StreamForm | None, ...]
    unreadable_ids: frozenset[str] = frozenset()
    """Ids of unreadable tasks, so that streams to them are no second problem."""
    problems: tuple[Problem, ...] = ()


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
        # A list also counts as empty if all its entries are bad.
        findings = [
            detail
            for detail in error.errors(include_url=False, include_input=False)
            if not (detail["type"] == "too_short" and value[str(detail["loc"][0])])
        ]
        new = (detail for detail in findings if detail["loc"][:2] not in spoilt)
        problems += [_form_problem(detail) for detail in islice(new, MOST_DOCUMENT_PROBLEMS)]
        spoilt |= {detail["loc"][:2] for detail in findings}
        return _salvage(value, spoilt, problems)
    if problems:
        return _salvage(value, spoilt, problems)
    return Reading(name=document.name, tasks=document.tasks, streams=document.streams)


def _salvage(value: dict[str, Any], spoilt: set[Path], problems: list[Problem]) -> Reading:
    """Keep the readable parts of a document that has problems."""
    tasks, streams = value.get("tasks"), value.get("streams")

    def readable(part: str, items: Any, form: type[F]) -> tuple[F | None, ...]:
        # One unreadable entry stands for an unreadable list, so that nothing counts as missing from it.
        if not isinstance(items, list):
            return (None,)
        return tuple(None if (part, i) in spoilt else form.model_validate(item) for i, item in enumerate(items))

    return Reading(
        name=str(value.get("name")),
        tasks=readable("tasks", tasks, TaskForm),
        # Without a list of tasks, streams cannot be checked.
        streams=readable("streams", streams if isinstance(tasks, list) else None, StreamForm),
        unreadable_ids=frozenset(
            item["id"]
            for i, item in enumerate(tasks if isinstance(tasks, list) else ())
            if ("tasks", i) in spoilt and isinstance(item, dict) and isinstance(item.get("id"), str)
        ),
        problems=tuple(problems),
    )


_FORMS: dict[str, type[BaseModel]] = {"tasks": TaskForm, "streams": StreamForm}


def _form_problem(detail: ErrorDetails) -> Problem:
    path = detail["loc"]
    if path == ("version",) and detail["type"] != "missing":
        code, message, remedy = "unknown-version", "the version is unknown", "use 1"
    else:
        form: type[BaseModel] = Document if len(path) == 1 else _FORMS[str(path[0])]
        known = [field.alias or name for name, field in form.model_fields.items()]
        code, message, remedy = describe_error(detail, known)
    return problem_at(code, message, remedy, *path)
