"""The commands that show what runs, and where: `braid jobs`, `hosts`, `operations`, `watch`, `placement`."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from manager.answers.jobs import OtherPlaceAnswer, PlacementPlanForm
from manager.answers.overview import OperationKind
from manager.cli import Id, Shown, client_command, lines, slashed, table
from manager.client.client import Client


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


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Show where a dataflow runs and why, and have other planners plan it.",
)


@app.callback()
def placement() -> None:
    """Say where a dataflow runs, and why."""


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
    rows = (
        (each.task, each.job, each.host, each.image, each.tags, "no" if each.own else "yes", each.why)
        for each in answer.tasks
    )
    columns = ("task", "job", "host", "image", "tags", "shared", "why")
    second = "" if answer.second is None else f", and the next cheapest {answer.second:.3f}"
    bound = "" if answer.bound is None else f", and none less than {answer.bound:.3f}"
    return Shown(
        data=answer,
        text=lines(
            table(*columns, rows=rows, empty="no tasks"),
            f"what is not shared costs {answer.cost:.3f} cores",
            f"the cheapest groups cost {answer.cheapest:.3f}{second}{bound}",
            *(f"a host of image {name} would save {saved:.3f} cores" for name, saved in answer.saves.items()),
            *(
                f"one more host that offers {each.tags} would save {each.host:.3f} cores, "
                f"and one more core in each {each.core:.3f}"
                for each in answer.more
            ),
            *([_elsewhere(task, answer.elsewhere)] if task is not None else ()),
        ),
    )


def _elsewhere(task: str, places: Sequence[OtherPlaceAnswer]) -> RenderableType:
    rows = (
        (
            each.tags,
            f"job {each.job}" if each.job else "" if each.joins else "a job of its own",
            each.joins,
            None if each.more is None else f"{each.more:.3f}",
            "; ".join(each.why_not),
        )
        for each in places
    )
    columns = ("tags", "in", "with", "costs more cores", "why not")
    return table(*columns, rows=rows, empty=f"{task} could be nowhere else")


@app.command("export")
@client_command
def export_placement(
    client: Client,
    dataflow: Id,
    folder: Annotated[Path, typer.Argument(help="The folder to write into.")] = Path(),
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
