"""Figures of a dataflow's tasks, as far as its tenant may know them: rates, load, state, and how many share each.

A task runs in one job, whose host reports counters of it. A source runs in none: the jobs that read it report how fast
it enters, and how many of its events wait. Of other dataflows no more is said than how many use the same task.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from braid_client.answers.dataflows import TaskFiguresAnswer, TaskState
from dags import State
from engine.plan import Bridged, Ingress, Plan
from manager.kernel.dataflow_life import Need, has_in_effect, needs_of, why_down
from manager.kernel.state import CommittedState, running_id
from manager.observations.figures import instance_rate, rounded, running_task_figures, stream_rate
from manager.observations.reports import HostSeen, JobSeen, Measured, Observations
from manager.planner import public_id
from manager.store.tables import DataflowRow
from manager.use_case import hour
from merge import Instance, JobId


class _JobOfTasks(NamedTuple):
    """A job that runs tasks of the dataflow."""

    need: Need
    plan: Plan
    seen: JobSeen | None

    @property
    def measured(self) -> Sequence[Measured]:
        return self.seen.measured if self.seen is not None else ()


def task_figures(
    state: CommittedState, row: DataflowRow, seeing: Observations, now: float
) -> tuple[TaskFiguresAnswer, ...]:
    """The figures of each task of a dataflow; none where it was removed."""
    submitted = state.running.dataflows.get(running_id(row.id, row.revision))
    if row.removed is not None or submitted is None:
        return ()
    hosts = {host.host: host for host in seeing.hosts()}
    jobs = [
        _JobOfTasks(need, state.plans[JobId(int(need.job))], seeing.job(need.job))
        for need in needs_of(state, submitted)
    ]
    by_instance = {instance: job for job in jobs for instance in job.need.instances}
    own = set(row.started)
    answers = []
    for task, instance in zip(row.task_ids, map(Instance, row.instances), strict=True):
        running, job = state.running.tasks[instance], by_instance.get(instance)
        condition, reason = _condition(instance, job, hosts)
        figures = _of_source(instance, jobs, now) if not running.inputs else _of_task(instance, job, now)
        if running.type.state is State.NONE:
            figures["state_bytes"] = None
        users = {public_id(user) for user in state.running.users[instance]}
        answers.append(
            TaskFiguresAnswer(
                id=task,
                state=condition,
                reason=reason,
                since=running.since if instance in own else hour(running.since),
                others=len(users - {row.id}),
                **figures,
            )
        )
    return tuple(answers)


def _condition(instance: int, job: _JobOfTasks | None, hosts: Mapping[str, HostSeen]) -> tuple[TaskState, str]:
    """The state of a task, and the reason if it is not well."""
    if job is None or job.seen is None:
        return TaskState.STARTING, ""
    if down := why_down(job.need, job.seen, hosts.get(job.need.host)):
        return TaskState.DOWN, down
    if (failed := job.seen.failed.get(instance)) is not None:
        return TaskState.FAILED, failed
    return (TaskState.RUNNING if has_in_effect(job.seen, job.need) else TaskState.STARTING), ""


def _of_task(instance: int, job: _JobOfTasks | None, now: float) -> dict[str, float | int | None]:
    if job is None or job.seen is None or not job.measured or not has_in_effect(job.seen, job.need):
        return {}
    last = job.measured[-1]
    did = last.instances.get(instance)
    return {
        **dict(running_task_figures(job.measured, instance, now)),
        "events_dead_per_second": rounded(instance_rate(job.measured, instance, lambda counted: counted.dead, now)),
        "events_dead": 0 if did is None else did.dead,
        "lag_events": _waiting(_bridges_of(instance, job.plan), last),
        "state_bytes": None if last.states is None else last.states.get(instance, 0),
    }


def _of_source(instance: int, jobs: Iterable[_JobOfTasks], now: float) -> dict[str, float | int | None]:
    """What the jobs that read a source say of it; one that has just started may say less than another."""
    rates, waiting = [], []
    for job in jobs:
        streams = [entering for entering in job.plan.ingress if entering.instance == instance]
        for entering in streams if job.measured else ():
            if (rate := stream_rate(job.measured, entering.stream, now)) is not None:
                rates.append(rate)
            if (count := _waiting(streams, job.measured[-1])) is not None:
                waiting.append(count)
    return {
        "events_out_per_second": rounded(max(rates, default=None)),
        "lag_events": max(waiting, default=None),
    }


def _bridges_of(instance: int, plan: Plan) -> Iterator[Ingress]:
    """The streams from other jobs that a task takes."""
    origins = {edge.origin for slot in plan.slots if slot.instance == instance for edge in slot.inputs}
    return (entry for entry in plan.ingress if isinstance(entry.supply, Bridged) and entry.origin in origins)


def _waiting(streams: Iterable[Ingress], last: Measured) -> int | None:
    """The events of some streams that wait in the spools of a job; None for a stream that it has not read yet."""
    known = [last.streams.get(entry.stream) for entry in streams]
    return None if None in known else sum(stream.lag_events for stream in known if stream is not None)
