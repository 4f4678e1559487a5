"""The command that compares a document with the one that runs: `braid diff`."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from braid_client.client import Client
from manager.cli import File, Shown, Tenant, WrongUsage, client_command, lines, read_json
from manager.documents.difference import ChangeKind, DocumentChange, changes
from manager.exit_codes import ExitCode

_SIGNS = {ChangeKind.ADDED: "+", ChangeKind.REMOVED: "-", ChangeKind.CHANGED: "~"}


class DocumentReport(BaseModel):
    """How a document differs from the one of a dataflow."""

    dataflow: str
    revision: int
    changes: tuple[DocumentChange, ...]


@client_command
def diff(
    client: Client,
    file: File,
    dataflow: Annotated[
        str | None, typer.Argument(help="The id or name of the dataflow. Default: the name in the document.")
    ] = None,
    tenant: Tenant = None,
) -> Iterator[Shown]:
    """Show what a document adds, removes and changes, compared with the one that runs.

    It ends with 0 if both are equal, and with 10 if they differ. `braid replace` makes the document run.
    """
    document = read_json(file, "with a document")
    if not isinstance(document, dict):
        raise WrongUsage(f"{file}: it is not a JSON object; name a file with a document")
    name = dataflow or document.get("name")
    if not isinstance(name, str):
        raise WrongUsage(f"{file}: it has no name; name the dataflow to compare it with")
    answer = client.dataflow(name if tenant is None else f"{tenant}/{name}")
    # What was submitted, rather than what was planned or chosen from it.
    differences = changes(answer.dynamic or answer.pipeline or answer.document, document)
    which = f"{answer.name} ({answer.id}), revision {answer.revision}"
    text = lines(f"{file} and {which} are equal" if not differences else f"{which} → {file}", *map(_line, differences))
    yield Shown(data=DocumentReport(dataflow=answer.id, revision=answer.revision, changes=differences), text=text)
    if differences:
        raise typer.Exit(ExitCode.DIFFERENT)


def _line(change: DocumentChange) -> str:
    match change.kind:
        case ChangeKind.CHANGED:
            values = f"{_written(change.before)} → {_written(change.after)}"
            return f"~ {change.what}: {change.field} {values}"
        case ChangeKind.ADDED if change.what.startswith("task"):
            return f"+ {change.what}: {change.after.get('type')} {_written(change.after.get('config') or {})}"
        case kind:
            return f"{_SIGNS[kind]} {change.what}"


def _written(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
