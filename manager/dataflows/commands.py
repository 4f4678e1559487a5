"""The commands about dataflows: submit, replace, remove, list, show, explain."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.console import RenderableType

from braid_client.answers.dataflows import (
    BundleAnswer,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    DataflowTasksAnswer,
    ExplainAnswer,
    OutputAnswer,
    RemovalAnswer,
    Saving,
    Start,
    Stop,
    SubmitAnswer,
    TaskAnswer,
)
from braid_client.client import Client
from dags.vocabulary import Basis
from manager.cli import (
    File,
    Id,
    Quiet,
    Shown,
    ShownLine,
    Tenant,
    client_command,
    counted,
    fields,
    lines,
    listing,
    moment,
    number,
    progress,
    read_file,
    slashed,
    table,
    waited,
)
from manager.exit_codes import ExitCode
from manager.pipelines.commands import plan_text

_BASES = {Basis.MEASURED: "measured", Basis.TYPE: "by type", Basis.ASSUMED: "assumed"}
Files = Annotated[list[Path], typer.Argument(help="JSON files; - is standard input.")]
StartOption = Annotated[
    Start, typer.Option(help="The first events: from now on, or the earliest that are kept, which shares nothing.")
]


class FirstSign(StrEnum):
    """What can be waited for of a dataflow that starts."""

    RUNNING = "running"
    EVENT = "event"


Wait = Annotated[bool, typer.Option("--wait", help="Wait until it runs, for two minutes at most.")]
UntilSign = Annotated[
    FirstSign | None, typer.Option("--until", help="Wait until it runs, or until its first event has left it.")
]


@client_command
def submit(  # noqa: PLR0913 - each is an option
    client: Client,
    file: Files,
    *,
    tenant: Tenant = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Your own key: a second submission with it does nothing.")
    ] = None,
    start: StartOption = Start.LATEST,
    wait: Wait = False,
    until: UntilSign = None,
    quiet: Quiet = False,
) -> Iterator[Shown]:
    """Submit a document, or several together; show what they reuse, and the topics of their outputs."""
    documents = [read_file(path) for path in file]
    with progress("submitting, and planning what is open"):
        if len(documents) > 1:
            bundle = client.submit_together(documents, tenant=tenant, idempotency_key=idempotency_key, start=start)
            begun = bundle.dataflows
        else:
            begun = (client.submit(documents[0], tenant=tenant, idempotency_key=idempotency_key, start=start),)
    yield from _begun(client, *begun, until=until or (FirstSign.RUNNING if wait else None), quiet=quiet)


@client_command
def replace(  # noqa: PLR0913 - each is an option
    client: Client,
    dataflow: Id,
    file: File,
    *,
    if_match: Annotated[
        str | None,
        typer.Option(
            metavar="TAG",
            help="Only if its document still has this tag, as `braid show` says; else show what others have changed.",
        ),
    ] = None,
    wait: Wait = False,
    until: UntilSign = None,
    quiet: Quiet = False,
) -> Iterator[Shown]:
    """Replace a dataflow's document by an edited one; their common tasks keep running."""
    document = read_file(file)
    with progress("replacing, and planning what is open"):
        answer = client.replace(dataflow, document, if_match=if_match)
    yield from _begun(client, answer, until=until or (FirstSign.RUNNING if wait else None), quiet=quiet)


@client_command
def remove(
    client: Client,
    dataflow: Id,
    drain: Annotated[bool, typer.Option("--drain", help="First process what its sources have sent so far.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would stop.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is drained; see --drain.")] = False,
) -> Iterator[Shown]:
    """Remove a dataflow; tasks that no other dataflow uses are paused."""
    if dry_run:
        preview = client.preview_removal(dataflow)
        yield Shown(data=preview, text=_preview_text(preview))
        return
    answer = client.remove(dataflow, Stop.DRAIN if drain else Stop.NOW)
    if wait:
        answer = waited(answer, lambda now: client.dataflow(now.id), _drains)
    yield Shown(data=answer, text=f"{answer.id} is {answer.state}")
    if wait and answer.state is not DataflowState.REMOVED:
        raise typer.Exit(ExitCode.LATER)


