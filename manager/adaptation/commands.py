"""The commands about dynamic dataflows: `braid adapt show|policy|choose`."""

from typing import Annotated

import typer
from rich.console import RenderableType

from braid_client.answers.adaptations import AdaptationAnswer, AdaptiveTaskAnswer, AlternateAnswer
from braid_client.client import Client
from manager.cli import File, Id, Shown, WrongUsage, client_command, group, lines, read_file, table

app = group(help="Show and steer dataflows that adapt.")
_OPEN = {"open": True, "closed": False}


@app.command("show")
@client_command
def show(client: Client, dataflow: Id) -> Shown:
    """Show which alternates run, and by which figures."""
    return _shown(client.adaptation(dataflow))


@app.command("policy")
@client_command
def policy(client: Client, dataflow: Id, file: File) -> Shown:
    """Replace the policy while the dataflow runs."""
    return _shown(client.set_policy(dataflow, read_file(file)))


@app.command("choose")
@client_command
def choose(
    client: Client,
    dataflow: Id,
    chosen: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=CHOICE", help="A task and its alternate, or a stream and `open` or `closed`."),
    ] = None,
) -> Shown:
    """Choose by hand. Whatever is not named is left to the service again."""
    return _shown(client.choose(dataflow, dict(map(_pair, chosen or ()))))


def _pair(text: str) -> tuple[str, str | bool]:
    name, equals, choice = text.rpartition("=")
    if not equals or not name:
        raise WrongUsage(f"{text!r} is no choice; write NAME=CHOICE, such as forecast=tree or 'a>b=open'")
    return name, _OPEN.get(choice, choice) if ">" in name else choice


def _shown(answer: AdaptationAnswer) -> Shown:
    return Shown(data=answer, text=_text(answer))


def _text(answer: AdaptationAnswer) -> RenderableType:
    rows = [_row(task, alternate) for task in answer.tasks for alternate in task.alternates]
    streams = [(stream.stream, "open" if stream.open else "closed", stream.rule) for stream in answer.streams]
    figures = [
        f"{name} {value:.3g}"
        for name, value in (
            ("value", answer.value),
            ("throughput", answer.throughput),
            ("events/s", answer.rate),
            ("cores needed", answer.cores_needed),
            ("of", answer.cores),
        )
        if value is not None
    ]
    return lines(
        table("task", "alternate", "", "value", "µs an event", "out/in", "rule", rows=rows, empty="no alternates"),
        table("stream", "is", "rule", rows=streams, empty="no guarded streams") if streams else "",
        ", ".join(figures),
        answer.trouble,
    )


def _row(task: AdaptiveTaskAnswer, alternate: AlternateAnswer) -> tuple[object, ...]:
    state = "runs" if alternate.name == task.active else "" if alternate.permitted else "not permitted"
    cost = f"{alternate.cost:.3g}{'' if alternate.measured else ' declared'}"
    value, selectivity = f"{alternate.value:.3g}", f"{alternate.selectivity:.3g}"
    return task.task, alternate.name, state, value, cost, selectivity, task.rule
