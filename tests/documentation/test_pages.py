"""Pages on modules, planning, adaptation and task types: their documents are taken as they say."""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types of its own
from pydantic import BaseModel

from adaptation.decision import Patience
from adaptation.document_reader import FEWEST_ALTERNATES, read_dynamic
from adaptation.documents import MOST_ALTERNATES, AlternateForm, DynamicTaskForm, Policy
from adaptation.guards import KNOWN_METRICS, Guard
from dags import Document, InvalidDocument, Kind, Schema, Source
from dags.vocabulary import ModuleShape
from engine import installed_catalogue
from engine.trial import try_out
from planning.forms import MOST_SOURCE, CodeForm, InstalledForm, ModuleForm, OutputForm, StateForm
from planning.pipelines.module import read_module
from planning.pipelines.planned import plan_pipeline
from planning.pipelines.reader import Surroundings, read_pipeline
from tests.adaptation.drawn import canonical
from tests.documentation.pages import ROOT, page

PAGE = page("docs/modules.md")
EXAMPLES = [example.text for example in PAGE.examples if example.language == "json"]
CODES = PAGE.table("Problems").column()
FORMS: dict[str, list[type[BaseModel]]] = {
    "The form": [ModuleForm, InstalledForm],
    "Code": [CodeForm, OutputForm],
    "State": [StateForm],
}
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
    "connects-with-state": {**CODE, "code": {"source": "x", "state": {}, "connects": ["a.org:1"]}},
    "required-twice": {**CODE, "code": {"source": "x", "requirements": ["tiny==1.0", "tiny==2.0"]}},
    "recursive-type-variable": {**CODE, "code": {"source": "x", "types": {"T": ["T"]}}},
}


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: json.loads(text)["name"])
def test_each_module_on_the_page_can_be_published(text: str) -> None:
    """With the types that are installed."""
    assert json.loads(text)["name"] == read_module(text, installed_catalogue()).form.name


def test_the_page_has_a_module_of_each_kind() -> None:
    """An installed type, code, and code that keeps something, so that the test above has something to hold."""
    assert [True, False, False] == ["installed" in json.loads(text) for text in EXAMPLES]


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
    """What is given as a code: by its name, or first to what makes a problem."""
    for reader in READERS:
        for node in ast.walk(ast.parse((ROOT / reader).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                if isinstance(node.func, ast.Name) and node.func.id == "problem_at":
                    given += node.args[:1]
                texts = [part.value for each in given for part in ast.walk(each) if isinstance(part, ast.Constant)]
                yield from (text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z-]+", text))


def test_the_pipeline_is_planned_as_the_page_says() -> None:
    """With the modules of the page, and a source of temperatures."""
    examples = page("docs/planning.md").examples
    pipeline, *modules = [example.text for example in examples if example.language == "json"]
    shown = (ROOT / "docs/planning.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    around = Surroundings(
        dataflow="d",
        tenant="ann",
        catalogue=installed_catalogue(),
        sources={"street": Source(name="street", owner="ann", schema=Schema.of(temperature=Kind.FLOAT))},
        modules=[read_module(each, installed_catalogue()) for each in modules],
    )
    found = plan_pipeline(read_pipeline(pipeline, around), lambda _made: ())
    assert shown.split("\n")[:-1] == [f"{place}: {module}" for place, module in found.fillings.items()]
    assert json.loads(pipeline)["name"] == found.assembled.document["name"]


ADAPTATION = page("docs/adaptation.md")
TEXT = (ROOT / "docs" / "adaptation.md").read_text(encoding="utf-8")


def test_the_document_is_accepted() -> None:
    """With a source of readings of power."""
    (example,) = [each.text for each in ADAPTATION.examples if each.language == "json"]
    assert json.loads(example)["name"] == read_dynamic(example, canonical=canonical).name


@pytest.mark.parametrize(
    ("heading", "place", "form"),
    [("Alternates", 0, DynamicTaskForm), ("Alternates", 1, AlternateForm), ("The policy", 0, Policy)],
)
def test_every_field_of_adaptation_is_described(heading: str, place: int, form: type[BaseModel]) -> None:
    """In the order of the form, and which are required."""
    described = [table for table in ADAPTATION.tables if table.heading == heading][place]
    known = [(name, field.is_required()) for name, field in form.model_fields.items()]
    assert known == [(row[0].strip("`"), row[1] == "required") for row in described.rows[1:]]


def test_every_kind_of_condition_and_metric_is_described() -> None:
    """In the tables of guards."""
    conditions, metrics = [table for table in ADAPTATION.tables if table.heading == "Guards"]
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


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The documented module and project, as an installer would lay them out."""
    shown = page("docs/task-types.md")
    shown.save_files(tmp_path)
    (text,) = (example.text for example in shown.examples if example.language == "toml")
    project = tomllib.loads(text)["project"]
    about = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    lines: list[str] = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for module in ("acme_tasks", "acme_behaviours"):
        sys.modules.pop(module, None)


@pytest.mark.usefixtures("_package")
def test_a_documented_type_is_found_once_its_package_is_installed() -> None:
    """The entry point in the page's project leads to the type in the page's module."""
    found = installed_catalogue().find("acme:convert")
    assert found is not None
    assert found.config.model_validate({"field": "celsius"}).model_dump() == {"field": "celsius", "to": "kelvin"}


@pytest.mark.usefixtures("_package")
def test_its_behaviour_is_found_by_hosts_under_its_name() -> None:
    """And does what the text says."""
    found = try_out("acme:convert", {"field": "celsius"}, [{"celsius": 20}])
    assert [{"celsius": 293.15}] == found["out"]


def test_without_the_package_the_type_is_unknown() -> None:
    """The test above finds what it installed, and leaves nothing behind."""
    assert installed_catalogue().find("acme:convert") is None


PUBLISHED = sorted(
    set((ROOT / "workloads" / "examples").glob("*.json")) - {ROOT / "workloads" / "examples" / "sources.json"}
)


@pytest.mark.parametrize("example", PUBLISHED, ids=lambda path: path.name)
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
