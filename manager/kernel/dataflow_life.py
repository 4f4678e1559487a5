"""The life of a dataflow, as a table; what it needs of its jobs, and its state as observed.

A dataflow is deploying until every job that runs
one of its tasks has run the plan that it needs, and what they read is received. A failure makes it degraded; its
other tasks continue. Draining and removal are requested; every other event is observed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, islice
from types import MappingProxyType

from braid_client.answers.dataflows import DataflowState
from engine.host.spools import ELSEWHERE, UNSUBSCRIBED
from engine.job.lifecycle import JobState
from manager.kernel.committer import Committer
from manager.kernel.state import CommittedState
from manager.observations.reports import HostSeen, JobSeen
from manager.planner import public_id
from merge import Instance, JobId, Submitted


class DataflowEvent(StrEnum):
    """The events in the life of a dataflow."""

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
"""The changes that a tenant may request until the dataflow drains or is removed."""

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
    """An event that cannot happen to a dataflow in its state."""


def turn(state: DataflowState, event: DataflowEvent) -> DataflowState:
    """Return the state of a dataflow after an event.

    >>> turn(DataflowState.DEPLOYING, DataflowEvent.DEPLOYED)
    <DataflowState.RUNNING: 'running'>
    """
    after = DATAFLOW_LIFE[state].get(event)
    if after is None:
        raise ImpossibleDataflowTurn(f"a dataflow that is {state} cannot meet {event!r}")
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A dataflow's need of one job."""

    job: str
    host: str
    version: int
    """The first plan that has the dataflow's tasks; newer plans have them too."""
    instances: frozenset[int] = frozenset()
    """The dataflow's tasks in the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowFinding:
    """The state of a dataflow as observed."""

    state: DataflowState
    reason: str = ""
    """The reason why it is degraded or still deploying."""
    event: DataflowEvent
    """The event in the table that leads to this state."""


DRAINS = DataflowFinding(
    state=DataflowState.DRAINING, reason="what its sources had sent is being worked off", event=DataflowEvent.DRAIN
)
"""The state of a dataflow that is to drain, whatever state its jobs are in."""
REMOVED = DataflowFinding(state=DataflowState.REMOVED, event=DataflowEvent.REMOVE)
"""The state of a dataflow that is no longer submitted."""


def find(needs: Sequence[Need], jobs: Mapping[str, JobSeen], hosts: Mapping[str, HostSeen]) -> DataflowFinding:
    """Find the state of a dataflow that neither drains nor is removed, from its jobs and their hosts.

    A failure takes precedence over something that is awaited, because only a failure calls for action.
    """
    ordered = sorted(needs, key=lambda need: need.job)
    for need in ordered:
        if down := why_down(need, jobs.get(need.job), hosts.get(need.host)):
            return DataflowFinding(state=DataflowState.DEGRADED, reason=down, event=DataflowEvent.JOB_DOWN)
    for need in ordered:
        for reason in (*_failures(need, jobs.get(need.job)), *_unsupplied(need, jobs.get(need.job), hosts)):
            return DataflowFinding(state=DataflowState.DEGRADED, reason=reason, event=DataflowEvent.TASK_FAILED)
    for need in ordered:
        if (seen := jobs.get(need.job)) is None or not has_in_effect(seen, need):
            waits = f"job {need.job} has not run version {need.version} of its plan yet"
        elif unsaid := _unsaid(seen, hosts):
            waits = f"no host has said yet that it receives {', '.join(unsaid)} for job {need.job}"
        else:
            continue
        return DataflowFinding(state=DataflowState.DEPLOYING, reason=waits, event=DataflowEvent.JOB_BACK)
    return DataflowFinding(state=DataflowState.RUNNING, event=DataflowEvent.DEPLOYED)


def has_in_effect(seen: JobSeen, need: Need) -> bool:
    """Return true once a batch has run the needed plan on the needed host."""
    return seen.host == need.host and seen.in_effect >= need.version


def why_down(need: Need, seen: JobSeen | None, host: HostSeen | None) -> str:
    """Return the reason why a job will not fulfil a need by itself; empty if it will."""
    if host is not None and not host.alive:
        return f"host {need.host} is away; job {need.job} goes on where it was once the host is back"
    if seen is None:
        return ""
    if seen.host == need.host and seen.state == JobState.DIED:
        return f"job {need.job} died and is started again after a while: {seen.trouble or 'its host says no more'}"
    if seen.refused and seen.version < need.version:
        return f"host {need.host} refused the plan of job {need.job}: {seen.refused}"
    return ""


def path(state: DataflowState, finding: DataflowFinding) -> tuple[DataflowEvent, ...]:
    """Return the events that lead from a state to the one found; none if it is reached, or can no longer be.

    >>> path(DataflowState.DEGRADED, DataflowFinding(state=DataflowState.RUNNING, event=DataflowEvent.DEPLOYED))
    (<DataflowEvent.TASK_WELL: 'task well'>,)
    """
    if state in {finding.state, DataflowState.REMOVED}:
        return ()
    if state is DataflowState.DRAINING:
        return (DataflowEvent.GONE,) if finding.state is DataflowState.REMOVED else ()
    if finding.state in {DataflowState.DRAINING, DataflowState.REMOVED}:
        return (finding.event,)
    if state is DataflowState.DEGRADED:
        return (DataflowEvent.TASK_WELL if finding.state is DataflowState.RUNNING else DataflowEvent.JOB_BACK,)
    if finding.state is DataflowState.DEPLOYING:
        # Its needs have changed: it was replaced, or its tasks were moved.
        return (DataflowEvent.REPLACED,)
    return (finding.event,)


def passed(
    state: DataflowState | None, finding: DataflowFinding, *, replaced: bool = False
) -> tuple[DataflowState, ...]:
    """Return the states on the way to the one found, in order, without the first.

    A dataflow without a known state starts with deploying, and so does one that was replaced.

    >>> passed(None, DataflowFinding(state=DataflowState.RUNNING, event=DataflowEvent.DEPLOYED))
    (<DataflowState.DEPLOYING: 'deploying'>, <DataflowState.RUNNING: 'running'>)
    """
    if state is None:
        first = DataflowState.DEPLOYING
        return (first, *passed(first, finding))
    if replaced:
        anew = turn(state, DataflowEvent.REPLACED)
        return (*({anew} - {state}), *passed(anew, finding))
    return tuple(accumulate(path(state, finding), turn, initial=state))[1:]


def _failures(need: Need, seen: JobSeen | None) -> Iterator[str]:
    if seen is not None:
        for instance in sorted(need.instances & seen.failed.keys()):
            yield f"task instance {instance} in job {need.job} has failed: {seen.failed[instance]}"


def _unsupplied(need: Need, seen: JobSeen | None, hosts: Mapping[str, HostSeen]) -> Iterator[str]:
    """Yield the troubles with the streams that a job reads."""
    host = hosts.get(need.host)
    if seen is None or host is None:
        return
    for stream in sorted(seen.positions.keys() - host.supplied - host.unconnected):
        state = host.spools.get(stream, ELSEWHERE)
        if state == UNSUBSCRIBED:
            yield f"host {need.host} is not connected to the broker for {stream}, which job {need.job} reads"
        elif state != ELSEWHERE:
            yield f"host {need.host} receives nothing of {stream}, which job {need.job} reads: {state}"


def _unsaid(seen: JobSeen, hosts: Mapping[str, HostSeen]) -> Sequence[str]:
    """The streams that a job reads and of which no host says that it receives them, for itself or into their files."""
    host = hosts.get(seen.host)
    if host is None:
        return sorted(seen.positions)
    unsupplied = seen.positions.keys() - host.supplied - host.unconnected
    elsewhere = {stream for stream in unsupplied if host.spools.get(stream) == ELSEWHERE}
    return sorted(unsupplied.difference(*(elsewhere & other.supplied for other in hosts.values())))


_AT_ONCE = 500
"""Dataflows looked up while the committer is held once, so that no commit waits for thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowNeeds:
    """A dataflow with its needs."""

    dataflow: str
    """The id that its tenant uses."""
    tenant: str
    needs: tuple[Need, ...]
    drains: bool = False
    """It will be removed once the events that its sources had sent are processed."""


