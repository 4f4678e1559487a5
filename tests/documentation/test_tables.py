"""Tables in the documentation say what the code says; the reference of problem codes is complete."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import dags
from dags import Catalogue, Config, InvalidDocument, Kind, Read, Schema, Source, TaskType
from dags.builder import BuiltStream, StreamWindow
from dags.canonical import DRAFT_CHECKS, FORMS, SCHEME, canonicalise
from dags.canonical.streams import MOST_FIELDS
from dags.document import MOST_DOCUMENT_STREAMS, MOST_TASKS, Document, StreamForm, TaskForm
from dags.json_text import LARGEST_INTEGER, LONGEST_KEY, MOST_DOCUMENT_BYTES, MOST_NESTING
from dags.task_type import MOST_PORTS
from engine.job.lifecycle import JOB_LIFE
from engine.tasks.compute import OUTPUT
from manager.overview import metrics
from manager.rest.metrics import METRICS, TENANT_METRICS
from merge.placement.strategies import STRATEGIES
from tests.catalogue import SOURCES, TYPES, NoConfig
from tests.documentation import rest_reference, task_library
from tests.documentation.pages import ROOT, page
from tests.notation import document


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
    for heading, metrics_there in (("The metrics", METRICS), ("Metrics of a tenant", TENANT_METRICS)):
        described = [tuple(row) for row in page("docs/operating.md").table(heading).rows[1:]]
        assert [
            (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.about)
            for each in metrics_there
        ] == described


def test_metrics_that_are_named_elsewhere_on_their_page_are_there() -> None:
    """Every metric in the text is one of the table, and the bound is the one that is held."""
    shown = page("docs/operating.md")
    named = {word.partition("{")[0] for code in shown.code for word in code.replace("(", " ").replace(")", " ").split()}
    assert {each for each in named if each.startswith("braid_")} <= {each.name for each in (*METRICS, *TENANT_METRICS)}
    assert {200} == {metrics.MOST_JOB_SAMPLES, metrics.MOST_INSTANCE_SAMPLES, metrics.MOST_STREAM_SAMPLES}
    assert "to 200 each" in shown.path.read_text(encoding="utf-8")


def test_each_promise_about_neighbours_names_a_test_that_exists() -> None:
    """By its file and name, so that nobody has to believe it."""
    named = [each.partition("::") for each in page("docs/guarantees.md").table("Neighbours").column(2)]
    assert named
    for path, _, name in named:
        parsed = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {each.name for each in parsed.body if isinstance(each, ast.FunctionDef)}, (path, name)


CODE = re.compile(r"[a-z]+(-[a-z0-9]+)+")
DESCRIBED = [
    code
    for table in page("docs/documents.md").tables
    if table.heading.startswith("Problems")
    for code in table.column()
]


def fails(_config: Config) -> tuple[Read, ...]:
    """What a type must not do."""
    raise ZeroDivisionError


CATALOGUE = Catalogue.of([*TYPES, OUTPUT, TaskType(name="broken", config=NoConfig, reads=fails)])
WORDS = Source(name="words", owner="ann", schema=Schema.of(value=Kind.STRING))
WIDE = Source(name="wide", owner="ann", schema=Schema.of({f"f{i}": Kind.JSON for i in range(1_001)}))


def line(text: str, **changes: Any) -> str:
    """The document of a line in the tests' notation, with some of its fields changed."""
    return json.dumps({**document(text), **changes})


