"""The command that changes tasks of a dataflow while they run: `braid reconfigure`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import RenderableType

from braid_client.answers.reconfigurations import (
    ChangedTaskAnswer,
    ReconfigurationAnswer,
    ReconfigurationForm,
    ReconfigurationState,
    TaskPresence,
)
from braid_client.client import Client
from manager.cli import (
    DryRun,
    Id,
    Shown,
    WrongUsage,
    client_command,
    counted,
    fields,
    fill_form,
    lines,
    listing,
    number,
    read_json,
    table,
    waited,
)
from manager.exit_codes import ExitCode

_GOING = frozenset({ReconfigurationState.WAITING, ReconfigurationState.PREPARING, ReconfigurationState.SWITCHING})


class Until(StrEnum):
    """The moments that the command can wait for."""

    SWITCHED = "switched"
    DONE = "done"


_UNDER_WAY = {
    ReconfigurationState.WAITING: "is about to begin",
    ReconfigurationState.PREPARING: "has its jobs get ready",
    ReconfigurationState.SWITCHING: "has its jobs switch",
    ReconfigurationState.SWITCHED: "has switched; events from before may still be under way",
}
_NOT_YET = {Until.SWITCHED: _GOING, Until.DONE: _GOING | {ReconfigurationState.SWITCHED}}
"""The states before each moment."""


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
    dry_run: DryRun = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Go back to the configs before the latest one, or --id.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel the latest one, or --id, while it waits or prepares.")
    ] = False,
    history: Annotated[bool, typer.Option("--history", help="List the reconfigurations of the dataflow.")] = False,
    id: Annotated[str | None, typer.Option(help="The reconfiguration to undo or cancel.")] = None,  # noqa: A002 - the option's name
    wait: Annotated[bool, typer.Option(help="Wait until all jobs have switched, or --until.")] = True,
    until: Annotated[
        Until,
        typer.Option(help="Wait until every job runs the new version, or until the events from before are gone too."),
    ] = Until.SWITCHED,
) -> Iterator[Shown]:
    """Change tasks of a dataflow while they run. They keep their states; what others share is copied."""
    changes = _patches(set_field or (), set_type or ())
    if sum((bool(changes), file is not None, undo, cancel, history)) != 1:
        raise WrongUsage("give either changes, a document, --undo, --cancel or --history")
    if (fresh or also) and (undo or cancel or history):
        raise WrongUsage("--fresh and --also are for changes; leave them out, or give --set, --type or a document")
    if id is not None and not (undo or cancel):
        raise WrongUsage("--id is for --undo and --cancel; give one of them too")
    if dry_run and (cancel or history):
        raise WrongUsage("--dry-run is for changes and --undo; leave it out")
    if history:
        yield _history(client, dataflow)
        return
    if cancel:
        answer = client.cancel_reconfiguration(dataflow, id or _latest(client, dataflow))
    elif undo:
        answer = client.undo_reconfiguration(dataflow, id or _latest_undoable(client, dataflow), dry_run=dry_run)
    else:
        document = None if file is None else _document(file)
        form = fill_form(ReconfigurationForm, tasks=changes or None, document=document, fresh=fresh, dataflows=also)
        answer = client.reconfigure(dataflow, form, dry_run=dry_run)
    if wait:
        answer = wait_for(client, dataflow, answer, until)
    yield Shown(data=answer, text=_text(answer))
    if not cancel:
        exit_unless_done(answer, until if wait else None)


def exit_unless_done(answer: ReconfigurationAnswer, until: Until | None) -> None:
    """End the command with another code than 0 if it was given up, or was waited for and is not there yet."""
    if answer.state in {ReconfigurationState.ABANDONED, ReconfigurationState.REVERTED}:
        raise typer.Exit(ExitCode.CONFLICT)
    if until is not None and answer.state in _NOT_YET[until]:
        raise typer.Exit(ExitCode.LATER)


def _patches(set_fields: Sequence[str], set_types: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The patches of tasks that options ask for.

    >>> _patches(["a.window=20", "a.names.x=y"], ["b=count"])
    {'a': {'config': {'window': 20, 'names': {'x': 'y'}}}, 'b': {'type': 'count'}}
    """
    patches: dict[str, dict[str, Any]] = {}
    for option in set_fields:
        path, equals, text = option.partition("=")
        task, *keys = path.split(".")
        if not (equals and task and keys and all(keys)):
            raise WrongUsage(f"--set {option}: it has no field; write TASK.FIELD=VALUE")
        config = patches.setdefault(task, {}).setdefault("config", {})
        for key in keys[:-1]:
            config = config.setdefault(key, {})
            if not isinstance(config, dict):
                raise WrongUsage(f"--set {option}: {key} got a value before; set it as a whole, or only its fields")
        if keys[-1] in config:
            raise WrongUsage(f"--set {option}: {path} got a value before; set it once")
        config[keys[-1]] = _value(text)
    for option in set_types:
        task, equals, name = option.partition("=")
        if not (equals and task and name):
            raise WrongUsage(f"--type {option}: it has no type; write TASK=TYPE")
        patches.setdefault(task, {})["type"] = name
    return patches


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_not_json)
    except ValueError:
        return text


