"""Tables in the documentation say what the code says, all of it and no more."""

import ast
import re
import tomllib
from dataclasses import fields
from typing import Any

import pytest
from pydantic import BaseModel

from dags import TaskType
from dags.builder import BuiltStream, StreamWindow
from dags.canonical import DRAFT_CHECKS, FORMS
from dags.canonical.streams import MOST_FIELDS
from dags.document import MOST_DOCUMENT_STREAMS, MOST_TASKS, Document, StreamForm, TaskForm
from dags.json_text import LARGEST_INTEGER, LONGEST_KEY, MOST_DOCUMENT_BYTES, MOST_NESTING
from dags.task_type import MOST_PORTS
from engine.job.lifecycle import JOB_LIFE
from manager.overview import metrics
from manager.rest.metrics import METRICS
from merge.placement.strategies import STRATEGIES
from tests.documentation import rest_reference, task_library
from tests.documentation.pages import ROOT, page


def longest(form: type[BaseModel], field: str) -> int:
    """How long the text in a field may be."""
    schema: dict[str, Any] = form.model_json_schema()["properties"][field]
    variants: list[dict[str, Any]] = schema.get("anyOf", [schema])
    return max(int(variant.get("maxLength", 0)) for variant in variants)


@pytest.mark.parametrize(("place", "form"), [(0, Document), (1, TaskForm), (2, StreamForm)])
def test_every_field_of_a_document_is_described(place: int, form: type[BaseModel]) -> None:
    """The tables of the form list the fields in order, and say which are required."""
    described = [table for table in page("docs/documents.md").tables if table.heading == "The form"][place]
    known = [(field.alias or name, field.is_required()) for name, field in form.model_fields.items()]
    assert known == [(row[0].strip("`"), row[1] == "required") for row in described.rows[1:]]


def test_limits_are_those_that_are_held() -> None:
    """Every limit stands in the table with its number."""
    assert {
        "size of a document, in UTF-8": f"{MOST_DOCUMENT_BYTES:,} bytes",
        "tasks": f"{MOST_TASKS:,}",
        "streams": f"{MOST_DOCUMENT_STREAMS:,}",
        "length of a document's name": f"{longest(Document, 'name')} characters",
        "length of a task's id": f"{longest(TaskForm, 'id')} characters",
        "length of a type's name": f"{longest(TaskForm, 'type')} characters",
        "length of a port's name": f"{longest(StreamForm, 'to_port')} characters",
        "ports of a task, on each side": f"{MOST_PORTS}",
        "length of a key in a config, at every level": f"{LONGEST_KEY:,} characters",
        "levels of objects and arrays in a config, itself included": f"{MOST_NESTING}",
        "integers": f"±{LARGEST_INTEGER:,} (2^53)",
        "fields of a stream's events": f"{MOST_FIELDS:,}",
    } == {row[0]: row[1] for row in page("docs/documents.md").table("Limits").rows[1:]}


def test_the_task_library_is_described_as_it_is() -> None:
    """Its page is what `make docs-tasks` makes of the catalogue."""
    assert task_library.made() == task_library.PAGE.read_text(encoding="utf-8")


def test_rest_is_described_as_it_is() -> None:
    """Its page is what `make docs-rest` makes of OpenAPI."""
    assert rest_reference.made() == rest_reference.PAGE.read_text(encoding="utf-8")


def test_every_field_of_a_task_type_is_described() -> None:
    """An author of a task type finds each field of the record, in its order."""
    described = page("docs/task-types.md").table("The record, field by field").column()
    assert [field.name for field in fields(TaskType)] == described


def test_every_pass_is_described_in_its_order() -> None:
    """The path of a submission names the passes as they run."""
    checks, forms = ([step.__name__ for step in steps] for steps in (DRAFT_CHECKS, FORMS))
    expected = ["dags.document.read", *checks, "accept", *forms, "collapse"]
    assert expected == page("docs/architecture.md").table("The passes").column()


def test_every_placement_is_described() -> None:
    """The table of strategies has each."""
    assert list(STRATEGIES) == page("docs/architecture.md").table("Placement").column()


def test_every_mark_is_described() -> None:
    """A developer who marks a test, or wonders what runs it, finds the mark in the table."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    marks = {each.partition(":")[0] for each in project["tool"]["pytest"]["ini_options"]["markers"]}
    (described,) = (table for table in page("CONTRIBUTING.md").tables if table.rows[0][0] == "mark")
    assert marks == {name for row in described.rows[2:] for name in re.findall(r"`(\w+)`", row[0])}


def test_every_import_contract_is_described() -> None:
    """The architecture lists the contracts under the names that `make check` prints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {contract["name"] for contract in project["tool"]["importlinter"]["contracts"]}
    lines = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()
    assert contracts <= {line.removeprefix("- ") for line in lines}


def test_the_life_of_a_job_is_described_turn_by_turn() -> None:
    """The table of a job's life is the table that the code follows."""
    rows = page("docs/running.md").table("The life of a job").rows[1:]
    known = [
        (f"`{state}`", str(event), f"`{after}`")
        for state, events in JOB_LIFE.items()
        for event, after in events.items()
    ]
    assert known == [tuple(row) for row in rows]


@pytest.mark.parametrize(("heading", "kind"), [("Steps", BuiltStream), ("Windows", StreamWindow)])
def test_every_step_of_the_builder_is_described(heading: str, kind: type) -> None:
    """In the order in which the class has them."""
    steps = [name for name, part in vars(kind).items() if callable(part) and not name.startswith("_")]
    assert steps == page("docs/builder.md").table(heading).column()


def test_every_metric_is_described_as_it_is() -> None:
    """Each has its row, in the order of the table in the code, with its kind, its labels and its help."""
    described = [tuple(row) for row in page("docs/operating.md").table("The metrics").rows[1:]]
    assert [
        (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.about) for each in METRICS
    ] == described


def test_metrics_that_are_named_elsewhere_on_their_page_are_there() -> None:
    """Every metric in the text is one of the table, and the bound is the one that is held."""
    shown = page("docs/operating.md")
    named = {word.partition("{")[0] for code in shown.code for word in code.replace("(", " ").replace(")", " ").split()}
    assert {each for each in named if each.startswith("braid_")} <= {each.name for each in METRICS}
    assert {200} == {metrics.MOST_JOB_SAMPLES, metrics.MOST_INSTANCE_SAMPLES, metrics.MOST_STREAM_SAMPLES}
    assert "to 200 each" in shown.path.read_text(encoding="utf-8")


def test_each_promise_about_neighbours_names_a_test_that_exists() -> None:
    """By its file and name, so that nobody has to believe it."""
    named = [each.partition("::") for each in page("docs/guarantees.md").table("Neighbours").column(2)]
    assert named
    for path, _, name in named:
        parsed = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {each.name for each in parsed.body if isinstance(each, ast.FunctionDef)}, (path, name)
