"""The needs of dataflows: which jobs a dataflow runs in, and which plans these must run for it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from manager.committed.state import CommittedState
from manager.committer.committer import Committer
from manager.planner import public_id
from manager.reconciler.dataflow_life import Need
from merge import Instance, JobId, Submitted

_AT_ONCE = 500
"""Dataflows looked up while the committer is held once, so that no commit waits for thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowNeeds:
    """A dataflow with its needs; made by a `DataflowLookup`."""

    dataflow: str
    """The id that its tenant uses."""
    tenant: str
    needs: tuple[Need, ...]
    drains: bool = False
    """It will be removed once the events that its sources had sent are processed."""


class DataflowLookup(Protocol):
    """The running dataflows by their ids in the running graph, readable from any thread."""

    def every(self) -> frozenset[str]:
        """Return all running dataflows."""

    def draining(self) -> frozenset[str]:
        """Return the running dataflows that drain."""

    def in_jobs(self, jobs: Collection[str]) -> frozenset[str]:
        """Return the dataflows that have tasks in one of these jobs."""

    def needs(self, dataflows: Collection[str]) -> Mapping[str, DataflowNeeds]:
        """Return the needs of these dataflows, without those that no longer run."""


class CommittedDataflowLookup:
    """A `DataflowLookup` in the committed state."""

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
        return dict(self._needs(dataflows))

    def _needs(self, dataflows: Collection[str]) -> Iterator[tuple[str, DataflowNeeds]]:
        remaining = iter(dataflows)
        while some := tuple(islice(remaining, _AT_ONCE)):
            with self._committer.looking() as state:
                found = [(name, state.running.dataflows.get(name)) for name in some]
                yield from [
                    (
                        name,
                        DataflowNeeds(
                            dataflow=public_id(name),
                            tenant=submitted.tenant,
                            needs=tuple(needs_of(state, submitted)),
                            drains=name in state.drains,
                        ),
                    )
                    for name, submitted in found
                    if submitted is not None
                ]


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
