"""The page of the task library, made from the catalogue; `python -m tests.documentation.task_library` writes it."""

import ast
import doctest
import importlib
import inspect
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from dags import AnyTaskType, Config, Effect, Emission, FieldFates, Kind, Place, Resized, Secret, State, StateFate
from engine.behaviour import AnyImplementation, implementation_of, installed_behaviours
from engine.tasks import FAMILIES, TYPES, family_of
from engine.tasks.compute import join_step_type, step_type
from tests.documentation.pages import ROOT

PAGE = ROOT / "docs" / "task-library.md"
_INTRODUCTION = """# The task library

The task types that come with Braid. `make docs-tasks` makes this page from the catalogue and the descriptions in the
code. To add your own types, see [task types](task-types.md).

If a task cannot take an event (a field is missing, unreadable, or not a finite number), the event is parked on the
dataflow's dead-letter topic with the reason, and the others continue. Each example below tries a type on a few events,
without a host. `try_out` works with your own types too.
"""
_PLAIN: Mapping[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    object: "anything",
    Any: "anything",
}


def made() -> str:
    """The whole page."""
    types = sorted(
        [*TYPES, step_type("opmw:*"), join_step_type("opmw-join:*")], key=lambda kind: (_order(kind), kind.name)
    )
    places = installed_behaviours()
    parts = [_INTRODUCTION, _table(types)]
    family = ""
    for kind in types:
        if (heading := family_of(kind)) != family:
            family = heading
            parts.append(f"## {heading}\n")
        found = None if kind.is_source else implementation_of(kind.name, places)
        parts += _section(kind, found, places.get(kind.name, ""))
    return "\n".join(parts)


def _order(kind: AnyTaskType) -> int:
    return FAMILIES.index(family_of(kind))


def _table(types: list[AnyTaskType]) -> str:
    rows = [
        "| type | inputs | outputs | state | selectivity |",
        "|---|---|---|---|---|",
        *(
            f"| [`{kind.name}`](#{_anchor(kind.name)}) | {_ports(kind, kind.inputs)} | {_ports(kind, kind.outputs)} | "
            f"{kind.state.value} | {kind.selectivity} |"
            for kind in types
        ),
    ]
    return "\n".join(rows) + "\n"


def _anchor(name: str) -> str:
    return "".join(each for each in name.lower() if each.isalnum() or each in "_-")


def _ports(kind: AnyTaskType, ports: tuple[str, ...]) -> str:
    if kind.ports is not None:
        return "depends on its config"
    return ", ".join(f"`{port}`" for port in ports) or "-"


def _section(kind: AnyTaskType, found: AnyImplementation | None, place: str) -> Iterator[str]:
    yield f"### `{kind.name}`\n"
    yield f"{kind.summary}\n"
    description = inspect.getdoc(found.make) if found else None
    pieces = doctest.DocTestParser().parse(description or "")
    for paragraph in "".join(each for each in pieces if isinstance(each, str)).split("\n\n"):
        if text := " ".join(paragraph.split()):
            yield f"{text}\n"
    yield f"{_facts(kind)}\n"
    if kind.state is not State.NONE:
        yield f"{_fates(kind.state_change)}{_continued(kind)}\n"
    yield _config(kind.config)
    examples = [each for each in pieces if isinstance(each, doctest.Example)]
    if examples:
        yield _example(examples, place)


def _facts(kind: AnyTaskType) -> str:
    kept = {
        State.NONE: "It keeps no state.",
        State.KEY: "It keeps state per key.",
        State.STREAM: "It keeps state for the whole stream.",
    }
    emitted = {
        Emission.AT_MOST_ONE: "",
        Emission.ONE_PER_PORT: " It emits at most one event per port for each event.",
        Emission.MANY: " It may emit many events for one.",
    }
    once = "" if kind.unique_by is None else " It emits once for all events of an id."
    shared = "" if kind.shareable else " It is never shared."
    effect = {Effect.NONE: "", Effect.READS_OUTSIDE: " It reads from", Effect.WRITES_OUTSIDE: " It writes to"}[
        kind.effect
    ]
    return (
        f"Version {kind.version}. {kept[kind.state]}{once}{emitted[kind.emission]}"
        f"{effect + ' the outside world.' if effect else ''}{shared}"
    )


_BECOMES: Mapping[StateFate | None, str] = {
    StateFate.KEPT: "its state is kept",
    StateFate.TRANSFORMED: "its state is adapted",
    StateFate.FRESH: "its state is dropped",
    None: 'it needs `"fresh": true`',
}


