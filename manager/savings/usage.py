"""Usage: which dataflows use which tasks, jobs and bridges at one moment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from manager.committed.sources import Registered
from manager.committed.state import CommittedState
from manager.planner import public_id
from merge import Instance, Jobs, RunningTask, Submitted

Users = tuple[str, ...]
"""Dataflows, by the ids that their tenants use, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of everything that runs; made by `usage_of`. The empty one is that of nothing."""

    tenants: Mapping[str, str] = field(default_factory=dict)
    """The tenant of each dataflow."""
    tasks: Mapping[int, Users] = field(default_factory=dict)
    """The users of each instance, without sources, which do no work."""
    jobs: Mapping[str, Users] = field(default_factory=dict)
    """The dataflows with tasks in each job."""
    homes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The jobs with tasks of each dataflow."""
    streams: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The raw streams that each dataflow reads."""
    bridges: tuple[Users, ...] = ()
    """The users of each bridge."""
    paused: int = 0
    """The number of paused tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSnapshot:
    """The parts of the state that `usage_of` needs, copied so that the state may change; made by `running_snapshot`."""

    dataflows: Mapping[str, Submitted]
    tasks: Mapping[Instance, RunningTask]
    sources: Mapping[str, Registered]
    jobs: Jobs


def running_snapshot(state: CommittedState) -> RunningSnapshot:
    """Copy the state quickly, while nothing is committed."""
    running = state.running
    return RunningSnapshot(
        dataflows=dict(running.dataflows), tasks=dict(running.tasks), sources=dict(state.sources), jobs=state.jobs
    )


def usage_of(running: RunningSnapshot) -> Usage:
    """Compute the usage."""
    tenants: dict[str, str] = {}
    tasks: dict[int, list[str]] = {}
    jobs: dict[str, list[str]] = {}
    homes: dict[str, frozenset[str]] = {}
    streams: dict[str, frozenset[str]] = {}
    for submitted in sorted(running.dataflows.values(), key=lambda each: each.id):
        dataflow = public_id(submitted.id)
        tenants[dataflow] = submitted.tenant
        working = [each for each in set(submitted.instances) if running.tasks[each].inputs]
        for instance in working:
            tasks.setdefault(instance, []).append(dataflow)
        homes[dataflow] = frozenset(str(running.jobs.homes[instance].job) for instance in working)
        for job in homes[dataflow]:
            jobs.setdefault(job, []).append(dataflow)
        streams[dataflow] = frozenset(_streams(running, submitted))
    return Usage(
        tenants=tenants,
        tasks={instance: tuple(users) for instance, users in tasks.items()},
        jobs={job: tuple(users) for job, users in jobs.items()},
        homes=homes,
        streams=streams,
        bridges=tuple(
            tuple(each for each in tasks[bridge.parent] if str(bridge.to) in homes[each])
            for bridge in sorted(running.jobs.bridges)
            # Raw streams need no bridge: every job reads them from their spools.
            if running.tasks[bridge.parent].inputs
        ),
        paused=sum(len(job.paused) for job in running.jobs.jobs.values()),
    )


def usage_between(before: Usage, after: Usage) -> Usage:
    """Return the usage between two moments: that of the second, and that of the first for what has ended since."""
    return Usage(
        tenants={**before.tenants, **after.tenants},
        tasks={**before.tasks, **after.tasks},
        jobs={**before.jobs, **after.jobs},
        homes={**before.homes, **after.homes},
        streams={**before.streams, **after.streams},
        bridges=after.bridges,
        paused=after.paused,
    )


def _streams(running: RunningSnapshot, dataflow: Submitted) -> Iterable[str]:
    for part in dataflow.parts:
        for source in part:
            yield running.sources[running.tasks[source].config["source"]].supplied.stream
