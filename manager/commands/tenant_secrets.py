"""Secrets: list their names, put, remove."""

import sys
from typing import Annotated

import typer

from manager.answers import SecretForm
from manager.client.client import Client
from manager.commands.client_command import Tenant, asks, fill_form
from manager.commands.display import Shown, table

app = typer.Typer(no_args_is_help=True, add_completion=False)
Name = Annotated[str, typer.Argument(help="What documents call it.")]


@app.command("list")
@asks
def list_secrets(client: Client, tenant: Tenant = None) -> Shown:
    """List the names of secrets; nobody is told what they hold."""
    found = tuple(client.secrets(tenant=tenant))
    return Shown(data=found, text=table("tenant", "name", rows=((e.tenant, e.name) for e in found), empty="no secrets"))


@app.command()
@asks
def put(client: Client, name: Name, tenant: Tenant = None) -> Shown:
    """Keep a secret, which is read from standard input, or asked for at a terminal."""
    # Never as an argument, which everybody on the machine could see.
    if sys.stdin.isatty():
        secret = typer.prompt("secret", hide_input=True, err=True)
    else:
        secret = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    answer = client.put_secret(name, fill_form(SecretForm, secret=secret), tenant=tenant)
    return Shown(data=answer, text=f"the secret {answer.name} of {answer.tenant} is kept")


@app.command()
@asks
def remove(client: Client, name: Name, tenant: Tenant = None) -> Shown:
    """Keep a secret no longer; tasks that name it fail."""
    answer = client.remove_secret(name, tenant=tenant)
    return Shown(data=answer, text=f"the secret {answer.name} of {answer.tenant} is removed")
