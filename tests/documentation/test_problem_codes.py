"""The reference of problem codes is complete: every code that the source can give, and none that it cannot."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dags
from dags import Catalogue, Config, InvalidDocument, Kind, Read, Schema, Source, TaskType, canonicalise
from dags.document import MOST_DOCUMENT_STREAMS, MOST_TASKS
from dags.json_text import MOST_DOCUMENT_BYTES
from tests.catalogue import SOURCES, TYPES, NoConfig
from tests.documentation.pages import page
from tests.notation import document

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


CATALOGUE = Catalogue.of([*TYPES, TaskType(name="broken", config=NoConfig, reads=fails)])
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
    "fruitless-task": line("s:source > a:map s > k:sink"),
    "integer-too-large": line("s:source > a:map{'add': 9007199254740993} > k:sink"),
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
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        given = list(given_as_code(nodes))
        codecs = [name for node in nodes for name in codecs_in(node)]
        for node in nodes:
            parts = parts_of(node)
            text = "".join("x" if part is None else part for part in parts)
            alike = CODE.fullmatch(text) and text != dags.SCHEME and node not in codecs
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
