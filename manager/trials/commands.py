"""The command that tries a document before it is submitted: `braid try`."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from braid_client.answers.trials import MOST_TRIED, TrialAnswer, TriedEvents, TriedTask
from braid_client.client import Client
from manager.cli import File, Shown, Tenant, WrongUsage, client_command, lines, read_file, table

_SHOWN = 3
"""The events of a port that a table shows."""


@client_command
def try_document(
    client: Client,
    file: File,
    events: Annotated[
        list[str] | None,
        typer.Option(
            help="A file of JSON lines for the only source, or TASK=FILE for that of a task; may be repeated."
        ),
    ] = None,
    newest: Annotated[
        int | None,
        typer.Option(min=0, max=MOST_TRIED, help="The most events of each other source; the newest that are kept."),
    ] = None,
    tenant: Tenant = None,
) -> Shown:
    """Try a document on a few events before it is submitted: what each task takes, emits and rejects."""
    document = read_file(file)
    pasted = dict(_pasted(document, given) for given in events or ())
    answer = client.try_document(document, events=pasted or None, newest=newest, tenant=tenant)
    return Shown(data=answer, text=lines(*_said(answer)))


def _pasted(document: bytes, given: str) -> tuple[str, list[Mapping[str, Any]]]:
    """The source's task and the events that an option gives."""
    task, separator, name = given.partition("=")
    if not separator:
        task, name = _only_source(document), given
    read: list[Mapping[str, Any]] = []
    for number, line in enumerate(read_file(Path(name)).splitlines(), 1):
        try:
            read += [json.loads(line)] if line.strip() else []
        except ValueError as error:
            raise WrongUsage(f"{name}: line {number} is not JSON: {error}; write one event on each line") from None
    return task, read


def _only_source(document: bytes) -> str:
    try:
        tasks = json.loads(document)["tasks"]
        sources = [str(task["id"]) for task in tasks if task.get("type") == "source"]
    except (ValueError, LookupError, TypeError, AttributeError):
        sources = []
    if len(sources) != 1:
        raise WrongUsage("the document does not have exactly one source; say for which task events are: TASK=FILE")
    return sources[0]


def _said(answer: TrialAnswer) -> Iterator[RenderableType]:
    rows = (row for task in answer.tasks for row in _rows(task))
    yield table("task", "port", "events", "newest", rows=rows, empty="no task of the document can run")
    for task in answer.tasks:
        if task.not_run:
            yield f"{task.id} was not run: {task.not_run}"
        for rejection in task.rejections:
            newest = "".join(f"\n  {event}" for event in rejection.events.newest[-_SHOWN:])
            yield f"{task.id} rejected {rejection.events.count:,} at {rejection.port}: {rejection.reason}{newest}"
    for problem in answer.problems:
        yield f"{problem.pointer or '(document)'}: {problem.message}; {problem.remedy}"


def _rows(task: TriedTask) -> Iterator[tuple[str, str, int, str]]:
    for sign, ports in (("→ ", task.inputs), ("", task.outputs)):
        for port, events in sorted(ports.items()):
            where = f"{sign}{port}" if sign else f"{port} →"
            yield task.id, where, events.count, _newest(events)


def _newest(events: TriedEvents) -> str:
    return "\n".join(events.newest[-_SHOWN:])
