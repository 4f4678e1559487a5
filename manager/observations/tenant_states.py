"""The states that the tasks of each tenant keep, as hosts report them."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from engine.plan import Plan
from manager.observations.reports import JobSeen
from merge import Instance, JobId, RunningGraph


class JobReports(Protocol):
    """The latest reports of jobs."""

    def job(self, job: str) -> JobSeen | None:
        """The latest report of a job."""


class TenantStates(NamedTuple):
    """What tenants keep in states, each task counted in full for each tenant that needs it."""

    sizes: Mapping[str, int]
    """The bytes of each tenant that has any."""
    of: Mapping[Instance, int]
    """The bytes of each task, but for those that keep little."""
    silent: frozenset[JobId]
    """The jobs that have not reported yet."""


def tenant_states(running: RunningGraph, plans: Mapping[JobId, Plan], reports: JobReports) -> TenantStates:
    """What each tenant keeps in the states of the tasks that run for it."""
    found = Counter[Instance]()
    silent = set[JobId]()
    for job in plans:
        seen = reports.job(str(job))
        states = seen.measured[-1].states if seen is not None and seen.measured else None
        if states is None:
            silent.add(job)
        else:
            # A task that moves is in two jobs for a moment.
            found |= Counter({Instance(each): size for each, size in states.items()})
    sizes = Counter[str]()
    for instance, size in found.items():
        sizes.update(dict.fromkeys(running.tenants_of(instance), size))
    return TenantStates(sizes, found, frozenset(silent))
