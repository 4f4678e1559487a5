"""What runs and what happens: jobs, hosts, operations, and all of it live."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

from manager.answers import OperationKind
from manager.client.client import Client
from manager.commands.client_command import asks
from manager.commands.display import Shown, slashed, table

_KINDS = ", ".join(OperationKind)


@asks
def jobs(client: Client) -> Shown:
    """List the jobs: what is wanted of each, and what its host says of it."""
    found = tuple(client.jobs())
    rows = (
        (
            each.job,
            each.host,
            each.state,
            each.version if each.version == each.in_effect else f"{each.version}, {each.in_effect} in effect",
            each.active,
            each.paused,
            each.batch,
            slashed(each.batch_seconds_p50, each.batch_seconds_p99),
            slashed(each.events_in_per_second, each.events_out_per_second),
            slashed(each.lag_events, each.lag_seconds),
            slashed(each.latency_seconds_p50, each.latency_seconds_p99),
            each.restarts,
            each.seen,
            each.trouble,
        )
        for each in found
    )
    columns = (
        *("job", "host", "state", "plan", "active", "paused", "batch", "seconds p50/p99", "events/s in/out"),
        *("lag events/s", "latency s p50/p99", "restarts", "seen", "trouble"),
    )
    return Shown(data=found, text=table(*columns, rows=rows, empty="no jobs"))


@asks
def hosts(client: Client) -> Shown:
    """List the hosts, and whether they are alive."""
    found = tuple(client.hosts())
    rows = (
        (
            each.name,
            each.alive,
            len(each.jobs),
            len(each.spools),
            each.dropped,
            [f"{name} {seconds:.2f}" for name, seconds in each.cpu.items()],
            each.cores,
            each.tags,
            each.release,
            each.seen,
        )
        for each in found
    )
    columns = ("host", "alive", "jobs", "spools", "dropped", "CPU seconds", "cores", "tags", "release", "seen")
    return Shown(data=found, text=table(*columns, rows=rows, empty="no hosts"))


@asks
def operations(
    client: Client,
    kind: Annotated[OperationKind | None, typer.Option(help="Those of one kind.")] = None,
    subject: Annotated[str | None, typer.Option(help="Those about one dataflow, source, tenant or key.")] = None,
) -> Shown:
    """List what was changed, newest first: when, by whom, and what it started, reused and paused."""
    found = tuple(client.operations(kind=kind, subject=subject))
    rows = (
        (
            each.id,
            each.at,
            each.who,
            each.kind,
            each.subject,
            each.started,
            each.reused,
            each.paused,
            each.seconds,
            each.note,
        )
        for each in found
    )
    columns = ("id", "at", "who", "what", "subject", "started", "reused", "paused", "seconds", "note")
    return Shown(data=found, text=table(*columns, rows=rows, empty="no operations"))


@asks
def watch(client: Client) -> Iterator[Shown]:
    """Show what happens as it happens, until Ctrl-C; with --json, each event is a document on a line of its own."""
    for event in client.events():
        told = ", ".join(f"{name} {_short(value)}" for name, value in event.told.items() if value not in ("", [], None))
        yield Shown(data=event, text=Text(f"{event.kind}: {told}"))


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
