"""The commands about sources: list, show, propose, register, set their visibility, revoke; and their webhooks."""

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from braid_client.answers.sources import (
    LinkAnswer,
    NewWebhookAnswer,
    ProposalForm,
    SchemaForm,
    SourceAnswer,
    VisibilityForm,
    WebhookForm,
    WebhookRotationForm,
    WebhookScheme,
)
from braid_client.client import Client
from dags import Visibility
from manager.cli import (
    File,
    Shown,
    WrongUsage,
    client_command,
    complain,
    counted,
    fields,
    fill_form,
    group,
    lines,
    listing,
    moment,
    read_file,
    read_json,
    table,
)

app = group(help="List, show, propose and register sources, set their visibility, revoke them.")
Name = Annotated[str, typer.Argument(help="The name of a source.")]


@app.command("list")
@client_command
def list_sources(client: Client) -> Shown:
    """List the sources that you may read."""
    return listing(
        client.sources(),
        "no sources",
        lambda source: {
            **fields(source, "name", "owner", "visibility", "readers"),
            "schema": _declared(source),
            "dataflows": source.dataflows,
            "connection": source.connection and source.connection.kind,
            "accepted": source.received and source.received.accepted,
            "rejected": source.received and source.received.rejected,
        },
        wide=("readers", "schema"),
    )


def _declared(source: SourceAnswer) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in source.fields.items())


@app.command()
@client_command
def show(client: Client, name: Name) -> Shown:
    """Show a source: its schema, and for its owner what was accepted and rejected, with the newest rejected events."""
    answer = client.source(name)
    heading = f"{answer.name} of {answer.owner}, {answer.visibility}, declares {_declared(answer) or 'no fields'}"
    return Shown(data=answer, text=lines(heading, *_received(answer)))


def _received(answer: SourceAnswer) -> Iterator[RenderableType]:
    if (received := answer.received) is None:
        yield "no dataflow reads it, so nothing is received" if answer.dataflows == 0 else ""
        return
    since = f"since {moment(received.since)}, when its host began to receive it"
    yield f"{counted(received.accepted, 'event')} accepted and {received.rejected:,} rejected {since}"
    if (link := received.link) is not None:
        yield _linked(link)
    if received.newest:
        rows = ((event.at, event.reason, event.event) for event in received.newest)
        yield table("rejected at", "reason", "event", rows=rows, empty="")


def _linked(link: LinkAnswer) -> str:
    state = f"{'connected' if link.connected else 'not connected'} since {moment(link.since)}"
    if not link.error or link.error_at is None:
        return state
    return f"{state}; {'last failed' if link.connected else 'failed'} at {moment(link.error_at)}: {link.error}"


@app.command()
@client_command
def propose(
    client: Client,
    topic: Annotated[str, typer.Argument(help="A topic below your name, or that of a source of yours.")],
    seconds: Annotated[int, typer.Option(min=1, max=60, help="How long to listen.")] = 10,
    messages_format: Annotated[
        str | None,
        typer.Option("--format", help="The format of the messages, such as csv, or as JSON; else it is recognised."),
    ] = None,
) -> Shown:
    """Listen to a topic, and print a source for `braid sources register` whose schema takes what came."""
    form = fill_form(ProposalForm, topic=topic, seconds=seconds, format=_format(messages_format))
    answer = client.propose_source(form)
    if not answer.events:
        none = "no event that a source takes" if answer.messages else "no message"
        why = f": {answer.why_unread}" if answer.why_unread else ""
        raise WrongUsage(f"{none} came on {topic} in {seconds} s{why}; let something publish there, and listen longer")
    complain(f"inferred from {counted(answer.events, 'event')} in {counted(answer.messages, 'message')}")
    if answer.unread:
        complain(f"{answer.unread:,} could not be read; the first one: {answer.why_unread}")
    for undecided in answer.undecided:
        complain(f"{undecided.field}: {undecided.why}" if undecided.field is not None else undecided.why)
    source = answer.source.model_dump(mode="json", by_alias=True, exclude_none=True)
    return Shown(data=answer, text=Text(json.dumps(source, indent=2, ensure_ascii=False)))


def _format(text: str | None) -> Any:
    if text is None or not text.startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise WrongUsage(f"the format is not JSON: {error}; name a kind, or quote an object") from None


