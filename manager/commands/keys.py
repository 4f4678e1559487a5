"""API keys: list, make, revoke."""

from typing import Annotated

import typer

from manager.answers import KeyForm
from manager.client.client import Client
from manager.commands.client_command import asks, fill_form
from manager.commands.display import Shown, lines, moment, table

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command("list")
@asks
def list_keys(client: Client) -> Shown:
    """List API keys, without their secrets."""
    found = tuple(client.keys())
    rows = ((each.id, each.role, each.tenant, each.note, each.created, moment(each.revoked) or "no") for each in found)
    return Shown(
        data=found, text=table("id", "role", "tenant", "note", "created", "revoked", rows=rows, empty="no keys")
    )


@app.command()
@asks
def make(
    client: Client,
    tenant: Annotated[str | None, typer.Option(help="Whose it is; an operator's if not given.")] = None,
    note: Annotated[str | None, typer.Option(help="What it is for.")] = None,
) -> Shown:
    """Make an API key; its secret is shown this once."""
    answer = client.make_key(fill_form(KeyForm, tenant=tenant, note=note))
    whose = f"tenant {answer.tenant}" if answer.tenant else f"an {answer.role}"
    return Shown(data=answer, text=lines(f"key {answer.id} of {whose}, shown this once:", answer.key))


@app.command()
@asks
def revoke(client: Client, key: Annotated[str, typer.Argument(help="The id of a key, not the key itself.")]) -> Shown:
    """Have an API key let nobody in any more."""
    answer = client.revoke_key(key)
    return Shown(data=answer, text=f"key {answer.id} is revoked")
