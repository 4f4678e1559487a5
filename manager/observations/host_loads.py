"""The load of hosts in the last minute: the cores that their jobs take, for tasks and for batches as such."""

from collections.abc import Iterable

from manager.observations.figures import per_second
from manager.observations.reports import JobSeen, Measured
from merge import BATCH_SECONDS


def host_loads(jobs: Iterable[JobSeen], now: float) -> dict[str, float]:
    """The load of each host whose jobs have reported; of a job that does not report any more nothing counts."""
    found: dict[str, float] = {}
    for each in sorted(jobs, key=lambda each: each.job):
        if (cores := per_second(each.measured, _seconds, now)) is not None:
            found[each.host] = found.get(each.host, 0.0) + cores
    return found


def _seconds(base: Measured, last: Measured) -> float:
    tasks = sum(did.cpu_ns for did in last.instances.values()) - sum(did.cpu_ns for did in base.instances.values())
    # Before its first batch, a job's batch number is not known.
    batches = last.batch - base.batch if base.batch >= 0 else 0
    return max(0.0, tasks / 1e9) + max(0, batches) * BATCH_SECONDS
