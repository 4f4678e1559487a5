"""The commands about API keys: list, make, revoke."""

from typing import Annotated

import typer

from manager.answers import KeyForm
from manager.client.client import Client
from manager.commands.client_command import client_command, fill_form
from manager.commands.display import Shown, lines, moment, table

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command("list")
@client_command
def list_keys(client: Client) -> Shown:
    """List API keys, without their secrets."""
    found = tuple(client.keys())
    rows = ((each.id, each.role, each.tenant, each.note, each.created, moment(each.revoked) or "no") for each in found)
    return Shown(
        data=found, text=table("id", "role", "tenant", "note", "created", "revoked", rows=rows, empty="no keys")
    )


@app.command()
@client_command
def make(
    client: Client,
    tenant: Annotated[str | None, typer.Option(help="The tenant that it is for. Default: operators.")] = None,
    note: Annotated[str | None, typer.Option(help="A note on what it is used for.")] = None,
) -> Shown:
    """Make an API key; it is shown only this once."""
    answer = client.make_key(fill_form(KeyForm, tenant=tenant, note=note))
    whose = f"tenant {answer.tenant}" if answer.tenant else f"an {answer.role}"
    return Shown(data=answer, text=lines(f"key {answer.id} of {whose}, shown only this once:", answer.key))


@app.command()
@client_command
def revoke(client: Client, key: Annotated[str, typer.Argument(help="The id of a key, not the key itself.")]) -> Shown:
    """Revoke an API key."""
    answer = client.revoke_key(key)
    return Shown(data=answer, text=f"key {answer.id} is revoked")
