"""The command that changes tasks of a dataflow while they run: `braid reconfigure`."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from manager.answers import ReconfigurationAnswer, ReconfigurationForm, ReconfigurationState
from manager.client.client import Client
from manager.commands.client_command import WrongUsage, client_command, fill_form, read_file
from manager.commands.dataflows import Id
from manager.commands.display import Shown, counted, lines, number, table

WAIT_SECONDS = 120.0
"""Seconds for which the command waits until all jobs have switched."""
_POLL_SECONDS = 0.2
_GOING = {ReconfigurationState.PREPARING, ReconfigurationState.SWITCHING}


@client_command
def reconfigure(  # noqa: PLR0913 - each is an option
    client: Client,
    dataflow: Id,
    file: Annotated[Path | None, typer.Argument(help="The whole edited document; - is standard input.")] = None,
    *,
    set_field: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="TASK.FIELD=VALUE", help="A field of a task's config; the value is JSON or text."
        ),
    ] = None,
    set_type: Annotated[
        list[str] | None, typer.Option("--type", metavar="TASK=TYPE", help="Another type for a task.")
    ] = None,
    fresh: Annotated[
        list[str] | None, typer.Option(metavar="TASK", help="Begin this changed task without state.")
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option(metavar="DATAFLOW", help="Change this dataflow in the same way; for operators.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Go back to the configs before the latest one, or --id.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel the latest one, or --id, before it switches.")
    ] = False,
    history: Annotated[bool, typer.Option("--history", help="List the reconfigurations of the dataflow.")] = False,
    id: Annotated[str | None, typer.Option(help="The reconfiguration to undo or cancel.")] = None,  # noqa: A002 - the option's name
    wait: Annotated[bool, typer.Option(help="Wait until all jobs have switched.")] = True,
) -> Shown:
    """Change tasks of a dataflow while they run. They keep their states; what others share is copied."""
    changes = _patches(set_field or (), set_type or ())
    if sum((bool(changes), file is not None, undo, cancel, history)) != 1:
        raise WrongUsage("give either changes, a document, --undo, --cancel or --history")
    if history:
        found = tuple(client.reconfigurations(dataflow))
        rows = ((each.id, each.state, each.begun, each.undoes or "", each.outcome) for each in found)
        columns = ("id", "state", "begun", "undoes", "outcome")
        return Shown(data=found, text=table(*columns, rows=rows, empty="no reconfigurations"))
    if cancel:
        answer = client.cancel_reconfiguration(dataflow, id or _latest(client, dataflow))
    elif undo:
        answer = client.undo_reconfiguration(dataflow, id or _latest(client, dataflow), dry_run=dry_run)
    else:
        document = None if file is None else _document(file)
        form = fill_form(ReconfigurationForm, tasks=changes or None, document=document, fresh=fresh, dataflows=also)
        answer = client.reconfigure(dataflow, form, dry_run=dry_run)
    if wait and answer.state in _GOING:
        answer = _waited(client, dataflow, answer)
    return Shown(data=answer, text=_text(answer))


def _patches(fields: Sequence[str], types: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The patches of tasks that options ask for.

    >>> _patches(["a.window=20", "a.names.x=y"], ["b=count"])
    {'a': {'config': {'window': 20, 'names': {'x': 'y'}}}, 'b': {'type': 'count'}}
    """
    found: dict[str, dict[str, Any]] = {}
    for each in fields:
        path, equals, text = each.partition("=")
        task, *keys = path.split(".")
        if not (equals and task and keys and all(keys)):
            raise WrongUsage(f"--set {each}: it has no field; write TASK.FIELD=VALUE")
        config = found.setdefault(task, {}).setdefault("config", {})
        for key in keys[:-1]:
            config = config.setdefault(key, {})
        config[keys[-1]] = _value(text)
    for each in types:
        task, equals, name = each.partition("=")
        if not (equals and task and name):
            raise WrongUsage(f"--type {each}: it has no type; write TASK=TYPE")
        found.setdefault(task, {})["type"] = name
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _document(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(read_file(file))
    except ValueError as error:
        raise WrongUsage(f"{file}: it is not JSON: {error}; name a file with a document") from None
    if not isinstance(found, dict):
        raise WrongUsage(f"{file}: it is not a JSON object; name a file with a document")
    return found


def _latest(client: Client, dataflow: str) -> str:
    found = next(iter(client.reconfigurations(dataflow)), None)
    if found is None:
        raise WrongUsage(f"{dataflow} was never reconfigured; there is nothing to undo or cancel")
    return found.id


def _waited(client: Client, dataflow: str, answer: ReconfigurationAnswer) -> ReconfigurationAnswer:
    until = time.monotonic() + WAIT_SECONDS
    while answer.state in _GOING and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        answer = client.reconfiguration(dataflow, answer.id)
    return answer


def _text(answer: ReconfigurationAnswer) -> RenderableType:
    scope = answer.scope
    tasks = None
    if scope is not None:
        rows = (
            (each.dataflow, each.task, "in place" if each.in_place else "copied", each.changed, each.state, each.job)
            for each in scope.tasks
        )
        tasks = table("dataflow", "task", "how", "changed", "state", "job", rows=rows, empty="no task")
    return lines(
        _heading(answer),
        tasks,
        None if scope is None or not scope.waiting else f"jobs that wait for a marker: {', '.join(scope.waiting)}",
    )


def _heading(answer: ReconfigurationAnswer) -> str:
    why = f": {answer.outcome}" if answer.outcome else ""
    if answer.state is ReconfigurationState.PREVIEW:
        scope = answer.scope
        jobs = "" if scope is None else f" in {counted(len(scope.jobs), 'job')}, within {number(scope.delay_seconds)} s"
        return f"it would take effect{jobs}"
    took = "" if answer.switched is None else f" after {number((answer.switched - answer.begun).total_seconds())} s"
    return f"reconfiguration {answer.id} is {answer.state}{took}{why}"
