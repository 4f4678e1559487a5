"""The commands about tenants, API keys and secrets: `braid tenants`, `braid keys`, `braid secrets`."""

import functools
import html
import os
import sys
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from braid_client.answers.tenants import KeyForm, PublishingForm, Quota, Role, SecretForm, TenantAnswer, TenantForm
from braid_client.client import Client
from braid_client.errors import Refused
from manager.cli import (
    Shown,
    Tenant,
    WrongUsage,
    client_command,
    fields,
    fill_form,
    group,
    lines,
    listing,
    moment,
    table,
    with_options,
)
from manager.settings import data_folder

tenants_app = group(
    help="List tenants, admit them, set their quotas and what they may publish, make broker credentials."
)
Name = Annotated[str, typer.Argument(help="The name of a tenant.")]
Names = Annotated[list[str], typer.Argument(help="The names of tenants.")]
_LIMITS = {
    "dataflows": "The most dataflows it may have.",
    "tasks": "The most tasks its dataflows may have in all.",
    "streams": "The most streams between the tasks of its dataflows in all.",
    "submits_per_minute": "The most submissions in a minute.",
    "wheel_bytes": "The most bytes that its wheels may have in all.",
    "sources": "The most sources it may have.",
    "secrets": "The most secrets it may keep.",
    "modules": "The most versions of modules it may publish.",
    "keys": "The most valid API keys it may have.",
    "requests_per_minute": "The most requests in a minute.",
    "from_earliest": "The most dataflows that began at the earliest events.",
    "state_mb": "The most MB that the states of its tasks may have in all.",
    "budget": "The most money a day that its dataflows with alternates may cost.",
}
"""What the option of each limit of a quota says."""


