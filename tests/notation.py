"""Dataflows in one line of text, so that a test shows its graph.

`s:source > a:map{'add': 1} > k:sink` names tasks by id and type, with a config where one is needed. `>` is a stream; a
chain goes on as long as `>` does, and a task that was named before is named again by its id alone. Ports stand behind a
dot: `a.even > b.left`. A `!` behind the id asks for a fresh task, and `a:map[gpu,big]` names tags. A source without
config reads `weather`.
"""

import ast
import json
import re
import threading
from typing import Any

from dags import Dataflow
from dags.canonical import DRAFT_CHECKS, FORMS, Accepted, DraftDocument, accept, canonicalise
from dags.document import read
from tests.catalogue import CATALOGUE, SOURCES

_TOKEN = re.compile(
    r"\s*(?:(?P<arrow>>)|(?P<id>[\w-]+)(?P<fresh>!)?(?::(?P<type>[\w:]+))?(?:\[(?P<tags>[\w,]+)\])?(?P<config>\{.*?\}+)?(?:\.(?P<port>\w+))?(?:\.\.(?P<out>\w+))?)"
)


_PARSING = threading.Lock()
"""Python before 3.11.5 may fail if several threads parse at once."""


def document(text: str, name: str = "flow") -> dict[str, Any]:
    """The document that a line stands for; within a chain `b.left..even` enters at left and leaves at even."""
    tasks: dict[str, dict[str, Any]] = {}
    streams: list[dict[str, str]] = []
    last: dict[str, str] | None = None
    joined = False
    for match in _TOKEN.finditer(text.strip()):
        if match["arrow"]:
            joined = True
            continue
        task = match["id"]
        if match["type"]:
            with _PARSING:
                config = ast.literal_eval(match["config"]) if match["config"] else {}
            if match["type"] == "source" and not config:
                config = {"source": "weather"}
            tasks[task] = {"id": task, "type": match["type"], "config": config}
            if match["fresh"]:
                tasks[task]["fresh"] = True
            if match["tags"]:
                tasks[task]["tags"] = match["tags"].split(",")
        follows = text[match.end() :].lstrip().startswith(">")
        port, out = match["port"], match["out"]
        if not joined and follows and port and not out:
            port, out = None, port
        if joined and last is not None:
            streams.append({**last, "to": task, **({"to_port": port} if port else {})})
        last = {"from": task, **({"from_port": out} if out else {})}
        joined = False
    return {"version": 1, "name": name, "tasks": list(tasks.values()), "streams": streams}


def flow(text: str | dict[str, Any], dataflow: str = "flow", tenant: str = "ann") -> Dataflow:
    """The canonical dataflow of a line or a document."""
    written = document(text) if isinstance(text, str) else text
    return canonicalise(json.dumps(written), dataflow=dataflow, tenant=tenant, catalogue=CATALOGUE, sources=SOURCES)


def draft(text: str, tenant: str = "ann") -> DraftDocument:
    """A line's document as the first check sees it."""
    reading = read(json.dumps(document(text)))
    return DraftDocument(
        dataflow="flow",
        tenant=tenant,
        reading=reading,
        catalogue=CATALOGUE,
        sources=SOURCES,
        problems=reading.problems,
    )


def accepted(text: str) -> Accepted:
    """A line's document as the first form sees it."""
    checked = draft(text)
    for check in DRAFT_CHECKS:
        checked = check(checked)
    return accept(checked)


def signed(text: str) -> Accepted:
    """A line's document with scopes and signatures."""
    formed = accepted(text)
    for form in FORMS:
        formed = form(formed)
    return formed
