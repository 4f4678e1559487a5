"""The page about adaptation says what forms, metrics and defaults are, and its document is accepted."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from adaptation.decision import Patience
from adaptation.document_reader import FEWEST_ALTERNATES, read_dynamic
from adaptation.documents import MOST_ALTERNATES, AlternateForm, DynamicTaskForm, Policy
from adaptation.guards import KNOWN_METRICS, Guard
from tests.adaptation.drawn import canonical
from tests.documentation.pages import ROOT, page

PAGE = page("docs/adaptation.md")
TEXT = (ROOT / "docs" / "adaptation.md").read_text(encoding="utf-8")


def test_the_document_is_accepted() -> None:
    """With a source of readings of power."""
    (example,) = [each.text for each in PAGE.examples if each.language == "json"]
    assert json.loads(example)["name"] == read_dynamic(example, canonical=canonical).name


@pytest.mark.parametrize(
    ("heading", "place", "form"),
    [("Alternates", 0, DynamicTaskForm), ("Alternates", 1, AlternateForm), ("The policy", 0, Policy)],
)
def test_every_field_is_described(heading: str, place: int, form: type[BaseModel]) -> None:
    """In the order of the form, and which are required."""
    described = [table for table in PAGE.tables if table.heading == heading][place]
    known = [(name, field.is_required()) for name, field in form.model_fields.items()]
    assert known == [(row[0].strip("`"), row[1] == "required") for row in described.rows[1:]]


def test_every_kind_of_condition_and_metric_is_described() -> None:
    """In the tables of guards."""
    conditions, metrics = [table for table in PAGE.tables if table.heading == "Guards"]
    schema: dict[str, Any] = Guard.model_json_schema()
    kinds = [name for name in schema["$defs"] if name.endswith("Condition")]
    assert len(kinds) == sum(row[0].count('{"') - row[0].count(': {"') for row in conditions.rows[1:])
    assert set(metrics.column()) == KNOWN_METRICS


def test_numbers_are_those_that_are_held() -> None:
    """Of alternates, and of the patience of decisions."""
    assert f"{FEWEST_ALTERNATES} to {MOST_ALTERNATES}." in TEXT
    assert f"has done so for {Patience().steady_s:g} seconds" in TEXT
    assert 60.0 == Patience().cool_down_s
    assert "was not changed in the last minute" in TEXT
