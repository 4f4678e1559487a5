"""The commands about where dataflows run: explain, and have other planners plan it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from manager.answers import OtherPlaceAnswer, PlacementPlanForm
from manager.client.client import Client
from manager.commands.client_command import client_command
from manager.commands.dataflows import Id
from manager.commands.display import Shown, lines, table

app = typer.Typer(no_args_is_help=True, add_completion=False)


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
