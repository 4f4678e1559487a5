"""Previews of drafts: documents that a tenant is still drawing, and that may have problems.

What is sound in a draft is merged, in thought, into what runs. So each task lights up as soon as it has all it needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from braid_client.answers.dataflows import FieldRead, InputPreview, TaskPreview
from dags import Dataflow, Schema
from dags.canonical.outlines import Outline, OutlinedTask
from dags.schema import Kind
from engine.plan import Plan
from manager.kernel.state import CommittedState
from manager.planner import Supplied
from merge import Explanation, Instance, explain
from merge.work import TaskEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPreview:
    """What is known of a draft; made by `preview_draft`."""

    outline: Outline
    sound: Dataflow
    """Its sound part as it may be merged into what runs."""
    explanation: Explanation
    """What submitting that part would do."""
    instances: tuple[Instance | None, ...]
    """For each of its distinct tasks where it runs; None where it would start."""
    plans: tuple[Plan, ...]
    """Those of all jobs that run."""
    sources: dict[str, Supplied]
    """The supply of each source that it reads."""


def preview_draft(state: CommittedState, outline: Outline, sound: Dataflow) -> DraftPreview:
    """The preview of an outlined draft, with its sound part as it may be merged into what runs."""
    sources = {task.config["source"] for task in sound.tasks if task.type.reads_source}
    return DraftPreview(
        outline=outline,
        sound=sound,
        explanation=explain(state.running, sound, datetime.now(UTC)),
        instances=tuple(state.running.index.get(task.key) for task in sound.tasks),
        plans=tuple(state.plans.values()),
        sources={source: state.sources[source].supplied for source in sources},
    )


def task_previews(draft: DraftPreview, estimates: Sequence[TaskEstimate]) -> Iterator[TaskPreview]:
    """Yield what is known of each task of a draft, given the estimate of each distinct task of its sound part."""
    since = {reuse.task: reuse.since for reuse in draft.explanation.reuses}
    for task in draft.outline.tasks:
        place = draft.sound.places.get(task.id)
        runs = None if place is None else task.id in since
        yield TaskPreview(
            id=task.id,
            runs=runs,
            since=since.get(task.id),
            cores=None if place is None or runs else round(estimates[place].busy, 6),
            inputs={port: _input(task, port) for port in task.inputs},
            outputs={port: _fields(schema) for port, schema in task.outputs.items()},
        )


def _input(task: OutlinedTask, port: str) -> InputPreview:
    return InputPreview(
        fields=_fields(task.inputs[port]),
        reads=tuple(
            FieldRead(field=read.field, kinds=tuple(sorted(read.kinds)), at=read.at)
            for read in task.reads
            if read.port == port
        ),
    )


def _fields(schema: Schema | None) -> dict[str, Kind] | None:
    return None if schema is None else {name: schema.fields[name] for name in schema.names()}