@client_command
def list_dataflows(  # noqa: PLR0913, PLR0917 - each is a filter
    client: Client,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant; for operators.")] = None,
    state: Annotated[
        DataflowState | None, typer.Option(help="Only in this state; needed to list removed ones.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only with this name.")] = None,
    source: Annotated[str | None, typer.Option(help="Only those that read this source.")] = None,
    search: Annotated[str | None, typer.Option(help="Only with this text in their name, or with this id.")] = None,
    quiet: Quiet = False,
) -> Shown:
    """List dataflows, oldest first."""
    dataflows = tuple(client.dataflows(tenant=tenant, state=state, name=name, source=source, search=search))
    if quiet:
        return _ids(dataflows, dataflows)
    columns = ("id", "tenant", "name", "state", "revision", "submitted", "reason")
    return listing(
        dataflows, "no dataflows", lambda dataflow: fields(dataflow, *columns), wide=("revision", "submitted")
    )


@client_command
def show(
    client: Client,
    dataflow: Id,
    tasks: Annotated[
        bool, typer.Option("--tasks", help="Only what is measured of its tasks, and how many others share each.")
    ] = False,
) -> Shown:
    """Show a dataflow: its state, tasks and outputs."""
    if tasks:
        measured = client.dataflow_tasks(dataflow)
        return Shown(data=measured, text=_figures(measured))
    answer = client.dataflow(dataflow)
    return Shown(
        data=answer,
        text=lines(
            _heading(answer),
            f"its document has the tag {answer.tag}",
            _tasks(answer.tasks),
            _outputs(answer.outputs),
            *_given_up(answer),
        ),
    )


@client_command
def explain(client: Client, file: Files, tenant: Tenant = None, start: StartOption = Start.LATEST) -> Shown:
    """Show what submitting a document, or several together, would reuse, start and save, without submitting it."""
    documents = [read_file(path) for path in file]
    if len(documents) > 1:
        bundle = client.explain_together(documents, tenant=tenant, start=start)
        answers = zip(file, bundle.documents, strict=True)
        parts = (part for path, answer in answers for part in (f"{path}:", _explained(answer)))
        return Shown(data=bundle, text=lines(*parts, f"together they start {counted(bundle.started, 'task')}"))
    answer = client.explain(documents[0], tenant=tenant, start=start)
    return Shown(data=answer, text=_explained(answer))


def _begun(client: Client, *dataflows: SubmitAnswer, until: FirstSign | None, quiet: bool) -> Iterator[Shown]:
    """Show dataflows that were submitted, once they show the sign; the exit code says whether they do."""

    def waits_for(now: Iterable[DataflowAnswer]) -> str | None:
        return next((words for one in now if (words := _waits(one, until)) is not None), None)

    if until is not None:
        dataflows = waited(
            dataflows,
            lambda now: tuple(one if _waits(one, until) is None else _up_to_date(client, one) for one in now),
            waits_for,
        )
    data = dataflows[0] if len(dataflows) == 1 else BundleAnswer(dataflows=dataflows)
    yield _ids(data, dataflows) if quiet else Shown(data=data, text=lines(*map(_submitted, dataflows)))
    is_running = all(dataflow.state is DataflowState.RUNNING for dataflow in dataflows)
    if until is not None and not (is_running and waits_for(dataflows) is None):
        raise typer.Exit(ExitCode.LATER)


def _ids(data: BaseModel | Sequence[BaseModel], dataflows: Iterable[DataflowAnswer]) -> Shown:
    return ShownLine(data=data, text="\n".join(dataflow.id for dataflow in dataflows))


def _up_to_date(client: Client, dataflow: SubmitAnswer) -> SubmitAnswer:
    now = client.dataflow(dataflow.id)
    return dataflow.model_copy(update={"state": now.state, "reason": now.reason, "outputs": now.outputs})


def _waits(dataflow: DataflowAnswer, until: FirstSign | None) -> str | None:
    """What a dataflow that starts waits for; None if it shows the sign, or will not."""
    if dataflow.state is DataflowState.DEPLOYING:
        return f"{dataflow.id} starts: {dataflow.reason}"
    if dataflow.state is DataflowState.DEGRADED:
        # Its host may only begin, or a job start again.
        return f"{dataflow.id} is degraded: {dataflow.reason}"
    # How long an event took is known as soon as one has left.
    is_awaited = until is FirstSign.EVENT and all(out.latency_seconds_p50 is None for out in dataflow.outputs)
    if is_awaited and dataflow.state is DataflowState.RUNNING:
        return f"{dataflow.id} runs; no event has left it yet"
    return None


