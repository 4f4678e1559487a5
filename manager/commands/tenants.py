"""The commands about tenants: list, admit, set quotas and what they may publish, make broker credentials."""

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from manager.answers import PublishingForm, Quota, TenantForm
from manager.client.client import Client
from manager.client.errors import Refused
from manager.commands.client_command import client_command, fill_form
from manager.commands.display import Shown, lines, table

app = typer.Typer(no_args_is_help=True, add_completion=False)
Name = Annotated[str, typer.Argument(help="The name of a tenant.")]
Names = Annotated[list[str], typer.Argument(help="The names of tenants.")]
Dataflows = Annotated[int | None, typer.Option(help="The most dataflows it may have.")]
Tasks = Annotated[int | None, typer.Option(help="The most tasks its dataflows may have in all.")]
Submits = Annotated[int | None, typer.Option(help="The most submissions in a minute.")]
WheelBytes = Annotated[int | None, typer.Option(help="The most bytes that its wheels may have in all.")]
Sources = Annotated[int | None, typer.Option(help="The most sources it may have.")]
Secrets = Annotated[int | None, typer.Option(help="The most secrets it may keep.")]
Modules = Annotated[int | None, typer.Option(help="The most versions of modules it may publish.")]
Keys = Annotated[int | None, typer.Option(help="The most valid API keys it may have.")]
FromEarliest = Annotated[int | None, typer.Option(help="The most dataflows that began at the earliest events.")]
Requests = Annotated[int | None, typer.Option(help="The most requests in a minute.")]


@app.command("list")
@client_command
def list_tenants(client: Client) -> Shown:
    """List the tenants, with their usage and quotas."""
    found = tuple(client.tenants())
    rows = (
        (
            each.name,
            f"{each.dataflows:,} of {each.quota.dataflows:,}",
            f"{each.tasks:,} of {each.quota.tasks:,}",
            each.quota.submits_per_minute,
            each.publishes_code,
            each.created,
        )
        for each in found
    )
    columns = ("name", "dataflows", "tasks", "submits per minute", "publishes code", "since")
    return Shown(data=found, text=table(*columns, rows=rows, empty="no tenants"))


@app.command()
@client_command
def admit(  # noqa: PLR0913, PLR0917 - each is a limit
    client: Client,
    name: Names,
    dataflows: Dataflows = None,
    tasks: Tasks = None,
    submits_per_minute: Submits = None,
    wheel_bytes: WheelBytes = None,
    sources: Sources = None,
    secrets: Secrets = None,
    modules: Modules = None,
    keys: Keys = None,
    requests_per_minute: Requests = None,
    from_earliest: FromEarliest = None,
) -> Iterator[Shown]:
    """Admit tenants. Their API keys and broker credentials are made by other commands."""
    wanted = _given(
        dataflows,
        tasks,
        submits_per_minute,
        wheel_bytes,
        sources,
        secrets,
        modules,
        keys,
        requests_per_minute,
        from_earliest,
    )
    forms = [fill_form(TenantForm, name=each, quota=fill_form(Quota, **wanted) if wanted else None) for each in name]
    for answer in map(client.admit, forms):
        text = f"{answer.name} is admitted; make a key for it: braid keys make --tenant {answer.name}"
        yield Shown(data=answer, text=text)


@app.command()
@client_command
def quota(  # noqa: PLR0913, PLR0917 - as above
    client: Client,
    name: Name,
    dataflows: Dataflows = None,
    tasks: Tasks = None,
    submits_per_minute: Submits = None,
    wheel_bytes: WheelBytes = None,
    sources: Sources = None,
    secrets: Secrets = None,
    modules: Modules = None,
    keys: Keys = None,
    requests_per_minute: Requests = None,
    from_earliest: FromEarliest = None,
) -> Shown:
    """Set a tenant's quota; limits that are not given stay as they are."""
    before = next((tenant.quota for tenant in client.tenants() if tenant.name == name), None)
    if before is None:
        raise Refused(
            status=404, code="not-found", detail=f"There is no tenant '{name}'; list them: braid tenants list"
        )
    wanted = fill_form(
        Quota,
        **{
            **before.model_dump(),
            **_given(
                dataflows,
                tasks,
                submits_per_minute,
                wheel_bytes,
                sources,
                secrets,
                modules,
                keys,
                requests_per_minute,
                from_earliest,
            ),
        },
    )
    answer = client.set_quota(name, wanted)
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


def _given(*limits: int | None) -> Mapping[str, int]:
    given = dict(zip(Quota.model_fields, limits, strict=True))
    return {name: value for name, value in given.items() if value is not None}
