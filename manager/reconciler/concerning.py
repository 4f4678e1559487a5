"""Which dataflows a job concerns, and what each needs of its jobs, by the committed state."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from manager.committed.state import State
from manager.committer.committer import Committer
from manager.planner import public_id
from manager.reconciler.dataflow_life import Need
from merge import Instance, JobId, Submitted

_AT_ONCE = 500
"""Dataflows that are looked up in one hold of the committer, so that no commit waits for thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concerned:
    """A dataflow, and what it needs of its jobs."""

    dataflow: str
    """As its tenant knows it."""
    tenant: str
    needs: tuple[Need, ...]
    drains: bool = False
    """Whether it is to be removed once what its sources had sent is worked off."""


class Concerning(Protocol):
    """Who knows which dataflows run where; from any thread. Dataflows go by the running graph's ids."""

    def every(self) -> frozenset[str]:
        """The dataflows that run."""

    def draining(self) -> frozenset[str]:
        """Those of them that drain."""

    def in_jobs(self, jobs: Collection[str]) -> frozenset[str]:
        """Those that have tasks in one of these jobs."""

    def concerned(self, dataflows: Collection[str]) -> Mapping[str, Concerned]:
        """What these need; those that run no more are left out."""


class Committed:
    """As `Concerning` says, from the committed state."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def every(self) -> frozenset[str]:
        """As `Concerning` says."""
        with self._committer.looking() as state:
            return frozenset(state.running.dataflows)

    def draining(self) -> frozenset[str]:
        """As `Concerning` says."""
        with self._committer.looking() as state:
            return frozenset(state.drains)

    def in_jobs(self, jobs: Collection[str]) -> frozenset[str]:
        """As `Concerning` says."""
        with self._committer.looking() as state:
            placed = (state.jobs.jobs.get(JobId(int(job))) for job in jobs if job.isdecimal())
            instances = (instance for job in placed if job is not None for instance in job.active)
            return frozenset(user for instance in instances for user in state.running.users.get(instance, ()))

    def concerned(self, dataflows: Collection[str]) -> Mapping[str, Concerned]:
        """As `Concerning` says."""
        return dict(self._concerned(dataflows))

    def _concerned(self, dataflows: Collection[str]) -> Iterator[tuple[str, Concerned]]:
        asked = iter(dataflows)
        while some := tuple(islice(asked, _AT_ONCE)):
            with self._committer.looking() as state:
                found = [(name, state.running.dataflows.get(name)) for name in some]
                yield from [
                    (
                        name,
                        Concerned(
                            dataflow=public_id(name),
                            tenant=submitted.tenant,
                            needs=tuple(needs_of(state, submitted)),
                            drains=name in state.drains,
                        ),
                    )
                    for name, submitted in found
                    if submitted is not None
                ]


def needs_of(state: State, submitted: Submitted) -> Iterator[Need]:
    """What a dataflow needs of each job that runs one of its tasks."""
    versions = state.needed.get(submitted.id, {})
    instances: dict[JobId, set[int]] = {}
    for instance in map(Instance, submitted.instances):
        if (home := state.jobs.homes.get(instance)) is not None:
            instances.setdefault(home.job, set()).add(instance)
    for job, there in sorted(instances.items()):
        if (plan := state.plans.get(job)) is not None:
            # Until the cut the plan before is as good.
            newest = plan.version - 1 if plan.at_cut else plan.version
            yield Need(job=str(job), host=plan.host, version=versions.get(job, newest), instances=frozenset(there))