def _drains(dataflow: DataflowAnswer) -> str | None:
    return f"{dataflow.id} drains" if dataflow.state is DataflowState.DRAINING else None


def _explained(answer: ExplainAnswer) -> RenderableType:
    return lines(
        f"reuses {answer.saving.tasks} of {answer.saving.of_tasks} tasks",
        *_saving(answer.saving),
        _tasks(answer.reused) if answer.reused else None,
        f"starts {', '.join(answer.started)}" if answer.started else None,
        *(f"runs as one: {', '.join(group)}" for group in answer.collapsed),
        None if answer.plan is None else plan_text(answer.plan),
    )


def _saving(saving: Saving) -> Iterator[str]:
    """The predicted saving, and its basis."""
    if saving.work_by_sharing is not None and saving.cores_by_sharing is not None:
        yield f"work saved by sharing: about {100 * saving.work_by_sharing:.0f} %{_basis(saving.work_rests_on)}"
        yield f"cores saved by sharing: about {number(saving.cores_by_sharing)}{_basis(saving.rests_on)}"
    yield f"cores saved by packing: about {number(saving.cores_by_packing)}"


def _basis(counts: Mapping[Basis, int]) -> str:
    """The basis of an estimate: how many tasks have a measured cost, one by their type, or an assumed one."""
    counts_by_name = [f"{count} {_BASES[basis]}" for basis, count in counts.items() if count]
    return f" (task costs: {', '.join(counts_by_name)})" if counts_by_name else ""


def _submitted(answer: SubmitAnswer) -> RenderableType:
    return lines(
        _heading(answer),
        f"reuses {counted(len(answer.reused), 'task')}, starts {len(answer.started)}",
        _tasks(answer.reused + answer.started),
        _outputs(answer.outputs),
    )


def _preview_text(answer: RemovalAnswer) -> RenderableType:
    streams = ", ".join(f"{stream.task}.{stream.port}" for stream in answer.streams)
    return lines(
        f"removing {answer.dataflow} would stop {counted(len(answer.stops), 'task')}; {answer.goes_on} would keep "
        "running for others",
        _tasks(answer.stops) if answer.stops else None,
        f"no longer forwarded: {streams}" if streams else None,
    )


def _heading(answer: DataflowAnswer) -> str:
    reason = f": {answer.reason}" if answer.reason else ""
    return f"{answer.id} “{answer.name}” of {answer.tenant}, revision {answer.revision}, is {answer.state}{reason}"


def _tasks(tasks: tuple[TaskAnswer, ...]) -> RenderableType:
    reused = (f"since {moment(task.since)}" if task.reused and task.since else task.reused for task in tasks)
    rows = (
        (task.id, task.type, task.instance or "", how, task.failed) for task, how in zip(tasks, reused, strict=True)
    )
    return table("task", "type", "instance", "reused", "failed", rows=rows, empty="no tasks")


def _figures(answer: DataflowTasksAnswer) -> RenderableType:
    rows = (
        (
            task.id,
            f"{task.state}: {task.reason}" if task.reason else task.state,
            slashed(task.events_in_per_second, task.events_out_per_second),
            task.cores,
            task.lag_events,
            task.events_dead,
            task.state_bytes,
            task.others,
        )
        for task in answer.tasks
    )
    columns = ("task", "state", "events/s in/out", "cores", "waiting", "failed on", "state bytes", "shared with")
    return table(*columns, rows=rows, empty="no tasks")


def _given_up(answer: DataflowDetail) -> Iterator[str]:
    for module in answer.given_up:
        yield f"{module.module} was given up at {moment(module.at)}: {module.reason}; {module.outcome}"
    if answer.unplanned:
        yield f"not planned again: {answer.unplanned}"


def _outputs(outputs: tuple[OutputAnswer, ...]) -> RenderableType:
    # An output in another format has its envelopes beside that.
    rows = (
        (
            out.sink,
            out.also_on or out.topic,
            slashed(out.latency_seconds_p50, out.latency_seconds_p99),
            out.left_out and f"{out.left_out.count:,}, the last because {out.left_out.reason}",
        )
        for out in outputs
    )
    return table("sink", "topic", "latency s p50/p99", "left out", rows=rows, empty="no outputs")
