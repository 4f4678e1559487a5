"""The commands that show what runs, and where: `braid jobs`, `hosts`, `operations`, `watch`, `placement`."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from braid_client.answers.jobs import HostAnswer, JobAnswer, OtherPlaceAnswer, PlacementPlanForm
from braid_client.answers.overview import OperationKind
from braid_client.client import Client
from manager.cli import (
    Id,
    Shown,
    client_command,
    fields,
    group,
    lines,
    listing,
    slashed,
    table,
    waited,
)
from manager.exit_codes import ExitCode


@client_command
def jobs(client: Client) -> Shown:
    """List the jobs, with their plans and the latest status from their hosts."""
    wide = ("paused", "shards", "batch", "seconds p50/p99", "latency s p50/p99", "restarts", "seen")
    return listing(client.jobs(), "no jobs", _job, wide=wide)


def _job(job: JobAnswer) -> dict[str, object]:
    return {
        **fields(job, "job", "host", "state"),
        "plan": job.version if job.version == job.in_effect else f"{job.version}, {job.in_effect} in effect",
        **fields(job, "active", "paused"),
        "shards": f"{job.shards}{' hot' if job.hot_group is not None else ''}",
        "pace": f"{job.pace:g} s",
        "batch": job.batch,
        "seconds p50/p99": slashed(job.batch_seconds_p50, job.batch_seconds_p99),
        "events/s in/out": slashed(job.events_in_per_second, job.events_out_per_second),
        "lag events/s": slashed(job.lag_events, job.lag_seconds),
        "latency s p50/p99": slashed(job.latency_seconds_p50, job.latency_seconds_p99),
        **fields(job, "restarts", "seen", "trouble"),
    }


@client_command
def hosts(
    client: Client,
    *,
    wait: Annotated[
        str | None, typer.Option(metavar="HOST", help="Wait until this host is alive, for two minutes at most.")
    ] = None,
) -> Iterator[Shown]:
    """List the hosts."""
    listed = list(client.hosts())
    if wait is not None:
        listed = waited(listed, lambda _: list(client.hosts()), lambda now: _awaits(wait, now))
    yield listing(listed, "no hosts", _host, wide=("spools", "dropped", "CPU seconds", "release"))
    if wait is not None and _awaits(wait, listed):
        raise typer.Exit(ExitCode.LATER)


def _awaits(name: str, hosts: Iterable[HostAnswer]) -> str | None:
    """What a host is waited for; None once it is alive."""
    is_alive = any(host.name == name and host.alive for host in hosts)
    return None if is_alive else f"host {name} has not reported itself yet"


def _host(host: HostAnswer) -> dict[str, object]:
    return {
        "host": host.name,
        "alive": host.alive,
        "jobs": len(host.jobs),
        "spools": len(host.spools),
        "dropped": host.dropped,
        "CPU seconds": [f"{name} {seconds:.2f}" for name, seconds in host.cpu.items()],
        **fields(host, "cores", "image", "tags", "release", "seen", "trouble"),
    }


@client_command
def operations(
    client: Client,
    kind: Annotated[OperationKind | None, typer.Option(help="Only of this kind.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only about this dataflow, source, tenant or key.")] = None,
) -> Shown:
    """List the changes, newest first: when, by whom, and which tasks each started, reused and paused."""
    return listing(
        client.operations(kind=kind, subject=subject),
        "no operations",
        lambda operation: {
            **fields(operation, "id", "at", "who"),
            "what": operation.kind,
            **fields(operation, "subject", "started", "reused", "paused", "seconds", "note"),
        },
        wide=("started", "reused", "paused", "seconds"),
    )


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


app = group(help="Show where a dataflow runs and why, and have other planners plan it.")


@app.command()
@client_command
def explain(
    client: Client,
    dataflow: Id,
    *,
    task: Annotated[
        str | None, typer.Option(help="Also show where else this task could be, which no other dataflow uses.")
    ] = None,
) -> Shown:
    """Show where each task of a dataflow runs and why, what that costs, and what would cost less."""
    answer = client.explain_placement(dataflow, task=task)
    rows = ((task.task, task.job, task.host, task.image, task.tags, not task.own, task.why) for task in answer.tasks)
    columns = ("task", "job", "host", "image", "tags", "shared", "why")
    second = "" if answer.second is None else f", and the next cheapest {answer.second:.3f}"
    bound = "" if answer.bound is None else f", and none less than {answer.bound:.3f}"
    return Shown(
        data=answer,
        text=lines(
            table(*columns, rows=rows, empty="no tasks", wide=("image", "tags")),
            f"what is not shared costs {answer.cost:.3f} cores",
            f"the cheapest groups cost {answer.cheapest:.3f}{second}{bound}",
            *(f"a host of image {name} would save {saved:.3f} cores" for name, saved in answer.saves.items()),
            *(
                f"one more host that offers {more.tags} would save {more.host:.3f} cores, "
                f"and one more core in each {more.core:.3f}"
                for more in answer.more
            ),
            *([_elsewhere(task, answer.elsewhere)] if task is not None else ()),
        ),
    )


def _elsewhere(task: str, places: Sequence[OtherPlaceAnswer]) -> RenderableType:
    rows = (
        (
            place.tags,
            f"job {place.job}" if place.job else "" if place.joins else "a job of its own",
            place.joins,
            None if place.more is None else f"{place.more:.3f}",
            "; ".join(place.why_not),
        )
        for place in places
    )
    columns = ("tags", "in", "with", "costs more cores", "why not")
    return table(*columns, rows=rows, empty=f"{task} could be nowhere else")


@app.command("export")
@client_command
def export_placement(
    client: Client, dataflow: Id, folder: Annotated[Path, typer.Argument(help="The folder to write into.")] = Path()
) -> Shown:
    """Write where a dataflow may run as PDDL, for other planners: `domain.pddl` and `problem.pddl`."""
    answer = client.export_placement(dataflow)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("domain", answer.domain), ("problem", answer.problem)):
        (folder / f"{name}.pddl").write_text(text)
    return Shown(data=answer, text=f"{folder / 'domain.pddl'} and {folder / 'problem.pddl'} are written")


@app.command("import")
@client_command
def import_plan(
    client: Client,
    dataflow: Id,
    plan: Annotated[
        Path, typer.Argument(help="A file with the plan, a step in each line.", exists=True, dir_okay=False)
    ],
) -> Shown:
    """Show what a planner's plan makes of a dataflow, and what that costs; nothing is moved."""
    answer = client.check_placement_plan(dataflow, PlacementPlanForm(plan=plan.read_text()))
    rows = ((group.tags, group.tasks) for group in answer.groups)
    text = lines(
        table("tags", "tasks", rows=rows, empty="no tasks"),
        f"as if nothing else ran, this costs {answer.cost:.3f} cores, and the present groups {answer.now:.3f}",
    )
    return Shown(data=answer, text=text)
