"""Using: which dataflows use which task, job and bridge at one moment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from manager.committed.sources import Registered
from manager.committed.state import State
from manager.planner import public_id
from merge import Instance, Jobs, RunningTask, Submitted

Users = tuple[str, ...]
"""Ids of dataflows, as their tenants call them, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Who uses what; made by `use_of`. Begin with the empty one, of which nothing runs."""

    tenants: Mapping[str, str] = field(default_factory=dict)
    """Whose each dataflow is."""
    tasks: Mapping[int, Users] = field(default_factory=dict)
    """Who uses each instance; sources do nothing themselves, and are not among them."""
    jobs: Mapping[str, Users] = field(default_factory=dict)
    """Who has tasks in each job."""
    homes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For each dataflow the jobs that have its tasks."""
    streams: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For each dataflow the raw streams that it reads."""
    bridges: tuple[Users, ...] = ()
    """Who uses each bridge."""
    paused: int = 0
    """How many tasks stand in plans that nobody needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What `use_of` looks at, of a state that may go on meanwhile; made by `running_now`."""

    dataflows: Mapping[str, Submitted]
    tasks: Mapping[Instance, RunningTask]
    sources: Mapping[str, Registered]
    jobs: Jobs


def running_now(state: State) -> Running:
    """A picture of what runs; taken while nothing is committed, and quickly."""
    running = state.running
    return Running(
        dataflows=dict(running.dataflows), tasks=dict(running.tasks), sources=dict(state.sources), jobs=state.jobs
    )


def use_of(running: Running) -> Use:
    """Who uses what."""
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
    return Use(
        tenants=tenants,
        tasks={instance: tuple(users) for instance, users in tasks.items()},
        jobs={job: tuple(users) for job, users in jobs.items()},
        homes=homes,
        streams=streams,
        bridges=tuple(
            tuple(each for each in tasks[bridge.parent] if str(bridge.to) in homes[each])
            for bridge in sorted(running.jobs.bridges)
            # Raw streams are read from their spools wherever they are needed.
            if running.tasks[bridge.parent].inputs
        ),
        paused=sum(len(job.paused) for job in running.jobs.jobs.values()),
    )


def both(before: Use, after: Use) -> Use:
    """Who used what between two moments: as it is at the second, or was at the first where nobody does any more."""
    return Use(
        tenants={**before.tenants, **after.tenants},
        tasks={**before.tasks, **after.tasks},
        jobs={**before.jobs, **after.jobs},
        homes={**before.homes, **after.homes},
        streams={**before.streams, **after.streams},
        bridges=after.bridges,
        paused=after.paused,
    )


def _streams(running: Running, dataflow: Submitted) -> Iterable[str]:
    for part in dataflow.parts:
        for source in part:
            yield running.sources[running.tasks[source].config["source"]].supplied.stream
