"""The commands about tenants: list, admit, set quotas and what they may publish, make broker credentials."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import typer

from manager.answers import PublishingForm, Quota, TenantAnswer, TenantForm
from manager.client.client import Client
from manager.client.errors import Refused
from manager.commands.client_command import client_command, fill_form
from manager.commands.display import Shown, lines, table

app = typer.Typer(no_args_is_help=True, add_completion=False)
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
}
"""What the option of each limit of a quota says."""


def _with_limits(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option for each limit; its parameter `limits` has those that are given."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        limits = {name: value for name in _LIMITS if (value := options.pop(name)) is not None}
        return command(*args, limits=limits, **options)

    signature = inspect.signature(command)
    own = [each for name, each in signature.parameters.items() if name != "limits"]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[int | None, typer.Option(help=text)],
        )
        for name, text in _LIMITS.items()
    ]
    setattr(run, "__signature__", signature.replace(parameters=[*own, *added]))  # noqa: B010 - functions have it, and their type does not
    return run


@app.command("list")
@client_command
def list_tenants(client: Client) -> Shown:
    """List the tenants, with their usage and quotas."""
    found = tuple(client.tenants())
    rows = (
        (
            each.name,
            f"{each.uses.dataflows:,} of {each.quota.dataflows:,}",
            f"{each.uses.tasks:,} of {each.quota.tasks:,}",
            _fullest(each),
            each.publishes_code,
            each.quarantined_until,
            each.created,
        )
        for each in found
    )
    columns = ("name", "dataflows", "tasks", "nearest to its quota", "publishes code", "in quarantine until", "since")
    return Shown(data=found, text=table(*columns, rows=rows, empty="no tenants"))


def _fullest(tenant: TenantAnswer) -> str:
    """The limit of which a tenant uses the largest part."""
    most = tenant.quota.model_dump()
    used = {name: number for name, number in tenant.uses.model_dump().items() if number}
    fullest = max(used, key=lambda name: used[name] / max(1, most[name]), default="")
    return f"{fullest.replace('_', ' ')}: {used[fullest]:,} of {most[fullest]:,}" if fullest else ""


@app.command()
@client_command
@_with_limits
def admit(client: Client, name: Names, *, limits: Mapping[str, int]) -> Iterator[Shown]:
    """Admit tenants. Their API keys and broker credentials are made by other commands."""
    own = fill_form(Quota, **limits) if limits else None
    for answer in map(client.admit, [fill_form(TenantForm, name=each, quota=own) for each in name]):
        text = f"{answer.name} is admitted; make a key for it: braid keys make --tenant {answer.name}"
        yield Shown(data=answer, text=text)


@app.command()
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


@app.command()
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


@app.command()
@client_command
def credentials(client: Client, name: Name) -> Shown:
    """Make a tenant's broker credentials, shown only this once; its earlier ones become invalid."""
    answer = client.make_credentials(name)
    topics = [("reads", topic) for topic in answer.reads] + [("writes", topic) for topic in answer.writes]
    return Shown(
        data=answer,
        text=lines(
            f"broker {answer.url}\nuser {answer.user}\npassword {answer.password} (shown only this once)",
            table("may", "topic", rows=topics, empty="no topics yet"),
        ),
    )
