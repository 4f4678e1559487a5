"""Pass: check each config against its type's schema, fill in defaults, and write it as canonical JSON."""

import json
from dataclasses import replace
from typing import Any

import rfc8785
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dags.canonical.draft import DraftDocument
from dags.canonical.hooks import ask
from dags.config import Config
from dags.divisibility import TaskKeeping
from dags.json_text import LARGEST_INTEGER
from dags.problems import MOST_DOCUMENT_PROBLEMS, Problem, pointer, quoted
from dags.pydantic_errors import describe_error
from dags.task_type import AnyTaskType, Unsuitable


def fill_configs(draft: DraftDocument) -> DraftDocument:
    """Give every task its complete config, as a record and as canonical JSON (RFC 8785), and what follows from it.

    That is its type with the ports for that config, and what it keeps.

    >>> fill_configs(find_types(draft("s:source > a:map > k:sink"))).config_texts[1]
    b'{"add":0}'
    >>> fill_configs(find_types(draft("s:source > a:map{'ad': 1} > k:sink"))).problems[0].remedy
    "did you mean 'add'?"
    """
    configs: list[Config | None] = []
    texts: list[bytes | None] = []
    keepings: list[TaskKeeping | None] = []
    problems: list[Problem] = []
    types = list(draft.types)
    for i, (form, kind) in enumerate(zip(draft.reading.tasks, draft.types, strict=True)):
        config, text, keeping = None, None, None
        if form is not None and kind is not None:
            filled = ask(i, kind.name, complete, kind, form.config, draft.tenant)
            if kind.varies:
                # Without a config its ports and tags are unknown.
                types[i] = None
            if isinstance(filled, Problem):
                problems.append(filled)
            elif isinstance(filled, ValidationError):
                if len(problems) < MOST_DOCUMENT_PROBLEMS:
                    problems += _problems(i, form.config, kind, filled)
            else:
                config, text = filled
                if kind.varies:
                    found = ask(i, kind.name, _for_config, i, kind, config)
                    if isinstance(found, Problem):
                        problems.append(found)
                    else:
                        types[i] = found
                kept = ask(i, kind.name, TaskKeeping.of, kind, config, ())
                if isinstance(kept, Problem):
                    problems.append(kept)
                    config = None
                else:
                    keeping = kept
        configs.append(config)
        texts.append(text)
        keepings.append(keeping)
    return replace(
        draft,
        types=tuple(types),
        configs=tuple(configs),
        config_texts=tuple(texts),
        keepings=tuple(keepings),
        problems=(*draft.problems, *problems),
    )


def _for_config(i: int, kind: AnyTaskType, config: Config) -> AnyTaskType | Problem:
    try:
        return kind.of(config)
    except Unsuitable as error:
        place = pointer("tasks", i, "config", *error.at.split("/")) if error.at else pointer("tasks", i)
        return Problem(pointer=place, code="wrong-value", message=error.message, remedy=error.remedy)


def complete(kind: AnyTaskType, given: dict[str, Any], owner: str) -> tuple[Config, bytes] | ValidationError:
    """The whole config that a task's is short for, as a record and as canonical JSON; or what is wrong with it."""
    try:
        # From JSON text: there, strict still allows what JSON can express (arrays for tuples, strings for enums).
        config: Config = kind.config.model_validate_json(json.dumps(given))
    except ValidationError as error:
        return error
    if kind.normalise is not None:
        config = kind.normalise(config)
        if not isinstance(config, kind.config):
            raise TypeError(f"normalise returned {type(config).__name__}, not {kind.config.__name__}")
    return config, canonical_json(config, owner)


def canonical_json(config: Config, owner: str) -> bytes:
    """The text of a config that is hashed. Its secrets carry their owner."""
    value = config.model_dump(mode="json", by_alias=True, context={"owner": owner})
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        return rfc8785.dumps(_largest_as_float(value))


def _largest_as_float(value: Any) -> Any:
    """Make floats of the largest integers: RFC 8785 can write them, but rfc8785 accepts them only as floats."""
    if isinstance(value, dict):
        return {key: _largest_as_float(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_largest_as_float(item) for item in value]
    return float(value) if value in (LARGEST_INTEGER, -LARGEST_INTEGER) else value


def _problems(task: int, given: dict[str, Any], kind: AnyTaskType, error: ValidationError) -> list[Problem]:
    if error.error_count() > MOST_DOCUMENT_PROBLEMS:
        return [
            Problem(
                pointer=pointer("tasks", task, "config"),
                code="too-many-problems",
                message=f"the config breaks the schema of {quoted(kind.name)} in {error.error_count():,} places",
                remedy="compare it with the schema of the type",
            )
        ]
    findings = error.errors(include_url=False, include_input=False)
    problems = (_problem(task, given, kind, found) for found in findings)
    return [problem for problem in problems if problem is not None]


def _problem(task: int, given: Any, kind: AnyTaskType, found: ErrorDetails) -> Problem | None:
    place: list[str | int] = []
    for token in found["loc"]:
        # Pydantic's paths also name the alternatives of a union, a level that the document does not have.
        if (isinstance(given, dict) and token in given) or (
            isinstance(given, list) and isinstance(token, int) and token < len(given)
        ):
            given = given[token]  # type: ignore[index]
            place.append(token)
        elif token == found["loc"][-1] and found["type"] == "missing":
            place.append(token)
    if found["type"] == "too_short" and len(given) >= found["ctx"]["min_length"]:
        # An array with bad entries also counts as too short, which is no problem of its own.
        return None
    if found["type"] == "int_type" and isinstance(given, float) and given.is_integer():
        return Problem(
            pointer=pointer("tasks", task, "config", *place),
            code="integer-too-large",
            message="the integer is beyond ±2^53, where JSON numbers lose digits",
            remedy="use a smaller one",
        )
    # The known fields are those of the config itself; they are unknown for nested objects.
    fields = kind.config.model_fields.items() if len(place) == 1 else ()
    code, message, remedy = describe_error(found, [field.alias or name for name, field in fields])
    return Problem(pointer=pointer("tasks", task, "config", *place), code=code, message=message, remedy=remedy)
