"""The life of a dataflow, as a table, and what is seen of it.

A dataflow is deploying until every job that runs one of its tasks has run the plan that it needs. What goes wrong
afterwards, or meanwhile, makes it degraded: its other tasks go on. To drain and to remove is asked for; all else is
seen.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from types import MappingProxyType

from engine.job.lifecycle import JobState
from manager.answers import DataflowState
from manager.observations.reports import HostSeen, JobSeen


class DataflowEvent(StrEnum):
    """What happens to a dataflow."""

    DEPLOYED = "deployed"
    TASK_FAILED = "task failed"
    TASK_WELL = "task well"
    JOB_DOWN = "job down"
    JOB_BACK = "job back"
    REPLACED = "replaced"
    DRAIN = "drain"
    REMOVE = "remove"
    GONE = "gone"


_CHANGES = {
    DataflowEvent.REPLACED: DataflowState.DEPLOYING,
    DataflowEvent.DRAIN: DataflowState.DRAINING,
    DataflowEvent.REMOVE: DataflowState.REMOVED,
}
"""What a tenant may ask for at any time until it has asked for the end."""

DATAFLOW_LIFE: Mapping[DataflowState, Mapping[DataflowEvent, DataflowState]] = MappingProxyType(
    {
        DataflowState.DEPLOYING: {
            DataflowEvent.DEPLOYED: DataflowState.RUNNING,
            DataflowEvent.TASK_FAILED: DataflowState.DEGRADED,
            DataflowEvent.JOB_DOWN: DataflowState.DEGRADED,
            **_CHANGES,
        },
        DataflowState.RUNNING: {
            DataflowEvent.TASK_FAILED: DataflowState.DEGRADED,
            DataflowEvent.JOB_DOWN: DataflowState.DEGRADED,
            **_CHANGES,
        },
        DataflowState.DEGRADED: {
            DataflowEvent.TASK_WELL: DataflowState.RUNNING,
            DataflowEvent.JOB_BACK: DataflowState.DEPLOYING,
            **_CHANGES,
        },
        DataflowState.DRAINING: {
            DataflowEvent.GONE: DataflowState.REMOVED,
            DataflowEvent.REMOVE: DataflowState.REMOVED,
        },
        DataflowState.REMOVED: {},
    }
)


class ImpossibleDataflowTurn(RuntimeError):
    """Something happened to a dataflow that cannot happen where it is."""


def turn(state: DataflowState, event: DataflowEvent) -> DataflowState:
    """Where a dataflow is after an event.

    >>> turn(DataflowState.DEPLOYING, DataflowEvent.DEPLOYED)
    <DataflowState.RUNNING: 'running'>
    """
    after = DATAFLOW_LIFE[state].get(event)
    if after is None:
        raise ImpossibleDataflowTurn(f"a dataflow that is {state} cannot meet {event!r}")
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a dataflow needs of one job; made by whoever knows the committed state."""

    job: str
    host: str
    version: int
    """The plan with which its tasks came there; any newer one has them too."""
    instances: frozenset[int] = frozenset()
    """Its tasks there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowFinding:
    """How a dataflow is, as far as it is seen; made by `find`."""

    state: DataflowState
    reason: str = ""
    """What it waits for, or why it is degraded."""
    event: DataflowEvent
    """What the table calls it."""


DRAINS = DataflowFinding(
    state=DataflowState.DRAINING, reason="what its sources had sent is being worked off", event=DataflowEvent.DRAIN
)
"""How a dataflow is that was asked to drain, however its jobs are."""
REMOVED = DataflowFinding(state=DataflowState.REMOVED, event=DataflowEvent.REMOVE)
"""How one is that nobody submits any more."""


def find(needs: Sequence[Need], jobs: Mapping[str, JobSeen], hosts: Mapping[str, HostSeen]) -> DataflowFinding:
    """How a dataflow that is neither draining nor removed is, by what is seen of its jobs and their hosts.

    What is wrong comes before what is awaited, because only that needs somebody to do something.
    """
    ordered = sorted(needs, key=lambda need: need.job)
    for need in ordered:
        if down := why_down(need, jobs.get(need.job), hosts.get(need.host)):
            return DataflowFinding(state=DataflowState.DEGRADED, reason=down, event=DataflowEvent.JOB_DOWN)
    for need in ordered:
        for reason in _failures(need, jobs.get(need.job)):
            return DataflowFinding(state=DataflowState.DEGRADED, reason=reason, event=DataflowEvent.TASK_FAILED)
    for need in ordered:
        if (seen := jobs.get(need.job)) is None or not has_in_effect(seen, need):
            waits = f"job {need.job} has not run version {need.version} of its plan yet"
            return DataflowFinding(state=DataflowState.DEPLOYING, reason=waits, event=DataflowEvent.JOB_BACK)
    return DataflowFinding(state=DataflowState.RUNNING, event=DataflowEvent.DEPLOYED)


def has_in_effect(seen: JobSeen, need: Need) -> bool:
    """Whether a batch has run the plan that is needed, on the host where it is."""
    return seen.host == need.host and seen.in_effect >= need.version


def why_down(need: Need, seen: JobSeen | None, host: HostSeen | None) -> str:
    """What keeps a job from doing what is needed of it, where it will not come by itself; else nothing."""
    if host is not None and not host.alive:
        return f"host {need.host} is away; job {need.job} goes on where it was once the host is back"
    if seen is None:
        return ""
    if seen.host == need.host and seen.state == JobState.DIED:
        return f"job {need.job} died and is started again after a while: {seen.trouble or 'its host says no more'}"
    if seen.refused and seen.version < need.version:
        return f"host {need.host} refused the plan of job {need.job}: {seen.refused}"
    return ""


def path(state: DataflowState, found: DataflowFinding) -> tuple[DataflowEvent, ...]:
    """The events that lead from a state to what is found; none where it is there already, or where all is decided.

    >>> path(DataflowState.DEGRADED, DataflowFinding(state=DataflowState.RUNNING, event=DataflowEvent.DEPLOYED))
    (<DataflowEvent.TASK_WELL: 'task well'>,)
    """
    if state in {found.state, DataflowState.REMOVED}:
        return ()
    if state is DataflowState.DRAINING:
        return (DataflowEvent.GONE,) if found.state is DataflowState.REMOVED else ()
    if found.state in {DataflowState.DRAINING, DataflowState.REMOVED}:
        return (found.event,)
    if state is DataflowState.DEGRADED:
        return (DataflowEvent.TASK_WELL if found.state is DataflowState.RUNNING else DataflowEvent.JOB_BACK,)
    if found.state is DataflowState.DEPLOYING:
        # What it needs has changed: it got another document, or its tasks went elsewhere.
        return (DataflowEvent.REPLACED,)
    return (found.event,)


def passed(state: DataflowState | None, found: DataflowFinding, *, replaced: bool = False) -> tuple[DataflowState, ...]:
    """The states that a dataflow comes through to what is found, in their order, the one that it was in left out.

    Where none is known it begins to deploy. One that was replaced deploys anew.

    >>> passed(None, DataflowFinding(state=DataflowState.RUNNING, event=DataflowEvent.DEPLOYED))
    (<DataflowState.DEPLOYING: 'deploying'>, <DataflowState.RUNNING: 'running'>)
    """
    if state is None:
        first = DataflowState.DEPLOYING
        return (first, *passed(first, found))
    if replaced:
        anew = turn(state, DataflowEvent.REPLACED)
        return (*({anew} - {state}), *passed(anew, found))
    return tuple(accumulate(path(state, found), turn, initial=state))[1:]


def _failures(need: Need, seen: JobSeen | None) -> Iterator[str]:
    if seen is not None:
        for instance in sorted(need.instances & seen.failed.keys()):
            yield f"task instance {instance} in job {need.job} does nothing but fail: {seen.failed[instance]}"
