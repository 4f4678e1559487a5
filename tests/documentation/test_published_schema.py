"""The JSON Schema that is published is the one that documents are read by."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types of its own

from dags import Document
from tests.documentation.pages import ROOT

EXAMPLES = sorted(
    set((ROOT / "workloads" / "examples").glob("*.json")) - {ROOT / "workloads" / "examples" / "sources.json"}
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_published_schema_accepts_the_bundled_dataflows(example: Path) -> None:
    """A tenant's editor has nothing against them."""
    published = json.loads((ROOT / "docs" / "dataflow.schema.json").read_text(encoding="utf-8"))
    assert [] == list(Draft202012Validator(published).iter_errors(json.loads(example.read_text(encoding="utf-8"))))


def test_the_published_schema_is_that_of_the_model() -> None:
    """To the letter, so that a change to the form shows in the file."""
    published = (ROOT / "docs" / "dataflow.schema.json").read_text(encoding="utf-8")
    assert json.dumps(Document.model_json_schema(), indent=2, ensure_ascii=False) + "\n" == published


def test_the_published_schema_describes_every_field_by_its_name() -> None:
    """Streams begin at `from`, which the model cannot be called by."""
    published = json.loads((ROOT / "docs" / "dataflow.schema.json").read_text(encoding="utf-8"))
    fields = {name: list(form["properties"]) for name, form in published["$defs"].items()}
    assert ["version", "name", "tasks", "streams"] == list(published["properties"])
    assert {
        "StreamForm": ["from", "from_port", "to", "to_port"],
        "TaskForm": ["id", "type", "config", "module", "tags", "fresh"],
    } == fields