STREAM = {"from": "s", "to": "k"}
TWO = "s:source > k:sink"
PROVOKED: dict[str, str | bytes] = {
    "cycle": line("s:source > a:map > b:map > a > k:sink"),
    "document-too-large": " " * (MOST_DOCUMENT_BYTES + 1),
    "envelope-topic": line("s:source > k:output{'topic': 'ann/LEVEL'}").replace("LEVEL", "{field}"),
    "foreign-group": line("s:source > k:output{'format': {'kind': 'sparkplug', 'group': 'bob', 'node': 'a'}}"),
    "foreign-topic": line("s:source > k:output{'topic': 'bob/averages'}"),
    "fruitless-task": line("s:source > a:map s > k:sink"),
    "integer-too-large": line("s:source > a:map{'add': 9007199254740993} > k:sink"),
    "node-setting": line(
        "s:source > k:output{'retain': True, 'format': {'kind': 'sparkplug', 'group': 'ann', 'node': 'a'}}"
    ),
    "repeated-level": line("s:source > k:output{'format': 'plain', 'topic': 'ann/LEVEL/LEVEL'}").replace(
        "LEVEL", "{f}"
    ),
    "lone-surrogate": line(TWO, name="\ud800"),
    "malformed-json": "{",
    "missing-field": line("s:source > c:fetch > k:sink"),
    "missing-port": line("s:source > p:split > k:sink"),
    "nested-too-deeply": "[" * 100_000,
    "no-sink": line("s:source > a:map"),
    "no-source": line("a:map > k:sink"),
    "not-an-object": "[]",
    "number-too-small": line("s:source > a:map{'add': 1} > k:sink").replace('"add": 1', '"add": 1e-999'),
    "not-finite": line("s:source > a:map{'add': 1} > k:sink").replace('"add": 1', '"add": 1e999'),
    "not-utf-8": b"\xff",
    "repeated-id": line(TWO, tasks=[*document(TWO)["tasks"], document(TWO)["tasks"][1]]),
    "repeated-key": line(TWO).replace('"version"', '"version": 1, "version"'),
    "repeated-stream": line(TWO, streams=[STREAM, STREAM]),
    "self-loop": line("s:source > a:map > k:sink a > a"),
    "sink-with-outputs": line("s:source > k:sink > l:sink"),
    "source-with-inputs": line("s:source > t:source > k:sink"),
    "task-type-failed": line("s:source > b:broken > k:sink"),
    "too-long": line(TWO, name="n" * 201),
    "too-many-fields": line("s:source{'source': 'wide'} > e:echo > k:sink"),
    "too-many-problems": line(
        TWO, tasks=[{"id": "k", "type": "sink", "config": dict.fromkeys(map(str, range(1_001)))}]
    ),
    "too-many-streams": line(TWO, streams=[STREAM] * (MOST_DOCUMENT_STREAMS + 1)),
    "too-many-tasks": line(TWO, tasks=[{}] * (MOST_TASKS + 1)),
    "too-short": line(TWO, name=""),
    "unfed-port": line("s:source > j:join.left > k:sink"),
    "unknown-field": line("s:source > a:map{'ad': 1} > k:sink"),
    "taken-node": line(
        "s:source > k:output{'format': {'kind': 'sparkplug', 'group': 'ann', 'node': 'a'}} "
        "s > l:output{'format': {'kind': 'sparkplug', 'group': 'ann', 'node': 'a'}}"
    ),
    "unknown-field-upstream": line("s:source > c:count{'by': 'nothing'} > k:sink"),
    "unknown-port": line("s:source > k:sink", streams=[{**STREAM, "to_port": "side"}]),
    "unknown-source": line("s:source{'source': 'nothing'} > k:sink"),
    "unknown-task": line(TWO, streams=[STREAM, {"from": "s", "to": "x"}]),
    "unknown-type": line("s:source > a:nothing > k:sink"),
    "unknown-version": line(TWO, version=2),
    "unreached-task": line("s:source > k:sink a:map > k"),
    "wrong-kind-upstream": line("s:source{'source': 'words'} > a:map > k:sink"),
    "wrong-type": line("s:source > a:map{'add': 'one'} > k:sink"),
    "wrong-value": line("s:source > w:window{'size': 0} > k:sink"),
}


@pytest.mark.parametrize("code", DESCRIBED)
def test_every_code_described_is_given_by_some_document(code: str) -> None:
    """A document that has just this problem is refused with this code."""
    with pytest.raises(InvalidDocument) as refused:
        canonicalise(
            PROVOKED[code],
            dataflow="d",
            tenant="ann",
            catalogue=CATALOGUE,
            sources={**SOURCES, "wide": WIDE, "words": WORDS},
        )
    assert code in {problem.code for problem in refused.value.problems}


def test_every_code_provoked_is_described_once() -> None:
    """The tables have each code, and none twice."""
    assert sorted(PROVOKED) == sorted(DESCRIBED)


def test_every_code_in_the_source_is_described() -> None:
    """A code that is written anywhere in `dags` stands in a table; one with a blank stands there filled in."""
    patterns = set(codes_in_source())
    assert not {pattern for pattern in patterns if not any(re.fullmatch(pattern, code) for code in DESCRIBED)}
    assert not {code for code in DESCRIBED if not any(re.fullmatch(pattern, code) for pattern in patterns)}


def codes_in_source() -> Iterator[str]:
    """Every text in the source that is given as a code or looks like one, as a pattern."""
    for file in Path(dags.__file__).parent.rglob("*.py"):
        if file.stem == "vocabulary":
            # Its words look like codes, and name what may be chosen.
            continue
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        given = list(given_as_code(nodes))
        codecs = [name for node in nodes for name in codecs_in(node)]
        for node in nodes:
            parts = parts_of(node)
            text = "".join("x" if part is None else part for part in parts)
            alike = CODE.fullmatch(text) and text != SCHEME and node not in codecs
            if parts and (alike or node in given):
                yield "".join("[a-z]+" if part is None else re.escape(part) for part in parts)


def given_as_code(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """What is given wherever something is called that takes a code."""
    takers = {"problem_at": 0} | {
        node.name: [argument.arg for argument in node.args.args].index("code")
        for node in nodes
        if isinstance(node, ast.FunctionDef) and any(argument.arg == "code" for argument in node.args.args)
    }
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "code")
            if isinstance(node.func, ast.Name) and node.func.id in takers:
                yield from node.args[takers[node.func.id] :][:1]


def parts_of(node: ast.AST) -> list[str | None]:
    """The text of a string, with None for each blank that is filled in at run time."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [str(part.value) if isinstance(part, ast.Constant) else None for part in node.values]
    return []


def codecs_in(call: ast.AST) -> list[ast.expr]:
    """The names of encodings, which look like codes too."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in {"encode", "decode"}:
        return call.args
    return []