@app.command()
@client_command
def register(client: Client, file: File) -> Shown:
    """Register a source from a JSON file: name, connection, schema, visibility."""
    answer = client.register_source(read_file(file))
    return Shown(data=answer, text=f"{answer.name} of {answer.owner} is registered, {answer.visibility}")


@app.command()
@client_command
def visibility(
    client: Client,
    name: Name,
    visibility: Annotated[Visibility, typer.Argument(help="Who may read it from now on.")],
    reader: Annotated[list[str] | None, typer.Option(help="A tenant that may read it; may be repeated.")] = None,
) -> Shown:
    """Set who may read a source; the dataflows of tenants that may no longer read it are removed."""
    stopped = client.set_visibility(name, fill_form(VisibilityForm, visibility=visibility, readers=reader))
    return Shown(data=stopped, text=f"{name} is {visibility}; {counted(stopped.dataflows, 'dataflow')} removed")


@app.command()
@client_command
def schema(
    client: Client,
    name: Name,
    file: File,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which dataflows depend on what goes.")] = False,
) -> Shown:
    """Change the schema of a source, to the JSON object of fields in a file; what runs keeps the one before."""
    declared = read_json(file, 'such as {"temperature": "float"}')
    answer = client.declare_fields(name, fill_form(SchemaForm, schema=declared), dry_run=dry_run)
    verb = "would declare" if dry_run else "declares"
    heading = f"{answer.source.name} {verb} {_declared(answer.source) or 'no fields'}"
    keeps = "keeps" if answer.going_on == 1 else "keep"
    going_on = f"{counted(answer.going_on, 'dataflow')} {keeps} the schema before" if answer.going_on else ""
    dependent = [f"{reader.dataflow} depends on it: {'; '.join(reader.why)}" for reader in answer.dependent]
    return Shown(data=answer, text=lines(heading, going_on, *dependent))


@app.command()
@client_command
def revoke(client: Client, name: Name) -> Shown:
    """Revoke a source, and remove every dataflow that reads it."""
    stopped = client.revoke_source(name)
    return Shown(data=stopped, text=f"{name} is revoked; {counted(stopped.dataflows, 'dataflow')} removed")


Secret = Annotated[
    bool, typer.Option("--secret", help="Read the secret from standard input, as the service shows it; else make one.")
]


@app.command()
@client_command
def webhook(  # noqa: PLR0913 - each is an option
    client: Client,
    name: Name,
    *,
    scheme: Annotated[WebhookScheme, typer.Option(help="How the service signs.")] = WebhookScheme.STANDARD,
    header: Annotated[str | None, typer.Option(help="The header with the signature, for hex and base64.")] = None,
    prefix: Annotated[str, typer.Option(help="What stands before the signature in that header.")] = "",
    delivery: Annotated[str | None, typer.Option(help="The header with the id of a delivery, likewise.")] = None,
    secret: Secret = False,
) -> Shown:
    """Make a webhook of a source, and print its URL and its secret, which is shown this once."""
    form = fill_form(
        WebhookForm, scheme=scheme, header=header, prefix=prefix, delivery=delivery, secret=_read_secret(secret=secret)
    )
    return _shown(client.make_webhook(name, form))


@app.command()
@client_command
def rotate_webhook(
    client: Client,
    name: Name,
    *,
    former_hours: Annotated[
        int, typer.Option(min=0, max=168, help="For how many hours the secret before counts, too.")
    ] = 24,
    secret: Secret = False,
) -> Shown:
    """Give a webhook another secret, and print it, which is shown this once. The URL stays."""
    form = fill_form(WebhookRotationForm, former_hours=former_hours, secret=_read_secret(secret=secret))
    return _shown(client.rotate_webhook(name, form))


@app.command()
@client_command
def revoke_webhook(client: Client, name: Name) -> Shown:
    """Revoke the webhook of a source; nothing more is taken at its URL."""
    answer = client.revoke_webhook(name)
    return Shown(data=answer, text=f"the webhook of {answer.source} is revoked")


def _read_secret(*, secret: bool) -> str | None:
    return sys.stdin.readline().rstrip("\r\n") if secret else None


def _shown(made: NewWebhookAnswer) -> Shown:
    until = f"the secret before counts until {moment(made.former_until)}" if made.former_until else ""
    return Shown(data=made, text=lines(f"url     {made.url}", f"secret  {made.secret}", until))
