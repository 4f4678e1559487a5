"""Helpers for refused documents, and a free-form task type that takes any JSON value."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dags import AnyTaskType, Catalogue, Config, Dataflow, InvalidDocument, Namespace, Problem, Source, TaskType
from dags.canonical import canonicalise as canonicalise_with
from tests.catalogue import CATALOGUE, SOURCES, TYPES
from tests.notation import document


class FreeConfig(Config):
    value: Any = None


FREE = TaskType(name="free", config=FreeConfig)


def catalogue_with(*entries: AnyTaskType | Namespace) -> Catalogue:
    """The tests' catalogue and some entries more."""
    return Catalogue.of([*TYPES, *CATALOGUE.namespaces, *entries])


def canonicalise(
    written: dict[str, Any] | str | bytes,
    *,
    tenant: str = "ann",
    catalogue: Catalogue = CATALOGUE,
    sources: Mapping[str, Source] = SOURCES,
) -> Dataflow:
    """The canonical dataflow of a document, or of the text of one."""
    raw = json.dumps(written) if isinstance(written, dict) else written
    return canonicalise_with(raw, dataflow="flow", tenant=tenant, catalogue=catalogue, sources=sources)


def problems(
    written: dict[str, Any] | str | bytes,
    *,
    tenant: str = "ann",
    catalogue: Catalogue = CATALOGUE,
    sources: Mapping[str, Source] = SOURCES,
) -> list[Problem]:
    """All problems of a document, in order. It has to be refused."""
    with pytest.raises(InvalidDocument) as refused:
        canonicalise(written, tenant=tenant, catalogue=catalogue, sources=sources)
    return list(refused.value.problems)


def codes(written: dict[str, Any] | str | bytes, *, catalogue: Catalogue = CATALOGUE) -> list[tuple[str, str]]:
    """Where a refused document has problems, and of what kind."""
    return [(problem.pointer, problem.code) for problem in problems(written, catalogue=catalogue)]


def problem(pointer: str, code: str, message: str, remedy: str) -> Problem:
    """A problem in one line."""
    return Problem(pointer=pointer, code=code, message=message, remedy=remedy)


def holding(value: str) -> str:
    """The text of a document in whose second task a config value is written in this way."""
    written = document("s:source > f:free > k:sink")
    written["tasks"][1]["config"] = {"value": "HERE"}
    return json.dumps(written).replace('"HERE"', value)


def value_problems(value: str) -> list[Problem]:
    """The problems of a document for a value written in this way."""
    return problems(holding(value), catalogue=catalogue_with(FREE))


def kept(value: str) -> Any:
    """What the canonical config makes of a value that is written in this way."""
    return canonicalise(holding(value), catalogue=catalogue_with(FREE)).tasks[1].config["value"]


def signature(written: dict[str, Any] | str, task: str, **more: Any) -> bytes:
    """How a task is signed."""
    flow = canonicalise(written, **more)
    return flow.tasks[flow.places[task]].key.signature
