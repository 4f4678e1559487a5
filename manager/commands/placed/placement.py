"""The commands about where dataflows run: explain."""

import typer

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
def explain(client: Client, dataflow: Id) -> Shown:
    """Show where each task of a dataflow runs and why, what that costs, and what would cost less."""
    answer = client.explain_placement(dataflow)
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
        ),
    )
