"""Pass: hold each config against its type's schema, fill in defaults, and write it down canonically."""

import json
from dataclasses import replace
from typing import Any

import rfc8785
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dags.canonical.draft import Draft
from dags.canonical.hooks import ask
from dags.problems import Problem, pointer
from dags.task_type import AnyTaskType, Config
from dags.wording import worded


def fill_configs(draft: Draft) -> Draft:
    """Give every task its complete config, as a record and as canonical JSON (RFC 8785).

    >>> fill_configs(find_types(draft("s:source > a:map > k:sink"))).config_texts[1]
    b'{"add":0}'
    >>> fill_configs(find_types(draft("s:source > a:map{'ad': 1} > k:sink"))).problems[0].remedy
    "did you mean 'add'?"
    """
    configs: list[Config | None] = []
    texts: list[bytes | None] = []
    problems: list[Problem] = []
    for i, (form, kind) in enumerate(zip(draft.reading.tasks, draft.types, strict=True)):
        config, text = None, None
        if form is not None and kind is not None:
            filled = ask(i, kind.name, _fill, kind, form.config, draft.tenant)
            if isinstance(filled, Problem):
                problems.append(filled)
            elif isinstance(filled, ValidationError):
                problems += [
                    _problem(i, form.config, kind, found)
                    for found in filled.errors(include_url=False, include_input=False)
                ]
            else:
                config, text = filled
        configs.append(config)
        texts.append(text)
    return replace(draft, configs=tuple(configs), config_texts=tuple(texts), problems=(*draft.problems, *problems))


def _fill(kind: AnyTaskType, given: dict[str, Any], owner: str) -> tuple[Config, bytes] | ValidationError:
    try:
        # Through JSON, because only there does strict mean what JSON can say: arrays for tuples, strings for enums.
        config: Config = kind.config.model_validate_json(json.dumps(given))
    except ValidationError as error:
        return error
    if kind.normalise is not None:
        config = kind.normalise(config)
    return config, canonical_json(config, owner)


def canonical_json(config: Config, owner: str) -> bytes:
    """A config as the text that is hashed; its secrets carry their owner."""
    return rfc8785.dumps(config.model_dump(mode="json", context={"owner": owner}))


def _problem(task: int, given: Any, kind: AnyTaskType, found: ErrorDetails) -> Problem:
    place: list[str | int] = []
    for token in found["loc"]:
        # Pydantic's places also name alternatives of a union; the document has no such level.
        if (isinstance(given, dict) and token in given) or (isinstance(given, list) and isinstance(token, int)):
            given = given[token]  # type: ignore[index]
            place.append(token)
        elif token == found["loc"][-1] and found["type"] == "missing":
            place.append(token)
    code, message, remedy = worded(found, tuple(kind.config.model_fields))
    return Problem(pointer=pointer("tasks", task, "config", *place), code=code, message=message, remedy=remedy)
