"""Answers on dataflows: their state and their tasks, from the rows, the committed state and what was seen of jobs."""

import json
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

from bridge import topics
from dags import State as Remembers
from manager.answers import DataflowAnswer, DataflowState, OutputAnswer, Start, TaskAnswer
from manager.cases.base import hour, moment
from manager.committed.state import CommittedState, running_id
from manager.observations.figures import output_figures
from manager.observations.reports import HostSeen, Observations, received_of
from manager.reconciler.dataflow_life import Need, find
from manager.reconciler.dataflow_needs import needs_of
from manager.store.tables import DataflowRow
from merge import Instance

_REJECTS_SHOWN = 3600.0
"""Seconds for which a dataflow says that a source has rejected an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A dataflow in the committed state; made by `standing_of`."""

    needs: tuple[Need, ...] = ()
    since: Mapping[int, datetime] = field(default_factory=dict)
    """For each of its tasks with state when it was started, as exactly as a tenant may know."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The stream of each of its sources that belongs to its tenant."""


def standing_of(state: CommittedState, row: DataflowRow) -> Standing:
    """A dataflow of a row in the committed state; empty where it was removed."""
    if row.removed is not None:
        return Standing()
    tasks = (state.running.tasks.get(Instance(instance)) for instance in row.instances)
    running = state.running.dataflows.get(running_id(row.id, row.revision))
    sources = (state.sources.get(name) for name in row.sources)
    return Standing(
        sources={
            each.source.name: each.supplied.stream
            for each in sources
            if each is not None and each.source.owner == row.tenant
        },
        needs=tuple(needs_of(state, running)) if running is not None else (),
        since={task.instance: hour(task.since) for task in tasks if task and task.type.state is not Remembers.NONE},
    )


def dataflow_answer(
    row: DataflowRow, standing: Standing | None, observations: Observations, hosts: Mapping[str, HostSeen]
) -> DataflowAnswer:
    """The answer on a dataflow; `standing` is None where the committed state is not known."""
    state, reason = DataflowState.DEPLOYING, ""
    if row.removed is not None:
        state = DataflowState.REMOVED
    elif row.draining is not None:
        state, reason = DataflowState.DRAINING, "what its sources had sent is being worked off"
    elif standing is not None:
        jobs = {need.job: seen for need in standing.needs if (seen := observations.job(need.job)) is not None}
        found = find(standing.needs, jobs, hosts)
        state, reason = found.state, "; ".join(filter(None, (found.reason, _rejecting(standing, hosts.values()))))
    return DataflowAnswer(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        revision=row.revision,
        state=state,
        reason=reason,
        submitted=moment(row.submitted),
        start=Start(row.start),
        outputs=tuple(_output_answers(row, standing or Standing(), observations)),
    )


def _rejecting(standing: Standing, hosts: Collection[HostSeen]) -> str:
    """What its sources have rejected in the last hour, if they did: a sentence on the one that did so last."""
    found = ((name, received_of(stream, hosts)) for name, stream in standing.sources.items())
    last, text = time.time() - _REJECTS_SHOWN, ""
    for name, received in found:
        if received is not None and received.newest and (newest := received.newest[0]).at > last:
            events = f"{received.rejected:,} of {received.accepted + received.rejected:,} events"
            last, text = newest.at, f"the source {name} has rejected {events}, the last because {newest.reason}"
    return text


def task_answers(row: DataflowRow, standing: Standing, observations: Observations) -> tuple[TaskAnswer, ...]:
    """The answers on the tasks of a dataflow."""
    started, types = set(row.started), types_in(row.document)
    failed: dict[int, str] = {}
    for need in standing.needs:
        if (seen := observations.job(need.job)) is not None:
            failed |= {each: seen.failed[each] for each in need.instances & seen.failed.keys()}
    return tuple(
        TaskAnswer(
            id=task,
            type=types[task],
            instance=instance,
            reused=instance not in started,
            since=standing.since.get(instance) if instance not in started else None,
            failed=failed.get(instance, ""),
        )
        for task, instance in zip(row.task_ids, row.instances, strict=True)
    )


def types_in(document: bytes | str) -> dict[str, str]:
    """The type of each task of a document that was accepted."""
    return {task["id"]: task["type"] for task in json.loads(document)["tasks"]}


def _output_answers(row: DataflowRow, standing: Standing, observations: Observations) -> Iterator[OutputAnswer]:
    instances, now = dict(zip(row.task_ids, row.instances, strict=True)), time.monotonic()
    for sink in row.sinks:
        jobs = (observations.job(need.job) for need in standing.needs if instances[sink] in need.instances)
        measured = next((seen.measured for seen in jobs if seen is not None), ())
        figures = output_figures(measured, row.id, sink, now)
        yield OutputAnswer(sink=sink, topic=topics.output(row.tenant, row.id, sink), **asdict(figures))