def _not_json(constant: str) -> NoReturn:
    """Refuse NaN and infinities, which Python reads and JSON does not have."""
    raise ValueError(constant)


def _document(file: Path) -> Mapping[str, Any]:
    document = read_json(file, "with a document")
    if not isinstance(document, dict):
        raise WrongUsage(f"{file}: it is not a JSON object; name a file with a document")
    return document


def _history(client: Client, dataflow: str) -> Shown:
    return listing(
        client.reconfigurations(dataflow),
        "no reconfigurations",
        lambda answer: {
            **fields(answer, "id", "state"),
            "asked for": answer.begun,
            "switched": answer.switched,
            "over": answer.ended,
            "undoes": answer.undoes,
            "note": answer.outcome or _queued(answer),
        },
        wide=("switched", "undoes"),
    )


def _latest(client: Client, dataflow: str) -> str:
    latest = next(iter(client.reconfigurations(dataflow)), None)
    if latest is None:
        raise WrongUsage(f"{dataflow} was never reconfigured; there is nothing to cancel")
    return latest.id


def _latest_undoable(client: Client, dataflow: str) -> str:
    """The latest reconfiguration that was not abandoned, since an abandoned one changed nothing."""
    history = client.reconfigurations(dataflow)
    if (latest := next((one for one in history if one.state is not ReconfigurationState.ABANDONED), None)) is None:
        raise WrongUsage(f"no reconfiguration of {dataflow} has taken effect; there is nothing to undo")
    undone = latest.undoes
    if undone is not None and client.reconfiguration(dataflow, undone).state is ReconfigurationState.REVERTED:
        raise WrongUsage(
            f"reconfiguration {undone} failed and went back by itself; there is nothing to undo. "
            f"Give --id {latest.id} to make it once more"
        )
    return latest.id


def wait_for(client: Client, dataflow: str, answer: ReconfigurationAnswer, until: Until) -> ReconfigurationAnswer:
    """Wait for a moment of a reconfiguration, or until it was given up."""

    def waits_for(now: ReconfigurationAnswer) -> str | None:
        if now.state not in _NOT_YET[until]:
            return None
        return f"reconfiguration {now.id} {_queued(now) or _UNDER_WAY[now.state]}"

    return waited(answer, lambda now: client.reconfiguration(dataflow, now.id), waits_for)


def _queued(answer: ReconfigurationAnswer) -> str:
    """Say in words what a waiting reconfiguration waits for."""
    queue = answer.queue
    if answer.state is not ReconfigurationState.WAITING or queue is None:
        return ""
    names = [f"reconfiguration {number}" for number in queue.behind]
    if queue.behind_others:
        names.append(f"{counted(queue.behind_others, 'reconfiguration')} of others")
    if queue.behind_moves:
        names.append("tasks that are being moved")
    # Nothing is in its way any more where nothing is named.
    return f"waits for {', '.join(names)}, at place {queue.place} of the queue" if names else "is about to begin"


def _text(answer: ReconfigurationAnswer) -> RenderableType:
    if (scope := answer.scope) is None:
        return lines(heading(answer))
    rows = ((task.dataflow, task.task, _how(task), task.changed, task.state, task.job) for task in scope.tasks)
    tasks = table("dataflow", "task", "how", "changed", "state", "job", rows=rows, empty="no task")
    waiting = f"jobs that wait for a marker: {', '.join(scope.waiting)}" if scope.waiting else None
    return lines(heading(answer), tasks, waiting)


def _how(task: ChangedTaskAnswer) -> str:
    if task.presence is not TaskPresence.STAYS:
        return task.presence
    return "in place" if task.in_place else "copied"


def heading(answer: ReconfigurationAnswer) -> str:
    """A line that says where a reconfiguration stands."""
    why = f": {answer.outcome}" if answer.outcome else ""
    if answer.state is ReconfigurationState.PREVIEW:
        scope = answer.scope
        jobs = "" if scope is None else f" in {counted(len(scope.jobs), 'job')}, within {number(scope.delay_seconds)} s"
        return f"it would take effect{jobs}"
    return f"reconfiguration {answer.id} {_standing(answer)}{why}"


def _standing(answer: ReconfigurationAnswer) -> str:
    """The state of a reconfiguration in words, with its moments."""
    switched = "" if answer.switched is None else f" after {_seconds(answer.begun, answer.switched)}"
    match answer.state:
        case ReconfigurationState.WAITING:
            return _queued(answer) or "is waiting"
        case ReconfigurationState.SWITCHED:
            return f"has switched{switched}; events from before may still be under way"
        case ReconfigurationState.DONE:
            gone = "" if answer.ended is None else f" after {_seconds(answer.begun, answer.ended)}"
            return f"is done: it switched{switched}, and the events from before were gone{gone}"
        case _:
            return f"is {answer.state}{switched}"


def _seconds(begun: datetime, then: datetime) -> str:
    return f"{number((then - begun).total_seconds())} s"