def _fates(change: Any) -> str:
    """The fate of a running task's state for each change of its config."""
    fates = change if isinstance(change, FieldFates) else FieldFates()
    if not fates.fields:
        return f"If the config of a running task changes, {_BECOMES[fates.others]}."
    cases: dict[StateFate | None, dict[str, list[str]]] = {fate: {} for fate in _BECOMES}
    for name, fate in fates.fields.items():
        ways = {"grows": fate.grown, "shrinks": fate.shrunk} if isinstance(fate, Resized) else {"changes": fate}
        for way, its in ways.items():
            cases[its].setdefault(way, []).append(f"`{name}`")
    found = [f"if {_case(case)}, {_BECOMES[fate]}" for fate, case in cases.items() if case]
    return f"When a running task gets another config: {'; '.join(found)}; otherwise {_BECOMES[fates.others]}."


def _continued(kind: AnyTaskType) -> str:
    """The other types whose states it takes up."""
    found = (
        f"`{each.type}`" + (f" of the same {', '.join(f'`{name}`' for name in each.same)}" if each.same else "")
        for each in kind.continues
    )
    return f" It takes up the state of {' and '.join(names)}." if (names := list(found)) else ""


def _case(ways: Mapping[str, list[str]]) -> str:
    return ", or ".join(f"{' or '.join(names)} {way}" for way, names in ways.items())


def _config(config: type[Config]) -> str:
    fields = config.model_fields
    if not fields:
        return "It has no settings.\n"
    rows = ["| config | type | default | meaning |", "|---|---|---|---|"]
    rows += list(_rows(config, ""))
    return "\n".join(rows) + "\n"


def _rows(config: type[Config], before: str) -> Iterator[str]:
    for name, field in config.model_fields.items():
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{before}{field.alias or name}` | {_what(field.annotation)} | {_default(field)} | {meaning} |"
        for inner, way in _inner(field.annotation, ""):
            yield from _rows(inner, f"{before}{name}{way}.")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Config):
        value = value.model_dump(mode="json", by_alias=True)
    return f"`{json.dumps(value, default=str)}`"


def _inner(annotation: Any, way: str) -> Iterator[tuple[type[Config], str]]:
    """The configs inside a field's value, and the paths to them."""
    if isinstance(annotation, type) and issubclass(annotation, Config) and not issubclass(annotation, Secret | Place):
        yield annotation, way
    steps: dict[Any, str] = {tuple: "[]", dict: "{}"}
    step = steps.get(get_origin(annotation), "")
    for each in get_args(annotation):
        if not isinstance(each, str):
            yield from _inner(each, way + step)


def _what(annotation: Any) -> str:
    """A field's type in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{json.dumps(value)}`" for value in inner)
    if origin in {Union, UnionType}:
        return " or ".join("null" if each is NoneType else _what(each) for each in inner)
    if origin in {tuple, dict}:
        return f"list of {_what(inner[0])}" if origin is tuple else f"object of {_what(inner[1])}"
    return _what(inner[0]) if hasattr(annotation, "__metadata__") else _plainly(annotation)


def _plainly(annotation: Any) -> str:
    if annotation in _PLAIN or not isinstance(annotation, type):
        return _PLAIN.get(annotation, "anything")
    if issubclass(annotation, Enum):
        return "kind" if annotation is Kind else annotation.__name__
    if issubclass(annotation, Secret | Place):
        return f'`{{"{annotation.__name__.lower()}": name}}`'
    return "object"


EXAMPLE_NAMES = {
    "Path": "pathlib",
    "TemporaryDirectory": "tempfile",
    "HostOutside": "engine.outside",
    "try_out": "engine.trial",
}
"""The names that the doctests of all tasks use, and the modules that they are from; `conftest.py` provides them."""


def _example(examples: list[doctest.Example], place: str) -> str:
    """A doctest as a program with the same output and the imports that it needs."""
    module, imports, lines, shown = place.partition(":")[0], list[str](), list[str](), ""
    around = vars(importlib.import_module(module))
    named = {name for each in examples for name in _names(each.source)}
    for name in sorted(named & around.keys() - EXAMPLE_NAMES.keys()):
        found = inspect.ismodule(around[name])
        imports.append(f"import {around[name].__name__}" if found else f"from {module} import {name}")
    for each in examples:
        source = each.source.rstrip("\n")
        if not lines and source.startswith(("import ", "from ")):
            imports.append(source)
            continue
        lines.append(_printed(source, each.want) if each.want else source)
        shown += each.want
    imports += [f"from {where} import {name}" for name, where in EXAMPLE_NAMES.items() if name in named]
    return "```python\n" + "\n".join([*imports, "", *lines]) + "\n```\n\n```text\n" + shown + "```\n"


def _printed(source: str, want: str) -> str:
    """A statement that prints an expression as a doctest does."""
    if want.startswith(("'", '"')):
        # Only texts differ between `print` and a doctest.
        return f"print(repr({source}))"
    body = ast.parse(source, mode="eval").body
    return f"print(({source}))" if isinstance(body, ast.Tuple) else f"print({source})"


def _names(source: str) -> set[str]:
    return {each.id for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Name)}


def main() -> None:
    """Write the page."""
    PAGE.write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main()
