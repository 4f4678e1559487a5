"""The page of modules says what their forms are, and its modules can be published."""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from dags import InvalidDocument
from engine import installed_catalogue
from planning.constraint import ModuleShape
from planning.forms import MOST_SOURCE, CodeForm, InstalledForm, ModuleForm, OutputForm
from planning.pipelines.module import read_module
from tests.documentation.pages import ROOT, page

PAGE = page("docs/modules.md")
EXAMPLES = [example.text for example in PAGE.examples if example.language == "json"]
CODES = PAGE.table("Problems").column()
FORMS: dict[str, list[type[BaseModel]]] = {"The form": [ModuleForm, InstalledForm], "Code": [CodeForm, OutputForm]}
READERS = ("planning/pipelines/module.py", "planning/forms.py")
"""Where the problems of modules are found."""

PLAIN: dict[str, Any] = {"name": "a", "version": 1, "shape": "filter", "installed": {"type": "range_filter"}}
CODE: dict[str, Any] = {"name": "a", "version": 1, "shape": "filter"}
PROVOKED: dict[str, dict[str, Any]] = {
    "no-implementation": {**PLAIN, "installed": None},
    "two-implementations": {**PLAIN, "code": {"source": "x"}},
    "wrong-shape": {**CODE, "shape": "join", "code": {"source": "x"}},
    "unknown-variable": {**PLAIN, "ensure": {"unit": "kelvin"}},
    "outside-domain": {**PLAIN, "variables": {"unit": ["celsius"]}, "ensure": {"unit": "kelvin"}},
    "malformed-constraint": {**PLAIN, "variables": {"unit": ["celsius"]}, "require": {"unit": {"is": "celsius"}}},
    "unknown-kind": {**CODE, "code": {"source": "x", "input": {"a": "number"}}},
    "not-pinned": {**CODE, "code": {"source": "x", "requirements": ["tiny"]}},
    "not-a-target": {**CODE, "code": {"source": "x", "connects": ["example.org"]}},
    "required-twice": {**CODE, "code": {"source": "x", "requirements": ["tiny==1.0", "tiny==2.0"]}},
    "recursive-type-variable": {**CODE, "code": {"source": "x", "types": {"T": ["T"]}}},
}


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: json.loads(text)["name"])
def test_each_module_on_the_page_can_be_published(text: str) -> None:
    """With the types that are installed."""
    assert json.loads(text)["name"] == read_module(text, installed_catalogue()).form.name


def test_the_page_has_a_module_of_each_kind() -> None:
    """An installed type and code, so that the test above has something to hold."""
    assert [True, False] == ["installed" in json.loads(text) for text in EXAMPLES]


@pytest.mark.parametrize(
    ("heading", "place"), [(heading, place) for heading, forms in FORMS.items() for place in range(len(forms))]
)
def test_every_field_is_described(heading: str, place: int) -> None:
    """In the order of the form, and which are required."""
    form = FORMS[heading][place]
    described = [table for table in PAGE.tables if table.heading == heading][place]
    known = [(name, field.is_required()) for name, field in form.model_fields.items()]
    assert known == [(row[0].strip("`"), row[1] == "required") for row in described.rows[1:]]


def test_the_limit_of_a_source_is_the_one_that_is_held() -> None:
    """In KiB."""
    assert f"at most {MOST_SOURCE // 1024} KiB" in (ROOT / "docs" / "modules.md").read_text(encoding="utf-8")


def test_every_shape_is_described() -> None:
    """In the order of the code."""
    assert [*ModuleShape] == PAGE.table("Shapes").column()


@pytest.mark.parametrize("code", CODES)
def test_every_code_described_is_given_by_some_module(code: str) -> None:
    """A module that has just this problem is refused with this code."""
    with pytest.raises(InvalidDocument) as refused:
        read_module(json.dumps(PROVOKED[code]), installed_catalogue())
    assert [code] == [problem.code for problem in refused.value.problems]


def test_every_code_in_the_source_is_described() -> None:
    """Here, or with the problems of documents."""
    documents = {
        code
        for table in page("docs/documents.md").tables
        if table.heading.startswith("Problems")
        for code in table.column()
    }
    assert set(CODES) == set(_codes()) - documents


@pytest.mark.parametrize(
    ("heading", "makers"),
    [
        ("Problems with requirements", {"_requirement_problem"}),
        ("Problems with wheels", {"UnfitWheel", "_problem"}),
    ],
)
def test_every_code_of_wheels_is_described(heading: str, makers: set[str]) -> None:
    """And no others; each is an argument of what makes the problem."""
    codes = {
        part.value
        for reader in ("engine/code/wheel_file.py", "manager/pipelines/modules.py")
        for node in ast.walk(ast.parse((ROOT / reader).read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers
        for part in node.args
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
        if re.fullmatch(r"[a-z]+(-[a-z]+)+", part.value)
    }
    assert codes == set(PAGE.table(heading).column())


def _codes() -> Iterator[str]:
    """What is given as a code: by its name, or second to the method that adds a problem."""
    for reader in READERS:
        for node in ast.walk(ast.parse((ROOT / reader).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                if isinstance(node.func, ast.Attribute) and node.func.attr == "_add":
                    given += node.args[1:2]
                texts = [part.value for each in given for part in ast.walk(each) if isinstance(part, ast.Constant)]
                yield from (text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z-]+", text))
