"""The form of a config, and the merge patches that are made from it."""

import json
from random import Random
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engine import installed_catalogue
from manager.documents.edited import patched
from tests.console.conftest import PageFor

pytestmark = pytest.mark.chromium

SHOW = """
async ([schema, config]) => {
  const { configForm } = await import("/console/scripts/config-form.js");
  window.form = configForm(schema, config);
  document.querySelector("main").replaceChildren(window.form.node);
}
"""
EVERY_KIND: dict[str, Any] = {
    "type": "object",
    "$defs": {"Kind": {"enum": ["integer", "float"], "type": "string"}, "Range": {"type": "object"}},
    "properties": {
        "text": {"type": "string", "description": "The `text` of it."},
        "perhaps": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "whole": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5},
        "share": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}], "default": None},
        "flag": {"type": "boolean", "default": False},
        "kind": {"$ref": "#/$defs/Kind"},
        "names": {"type": "array", "items": {"type": "string"}, "default": []},
        "ranges": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Range"}},
    },
    "required": ["text", "kind"],
    "additionalProperties": False,
}
CONFIG: dict[str, Any] = {
    "text": "two\nlines",
    "perhaps": None,
    "whole": 7,
    "flag": True,
    "kind": "float",
    "names": ["a", "", "b c"],
    "ranges": {"x": {"min": 1, "max": 2.5}},
}


@pytest.fixture
def page(page_for: PageFor) -> Page:
    return page_for(None)


def shown(page: Page, schema: dict[str, Any], config: dict[str, Any]) -> None:
    page.evaluate(SHOW, [schema, config])


def edited(page: Page) -> dict[str, Any]:
    """What the form says by now."""
    found: dict[str, Any] = page.evaluate("window.form.edited()")
    return found


def test_every_type_of_the_library_has_a_form(page: Page) -> None:
    """A labelled control for each field, in their order; what nobody edits stays as it is."""
    types = installed_catalogue().types
    assert len(types) > 30
    for name, each in types.items():
        schema = each.config.model_json_schema()
        shown(page, schema, {})
        labels = (
            "[...document.querySelectorAll('main :is(input, select, textarea)')].map((at) => at.labels[0].innerText)"
        )
        expected = [*schema["properties"], *(["Other fields"] if schema.get("additionalProperties", True) else [])]
        assert expected == page.evaluate(labels), name
        assert {"config": {}, "problems": []} == edited(page), name


def test_what_nobody_edits_keeps_its_value(page: Page) -> None:
    """Even if the control could not show it as it is, or the schema does not know it."""
    config = CONFIG | {"older": [1, None]}
    shown(page, EVERY_KIND, config)
    assert {"config": config, "problems": []} == edited(page)
    expect(page.get_by_label("Other fields")).to_have_value(json.dumps({"older": [1, None]}, indent=2))


def test_what_is_typed_becomes_json(page: Page) -> None:
    """By the kind of the field; an empty field is left out, and the service judges what is no number."""
    shown(page, EVERY_KIND, CONFIG)
    page.get_by_label("text").fill("5")
    page.get_by_label("perhaps").fill("now")
    page.get_by_label("whole").fill("")
    page.get_by_label("share").fill("1e-3")
    page.get_by_label("flag").select_option("false")
    page.get_by_label("kind").select_option("integer")
    page.get_by_label("names").fill("a\n\nb\n")
    page.get_by_label("ranges").fill('{"y": []}')
    typed = {"text": "5", "perhaps": "now", "share": 0.001, "flag": False, "kind": "integer"}
    assert {"config": typed | {"names": ["a", "b"], "ranges": {"y": []}}, "problems": []} == edited(page)
    page.get_by_label("share").fill("a lot")
    page.get_by_label("flag").select_option("default: false")
    page.get_by_label("ranges").fill('{"y": ]}')
    found = edited(page)
    assert ("a lot", False) == (found["config"]["share"], "flag" in found["config"])
    ((field, message),) = [(each["field"], each["message"]) for each in found["problems"]]
    assert ("ranges", "this is not JSON: a JSON value is expected here") == (field, message)


def test_a_field_says_what_it_takes(page: Page) -> None:
    """Its description, its limits and its default."""
    shown(page, EVERY_KIND, CONFIG)
    expect(page.get_by_label("text")).to_have_accessible_description("The text of it.")
    expect(page.get_by_label("whole")).to_have_accessible_description("At least 1, at most 9. Default: 5.")
    expect(page.get_by_label("share")).to_have_accessible_description("More than 0.")
    expect(page.get_by_label("names")).to_have_accessible_description("One a line.")


def test_problems_are_shown_at_fields_or_below(page: Page) -> None:
    """A problem of a field is its description too; one of the whole config is below; none is left when all are gone."""
    shown(page, EVERY_KIND, CONFIG)
    problems = [
        {"field": "ranges", "at": "x/min", "message": "the value should be a number", "remedy": "give a number"},
        {"field": None, "message": "min 2 is greater than max 1", "remedy": "change it"},
    ]
    page.evaluate("(problems) => window.form.show(problems).focus()", problems)
    ranges = page.get_by_label("ranges")
    expect(ranges).to_be_focused()
    expect(ranges).to_have_accessible_description("JSON. x/min: The value should be a number. Give a number.")
    expect(page.locator(".wrong:visible")).to_have_count(2)
    expect(page.get_by_text("Min 2 is greater than max 1. Change it.")).to_be_visible()
    page.evaluate("window.form.show([])")
    expect(ranges).to_have_accessible_description("JSON.")
    expect(page.get_by_text("Change it.")).to_have_count(0)


def test_a_patch_leads_from_one_config_to_the_other(page: Page) -> None:
    """As the service applies it; there is none between equal ones."""
    random = Random(0)
    pairs = [(drawn(random), drawn(random)) for _ in range(300)]
    pairs += [(each, each) for each, _ in pairs]
    patch_of = "async (pairs) => { const { patchOf } = await import('/console/scripts/merge-patch.js'); "
    patches = page.evaluate(patch_of + "return pairs.map(([before, after]) => patchOf(before, after)); }", pairs)
    for (before, after), patch in zip(pairs, patches, strict=True):
        document = json.dumps({"tasks": [{"id": "a", "config": before}]})
        made, problems = patched(document, {"a": {"config": patch}})
        assert () == problems
        assert without_nulls(after) == without_nulls(json.loads(made)["tasks"][0]["config"])
    assert [{}] * 300 == patches[300:]


def drawn(random: Random, depth: int = 0) -> dict[str, Any]:
    """A config of few names, so that two have many in common."""
    return {name: _value(random, depth) for name in "abcd" if random.random() < 0.6}


def _value(random: Random, depth: int) -> Any:
    if depth < 2 and random.random() < 0.4:
        return drawn(random, depth + 1)
    return random.choice([None, True, 0, 1.5, "", "x", [], [1, None], [{"a": 1}], {}])


def without_nulls(value: Any) -> Any:
    """A value without the fields that are null, which are those that are missing."""
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(each) for name, each in value.items() if each is not None}
