"""Reports of a job, for tests of the reaction to them."""

from collections.abc import Mapping
from datetime import UTC, datetime

from manager.observations.reports import InstanceMeasured, JobSeen, Measured
from merge import Instance
from tests.manager.managers import Manager


def report(manager: Manager, job: str, busy: Mapping[Instance, float], now: float) -> None:
    """Let a job report these loads of its tasks since its start, and this duration of its batches."""
    done: dict[int, InstanceMeasured] = {
        instance: InstanceMeasured(cpu_ns=round(part * now * 1e9)) for instance, part in busy.items()
    }
    newest = Measured(at=now, batch=50, instances=done, batch_seconds={"p50": sum(busy.values())})
    manager.seen.jobs[job] = JobSeen(
        job=job,
        host="north",
        state="running",
        measured=(Measured(), newest),
        seen=datetime(2026, 1, 2, tzinfo=UTC),
    )


def instance_of(manager: Manager, type_name: str) -> Instance:
    """Return the first running task of a type."""
    with manager.committer.looking() as state:
        return next(each.instance for each in state.running.tasks.values() if each.type.name == type_name)
