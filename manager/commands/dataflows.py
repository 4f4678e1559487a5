"""Dataflows: submit, replace, remove, list, show, explain."""

from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import RenderableType

from manager.answers import (
    DataflowAnswer,
    DataflowState,
    OutputAnswer,
    RemovalAnswer,
    Saving,
    Start,
    Stop,
    SubmitAnswer,
    TaskAnswer,
)
from manager.client.client import Client
from manager.commands.client_command import File, Tenant, asks, read_file
from manager.commands.display import Shown, lines, moment, slashed, table
from merge import Basis

Id = Annotated[str, typer.Argument(help="The id of a dataflow.")]
Begins = Annotated[
    Start, typer.Option(help="Begin at what comes from now on, or at the earliest that is kept, sharing nothing.")
]


@asks
def submit(
    client: Client,
    file: File,
    tenant: Tenant = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="A key of your own: submitting again with it submits nothing more.")
    ] = None,
    start: Begins = Start.LATEST,
) -> Shown:
    """Submit a document, and say what is reused and where its outputs are found."""
    answer = client.submit(read_file(file), tenant=tenant, idempotency_key=idempotency_key, start=start)
    return Shown(data=answer, text=_submitted(answer))


@asks
def replace(client: Client, dataflow: Id, file: File) -> Shown:
    """Swap a dataflow's document for an edited one; what both have in common never stops."""
    answer = client.replace(dataflow, read_file(file))
    return Shown(data=answer, text=_submitted(answer))


@asks
def remove(
    client: Client,
    dataflow: Id,
    drain: Annotated[bool, typer.Option("--drain", help="After what its sources have sent by now.")] = False,  # noqa: FBT002 - a flag
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would stop; nothing is changed.")] = False,  # noqa: FBT002 - a flag
) -> Shown:
    """Remove a dataflow; what nobody else needs is paused."""
    if dry_run:
        preview = client.preview_removal(dataflow)
        return Shown(data=preview, text=_preview_text(preview))
    answer = client.remove(dataflow, Stop.DRAIN if drain else Stop.NOW)
    return Shown(data=answer, text=f"{answer.id} is {answer.state}")


@asks
def list_dataflows(  # noqa: PLR0913, PLR0917 - each is a filter
    client: Client,
    tenant: Annotated[str | None, typer.Option(help="Those of one tenant; for operators.")] = None,
    state: Annotated[DataflowState | None, typer.Option(help="Those in one state; removed ones only so.")] = None,
    name: Annotated[str | None, typer.Option(help="Those of one name.")] = None,
    source: Annotated[str | None, typer.Option(help="Those that read one source.")] = None,
    search: Annotated[str | None, typer.Option(help="Those with this in their name, or with this id.")] = None,
) -> Shown:
    """List dataflows, oldest first."""
    found = tuple(client.dataflows(tenant=tenant, state=state, name=name, source=source, search=search))
    rows = ((each.id, each.tenant, each.name, each.state, each.revision, each.submitted, each.reason) for each in found)
    columns = ("id", "tenant", "name", "state", "revision", "submitted", "reason")
    return Shown(data=found, text=table(*columns, rows=rows, empty="no dataflows"))


@asks
def show(client: Client, dataflow: Id) -> Shown:
    """Show a dataflow: its state, its tasks and where each runs, its outputs."""
    answer = client.dataflow(dataflow)
    return Shown(data=answer, text=lines(_headed(answer), _tasks(answer.tasks), _outputs(answer.outputs)))


@asks
def explain(client: Client, file: File, tenant: Tenant = None, start: Begins = Start.LATEST) -> Shown:
    """Say what submitting a document would reuse, start and save; nothing is changed."""
    answer = client.explain(read_file(file), tenant=tenant, start=start)
    text = lines(
        f"reuses {answer.saving.tasks} of {answer.saving.of_tasks} tasks{_work(answer.saving)}",
        f"saves about {answer.saving.cores:.3g} cores{_rests_on(answer.saving.rests_on)}",
        _tasks(answer.reused) if answer.reused else None,
        f"starts {', '.join(answer.started)}" if answer.started else None,
        *(f"runs as one: {', '.join(group)}" for group in answer.collapsed),
    )
    return Shown(data=answer, text=text)


def _work(saving: Saving) -> str:
    """Which part of the work that is, and what that rests on."""
    return "" if saving.work is None else f", {100 * saving.work:.0f} % of the work{_rests_on(saving.work_rests_on)}"


def _rests_on(counts: Mapping[Basis, int]) -> str:
    """Whether that was measured or assumed."""
    told = [f"{count} {basis}" for basis, count in counts.items() if count]
    return f" (tasks by what their cost rests on: {', '.join(told)})" if told else ""


def _submitted(answer: SubmitAnswer) -> RenderableType:
    return lines(
        _headed(answer),
        f"reuses {len(answer.reused)} tasks and starts {len(answer.started)}",
        _tasks(answer.reused + answer.started),
        _outputs(answer.outputs),
    )


def _preview_text(answer: RemovalAnswer) -> RenderableType:
    ending = ", ".join(f"{stream.task}.{stream.port}" for stream in answer.streams)
    return lines(
        f"removing {answer.dataflow} would stop {len(answer.stops)} tasks; {answer.goes_on} go on for others",
        _tasks(answer.stops) if answer.stops else None,
        f"forwarded no more: {ending}" if ending else None,
    )


def _headed(answer: DataflowAnswer) -> str:
    reason = f": {answer.reason}" if answer.reason else ""
    return f"{answer.id} “{answer.name}” of {answer.tenant}, revision {answer.revision}, is {answer.state}{reason}"


def _tasks(tasks: tuple[TaskAnswer, ...]) -> RenderableType:
    rows = (
        (
            each.id,
            each.type,
            each.instance or "",
            f"since {moment(each.since)}" if each.reused and each.since else each.reused,
            each.failed,
        )
        for each in tasks
    )
    return table("task", "type", "instance", "reused", "failed", rows=rows, empty="no tasks")


def _outputs(outputs: tuple[OutputAnswer, ...]) -> RenderableType:
    rows = ((each.sink, each.topic, slashed(each.latency_seconds_p50, each.latency_seconds_p99)) for each in outputs)
    return table("sink", "topic", "latency s p50/p99", rows=rows, empty="no outputs")
