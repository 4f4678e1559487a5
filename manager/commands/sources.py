"""Sources: list, register, say who may read them, revoke."""

from typing import Annotated

import typer

from dags import Visibility
from manager.answers import VisibilityForm
from manager.client.client import Client
from manager.commands.client_command import File, asks, fill_form, read_file
from manager.commands.display import Shown, table

app = typer.Typer(no_args_is_help=True, add_completion=False)
Name = Annotated[str, typer.Argument(help="The name of a source.")]


@app.command("list")
@asks
def list_sources(client: Client) -> Shown:
    """List the sources that you may read."""
    found = tuple(client.sources())
    rows = (
        (
            each.name,
            each.owner,
            each.visibility,
            each.readers,
            [f"{name} {kind}" for name, kind in each.fields.items()],
            each.dataflows,
            each.connection.kind if each.connection else None,
        )
        for each in found
    )
    columns = ("name", "owner", "visibility", "readers", "schema", "dataflows", "connection")
    return Shown(data=found, text=table(*columns, rows=rows, empty="no sources"))


@app.command()
@asks
def register(client: Client, file: File) -> Shown:
    """Register a source that a JSON file describes: name, connection, schema, visibility."""
    answer = client.register_source(read_file(file))
    return Shown(data=answer, text=f"{answer.name} of {answer.owner} is registered, {answer.visibility}")


@app.command()
@asks
def visibility(
    client: Client,
    name: Name,
    visibility: Annotated[Visibility, typer.Argument(help="Who may read it from now on.")],
    reader: Annotated[list[str] | None, typer.Option(help="A tenant that may read it; once for each.")] = None,
) -> Shown:
    """Say who may read a source; dataflows of those who may not any more are removed."""
    stopped = client.set_visibility(name, fill_form(VisibilityForm, visibility=visibility, readers=reader))
    return Shown(data=stopped, text=f"{name} is {visibility}; {stopped.dataflows} dataflows were removed")


@app.command()
@asks
def revoke(client: Client, name: Name) -> Shown:
    """Take a source away, and remove every dataflow that reads it."""
    stopped = client.revoke_source(name)
    return Shown(data=stopped, text=f"{name} is revoked; {stopped.dataflows} dataflows were removed")
