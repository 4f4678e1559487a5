"""The commands that show what runs: jobs, hosts, operations, and live events."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

from manager.answers import OperationKind
from manager.client.client import Client
from manager.commands.client_command import client_command
from manager.commands.display import Shown, slashed, table


@client_command
def jobs(client: Client) -> Shown:
    """List the jobs, with their plans and the latest status from their hosts."""
    found = tuple(client.jobs())
    rows = (
        (
            each.job,
            each.host,
            each.state,
            each.version if each.version == each.in_effect else f"{each.version}, {each.in_effect} in effect",
            each.active,
            each.paused,
            f"{each.shards}{' hot' if each.hot_group is not None else ''}",
            f"{each.pace:g} s",
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
        *("job", "host", "state", "plan", "active", "paused", "shards", "pace", "batch", "seconds p50/p99"),
        *("events/s in/out", "lag events/s", "latency s p50/p99", "restarts", "seen", "trouble"),
    )
    return Shown(data=found, text=table(*columns, rows=rows, empty="no jobs"))


@client_command
def hosts(client: Client) -> Shown:
    """List the hosts."""
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
            each.image,
            each.tags,
            each.release,
            each.seen,
            each.trouble,
        )
        for each in found
    )
    columns = (
        *("host", "alive", "jobs", "spools", "dropped", "CPU seconds", "cores"),
        *("image", "tags", "release", "seen", "trouble"),
    )
    return Shown(data=found, text=table(*columns, rows=rows, empty="no hosts"))


@client_command
def operations(
    client: Client,
    kind: Annotated[OperationKind | None, typer.Option(help="Only of this kind.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only about this dataflow, source, tenant or key.")] = None,
) -> Shown:
    """List the changes, newest first: when, by whom, and which tasks each started, reused and paused."""
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


@client_command
def watch(client: Client) -> Iterator[Shown]:
    """Show events as they happen, until Ctrl-C; with --json, one document for each line."""
    for event in client.events():
        fields = ", ".join(
            f"{name} {_short(value)}" for name, value in event.told.items() if value not in ("", [], None)
        )
        yield Shown(data=event, text=Text(f"{event.kind}: {fields}"))


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