class CommittedDataflowLookup:
    """The running dataflows by their ids in the running graph, readable from any thread."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def every(self) -> frozenset[str]:
        """Return all running dataflows."""
        with self._committer.looking() as state:
            return frozenset(state.running.dataflows)

    def draining(self) -> frozenset[str]:
        """Return the running dataflows that drain."""
        with self._committer.looking() as state:
            return frozenset(state.drains)

    def in_jobs(self, jobs: Collection[str]) -> frozenset[str]:
        """Return the dataflows that have tasks in one of these jobs."""
        with self._committer.looking() as state:
            placed = (state.jobs.jobs.get(JobId(int(job))) for job in jobs if job.isdecimal())
            instances = (instance for job in placed if job is not None for instance in job.active)
            return frozenset(user for instance in instances for user in state.running.users.get(instance, ()))

    def needs(self, dataflows: Collection[str]) -> Mapping[str, DataflowNeeds]:
        """Return the needs of these dataflows, without those that no longer run."""
        needs: dict[str, DataflowNeeds] = {}
        remaining = iter(dataflows)
        while some := tuple(islice(remaining, _AT_ONCE)):
            with self._committer.looking() as state:
                for name in some:
                    if (submitted := state.running.dataflows.get(name)) is not None:
                        needs[name] = DataflowNeeds(
                            dataflow=public_id(name),
                            tenant=submitted.tenant,
                            needs=tuple(needs_of(state, submitted)),
                            drains=name in state.drains,
                        )
        return needs


def needs_of(state: CommittedState, submitted: Submitted) -> Iterator[Need]:
    """Yield a dataflow's needs, one for each job that runs one of its tasks."""
    versions = state.needed.get(submitted.id, {})
    instances: dict[JobId, set[int]] = {}
    for instance in map(Instance, submitted.instances):
        if (home := state.jobs.homes.get(instance)) is not None:
            instances.setdefault(home.job, set()).add(instance)
    for job, there in sorted(instances.items()):
        if (plan := state.plans.get(job)) is not None:
            # Until the cut, the plan before is as good.
            newest = plan.version - 1 if plan.at_cut else plan.version
            yield Need(job=str(job), host=plan.host, version=versions.get(job, newest), instances=frozenset(there))
