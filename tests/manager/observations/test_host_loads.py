"""The load of hosts, from the counters of their jobs."""

from datetime import UTC, datetime

import pytest

from manager.observations.figures import host_loads
from manager.observations.reports import InstanceMeasured, JobSeen, Measured
from merge import BATCH_SECONDS


def seen(job: str, host: str, *measured: Measured) -> JobSeen:
    return JobSeen(job=job, host=host, state="running", measured=measured, seen=datetime(2026, 1, 2, tzinfo=UTC))


def did(at: float, batch: int, *seconds: float) -> Measured:
    tasks = {number: InstanceMeasured(cpu_ns=round(each * 1e9)) for number, each in enumerate(seconds)}
    return Measured(at=at, batch=batch, instances=tasks)


def test_a_host_has_the_load_of_its_jobs() -> None:
    """What their tasks take, and the price of their batches; a job that has reported once is not known yet."""
    jobs = [
        seen("1", "a", did(0.0, 0, 0.0, 0.0), did(20.0, 40, 4.0, 6.0)),
        seen("2", "a", did(0.0, -1, 0.0), did(20.0, 40, 2.0)),
        seen("3", "b", did(20.0, 5, 9.0)),
    ]
    assert host_loads(jobs, 20.0) == pytest.approx({"a": 0.5 + 2 * BATCH_SECONDS + 0.1})


def test_batches_count_from_the_first_that_has_a_number() -> None:
    """A job that has just begun has done its tasks' work since then, and its batches since they are numbered."""
    jobs = [seen("1", "a", did(0.0, -1, 0.0), did(10.0, 500, 1.0), did(20.0, 510, 4.0))]
    assert host_loads(jobs, 20.0) == pytest.approx({"a": 0.2 + 1.0 * BATCH_SECONDS})


def test_the_load_of_a_silent_job_goes() -> None:
    """As its last minute does."""
    jobs = [seen("1", "a", did(0.0, 0, 0.0), did(20.0, 0, 10.0))]
    assert [host_loads(jobs, now)["a"] for now in (20.0, 45.0, 120.0)] == pytest.approx([0.5, 0.25, 0.0])
