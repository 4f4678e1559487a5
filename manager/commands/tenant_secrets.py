"""The commands about secrets: list their names, put, remove."""

import sys
from typing import Annotated

import typer

from manager.answers import SecretForm
from manager.client.client import Client
from manager.commands.client_command import Tenant, client_command, fill_form
from manager.commands.display import Shown, table

app = typer.Typer(no_args_is_help=True, add_completion=False)
Name = Annotated[str, typer.Argument(help="Its name in documents.")]


@app.command("list")
@client_command
def list_secrets(client: Client, tenant: Tenant = None) -> Shown:
    """List the names of secrets; their values are never shown."""
    found = tuple(client.secrets(tenant=tenant))
    return Shown(data=found, text=table("tenant", "name", rows=((e.tenant, e.name) for e in found), empty="no secrets"))


@app.command()
@client_command
def put(client: Client, name: Name, tenant: Tenant = None) -> Shown:
    """Store a secret, read from standard input or from a prompt."""
    # Not an argument, which every user of the machine could see.
    if sys.stdin.isatty():
        secret = typer.prompt("secret", hide_input=True, err=True)
    else:
        secret = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    answer = client.put_secret(name, fill_form(SecretForm, secret=secret), tenant=tenant)
    return Shown(data=answer, text=f"the secret {answer.name} of {answer.tenant} is stored")


@app.command()
@client_command
def remove(client: Client, name: Name, tenant: Tenant = None) -> Shown:
    """Remove a secret; tasks that name it fail."""
    answer = client.remove_secret(name, tenant=tenant)
    return Shown(data=answer, text=f"the secret {answer.name} of {answer.tenant} is removed")