def _with_limits(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option for each limit; its parameter `limits` has those that are given."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        limits = {name: value for name in _LIMITS if (value := options.pop(name)) is not None}
        return command(*args, limits=limits, **options)

    added = {name: (Annotated[int | None, typer.Option(help=text)], None) for name, text in _LIMITS.items()}
    return with_options(run, added, instead_of=["limits"])


@tenants_app.command("list")
@client_command
def list_tenants(client: Client) -> Shown:
    """List the tenants, with their usage and quotas."""
    return listing(
        client.tenants(),
        "no tenants",
        lambda tenant: {
            "name": tenant.name,
            "dataflows": f"{tenant.uses.dataflows:,} of {tenant.quota.dataflows:,}",
            "tasks": f"{tenant.uses.tasks:,} of {tenant.quota.tasks:,}",
            "nearest to its quota": _fullest(tenant),
            "publishes code": tenant.publishes_code,
            "in quarantine until": tenant.quarantined_until,
            "since": tenant.created,
        },
        wide=("publishes code", "since"),
    )


def _fullest(tenant: TenantAnswer) -> str:
    """The limit of which a tenant uses the largest part."""
    most = tenant.quota.model_dump()
    used = {name: number for name, number in tenant.uses.model_dump().items() if number}
    fullest = max(used, key=lambda name: used[name] / max(1, most[name]), default="")
    return f"{fullest.replace('_', ' ')}: {used[fullest]:,.10g} of {most[fullest]:,}" if fullest else ""


@tenants_app.command()
@client_command
@_with_limits
def admit(client: Client, name: Names, *, limits: Mapping[str, int]) -> Iterator[Shown]:
    """Admit tenants. Their API keys and broker credentials are made by other commands."""
    own = fill_form(Quota, **limits) if limits else None
    for answer in map(client.admit, [fill_form(TenantForm, name=tenant, quota=own) for tenant in name]):
        text = f"{answer.name} is admitted; make a key for it: braid keys make --tenant {answer.name}"
        yield Shown(data=answer, text=text)


@tenants_app.command()
@client_command
@_with_limits
def quota(client: Client, name: Name, *, limits: Mapping[str, int]) -> Shown:
    """Set a tenant's quota; limits that are not given stay as they are."""
    before = next((tenant.quota for tenant in client.tenants() if tenant.name == name), None)
    if before is None:
        raise Refused(
            status=404, code="not-found", detail=f"There is no tenant '{name}'; list them: braid tenants list"
        )
    answer = client.set_quota(name, fill_form(Quota, **{**before.model_dump(), **limits}))
    text = ", ".join(f"{what.replace('_', ' ')} {number:,}" for what, number in answer.quota.model_dump().items())
    return Shown(data=answer, text=f"{answer.name} may use: {text}")


@tenants_app.command()
@client_command
def publishing(
    client: Client,
    name: Name,
    *,
    code: Annotated[bool, typer.Option("--code/--no-code", help="Whether it may publish modules that are code.")],
) -> Shown:
    """Set whether a tenant may publish code; what it has published stays."""
    answer = client.set_publishing(name, PublishingForm(code=code))
    return Shown(data=answer, text=f"{answer.name} may {'publish' if answer.publishes_code else 'not publish'} code")


@tenants_app.command()
@client_command
def credentials(
    client: Client,
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before earlier ones end.")] = False,
) -> Shown:
    """Make a tenant's broker credentials, shown only this once; its earlier ones become invalid."""
    if not yes and (made := client.broker_login(name).made) is not None:
        ends = f"the password of {moment(made)} ends at once, and clients that use it lose their connection"
        if not sys.stdin.isatty():
            raise WrongUsage(f"{name} has broker credentials: {ends}; say --yes if that is meant")
        typer.confirm(f"{ends}; go on?", abort=True, err=True)
    answer = client.make_credentials(name)
    topics = [("reads", topic) for topic in answer.reads] + [("writes", topic) for topic in answer.writes]
    return Shown(
        data=answer,
        text=lines(
            f"broker {answer.url}\nuser {answer.user}\npassword {answer.password} (shown only this once)",
            table("may", "topic", rows=topics, empty="no topics yet"),
        ),
    )


@client_command
def open_console(
    client: Client,
    *,
    only_print: Annotated[bool, typer.Option("--print", help="Only print the link.")] = False,
) -> Shown:
    """Open the console in a browser, signed in by a link that works once, within a minute."""
    answer = client.make_console_link()
    link = f"{client.url}{answer.path}"
    if not only_print and _shown_in_browser(link):
        text = f"the console at {client.url} opens in your browser; if it does not, say: braid open --print"
    else:
        text = link
    return Shown(data={"url": link, "until": answer.until.isoformat()}, text=text)


def _shown_in_browser(link: str) -> bool:
    """Whether a browser with a screen of its own shows the link, which is no argument of it: others could see that."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(browser) is webbrowser.GenericBrowser:
        # One for terminals, in which the console does not work.
        return False
    page = data_folder(os.environ) / "open.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.unlink(missing_ok=True)
    page.touch(mode=0o600)
    page.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">', encoding="utf-8")
    return browser.open(page.as_uri())


keys_app = group(help="List, make and revoke API keys.")


@keys_app.command("list")
@client_command
def list_keys(client: Client) -> Shown:
    """List API keys, without their secrets."""
    columns = ("id", "role", "tenant", "note", "created")
    return listing(
        client.keys(),
        "no keys",
        lambda key: {
            **fields(key, *columns),
            "last used": moment(key.used) or "never",
            "expires": moment(key.expires) or "never",
            "revoked": moment(key.revoked) or "no",
        },
    )


@keys_app.command()
@client_command
def make(
    client: Client,
    *,
    tenant: Annotated[str | None, typer.Option(help="The tenant that it is for. Default: operators.")] = None,
    note: Annotated[str | None, typer.Option(help="A note on what it is used for.")] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="It may look at what its tenant may, and change nothing.")
    ] = False,
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="The days after which it expires. Default: it does not.")
    ] = None,
) -> Shown:
    """Make an API key; it is shown only this once."""
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    answer = client.make_key(fill_form(KeyForm, tenant=tenant, note=note, read_only=read_only, expires=expires))
    whose = f"tenant {answer.tenant}" if answer.tenant else f"an {answer.role}"
    scope = ", read-only" if answer.role is Role.READ_ONLY else ""
    until = f", valid until {moment(answer.expires)}" if answer.expires else ""
    text = f"key {answer.id} of {whose}{scope}{until}, shown only this once:"
    return Shown(data=answer, text=lines(text, answer.key))


@keys_app.command()
@client_command
def revoke(client: Client, key: Annotated[str, typer.Argument(help="The id of a key, not the key itself.")]) -> Shown:
    """Revoke an API key."""
    answer = client.revoke_key(key)
    return Shown(data=answer, text=f"key {answer.id} is revoked")


secrets_app = group(help="List the names of secrets, put and remove secrets.")
SecretName = Annotated[str, typer.Argument(help="Its name in documents.")]


@secrets_app.command("list")
@client_command
def list_secrets(client: Client, tenant: Tenant = None) -> Shown:
    """List the names of secrets; their values are never shown."""
    return listing(client.secrets(tenant=tenant), "no secrets", lambda secret: fields(secret, "tenant", "name"))


@secrets_app.command()
@client_command
def put(client: Client, name: SecretName, tenant: Tenant = None) -> Shown:
    """Store a secret, read from standard input or from a prompt."""
    # Not an argument, which every user of the machine could see.
    if sys.stdin.isatty():
        secret = typer.prompt("secret", hide_input=True, err=True)
    else:
        secret = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    answer = client.put_secret(name, fill_form(SecretForm, secret=secret), tenant=tenant)
    return Shown(data=answer, text=f"the secret {answer.name} of {answer.tenant} is stored")


@secrets_app.command()
@client_command
def remove(client: Client, name: SecretName, tenant: Tenant = None) -> Shown:
    """Remove a secret; tasks that name it fail."""
    answer = client.remove_secret(name, tenant=tenant)
    return Shown(data=answer, text=f"the secret {answer.name} of {answer.tenant} is removed")
