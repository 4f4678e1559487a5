"""The load of hosts in the last minute: the cores that their jobs take, for tasks and for batches as such."""

from collections.abc import Iterable

from manager.observations.figures import per_second
from manager.observations.reports import JobSeen, Measured
from merge import BATCH_SECONDS


def host_loads(jobs: Iterable[JobSeen], now: float) -> dict[str, float]:
    """The load of each host whose jobs have reported; of a job that does not report any more nothing counts."""
    found: dict[str, float] = {}
    for each in sorted(jobs, key=lambda each: each.job):
        if (tasks := per_second(each.measured, _task_seconds, now)) is not None:
            # Before its first batch, a job's batch number is not known.
            numbered = [measured for measured in each.measured if measured.batch >= 0]
            batches = per_second(numbered, lambda base, last: last.batch - base.batch, now) or 0.0
            found[each.host] = found.get(each.host, 0.0) + max(0.0, tasks) + max(0.0, batches) * BATCH_SECONDS
    return found


def _task_seconds(base: Measured, last: Measured) -> float:
    return (
        sum(did.cpu_ns for did in last.instances.values()) - sum(did.cpu_ns for did in base.instances.values())
    ) / 1e9
