"""The command that plans a running pipeline anew: `braid replan`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from manager.answers import ReplanAnswer, ReplanForm, ReplanKind
from manager.client.client import Client
from manager.commands.client_command import WrongUsage, client_command, fill_form, read_file
from manager.commands.dataflows import Id, plan_text
from manager.commands.display import Shown, lines

_HOW = {
    ReplanKind.NOTHING: "nothing changes",
    ReplanKind.RECONFIGURATION: "one reconfiguration; tasks keep their states",
    ReplanKind.REPLACEMENT: "a new document; tasks below what changes begin anew",
}


@client_command
def replan(  # noqa: PLR0913 - each is an option
    client: Client,
    dataflow: Id,
    file: Annotated[Path | None, typer.Argument(help="The pipeline with other goals; - is standard input.")] = None,
    *,
    prefer: Annotated[
        list[str] | None,
        typer.Option(metavar="CRITERION", help="What to optimise, the most important first; may be repeated."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="A module not to use, such as one that fails; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
) -> Iterator[Shown]:
    """Plan a running pipeline anew, with the modules that there are now, and apply the difference."""
    form = fill_form(ReplanForm, pipeline=None if file is None else _pipeline(file), prefer=prefer, without=without)
    answer = client.replan(dataflow, form, dry_run=dry_run)
    yield Shown(data=answer, text=_text(answer))


def _text(answer: ReplanAnswer) -> RenderableType:
    changed = f"changed: {', '.join(answer.changed)}" if answer.changed else ""
    why = f", because {answer.why}" if answer.why else ""
    return lines(plan_text(answer.plan), f"{answer.dataflow}: {_HOW[answer.how]}{why}", changed)


def _pipeline(file: Path) -> Any:
    try:
        return json.loads(read_file(file))
    except ValueError as error:
        raise WrongUsage(f"{file}: it is not JSON: {error}; name a file with a pipeline") from None
