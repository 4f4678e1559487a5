"""The states that the tasks of each tenant keep, as hosts report them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from manager.observations.reports import Observations
from merge import Instance, JobId, RunningGraph


class TenantStates(NamedTuple):
    """What tenants keep in states, each task counted in full for each tenant that needs it."""

    by_tenant: Mapping[str, int]
    """The bytes of each tenant that has any."""
    by_task: Mapping[Instance, int]
    """The bytes of each task, but for those that keep little."""
    silent: frozenset[JobId]
    """The jobs that have not reported yet."""


def tenant_states(running: RunningGraph, jobs: Iterable[JobId], seeing: Observations) -> TenantStates:
    """What each tenant keeps in the states of the tasks that run for it."""
    by_task: dict[Instance, int] = {}
    silent = set[JobId]()
    for job in jobs:
        seen = seeing.job(str(job))
        states = seen.measured[-1].states if seen is not None and seen.measured else None
        if states is None:
            silent.add(job)
        for each, size in (states or {}).items():
            # A task that moves is in two jobs for a moment.
            by_task[Instance(each)] = max(size, by_task.get(Instance(each), 0))
    by_tenant = Counter[str]()
    for instance, size in by_task.items():
        by_tenant.update(dict.fromkeys(running.tenants_of(instance), size))
    return TenantStates(by_tenant, by_task, frozenset(silent))
