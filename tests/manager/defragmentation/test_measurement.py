"""Measurements of hosts, jobs and tasks between two moments."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dags import Kind
from engine.plan import Bridged, Ingress, Plan, Slot, SlotState, Subscribed
from manager.costs.measured import SHORTEST_SAMPLE, HostSample, Moment, batch_seconds, batches, busy, moment, sample
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured
from merge import ASSUMED_BUSY, JobId
from tests.merge.floor import Floor

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RAW = Subscribed(topic="t", fields={"n": Kind.INTEGER})


def reported(at: float, batch: int, cpu: dict[int, float], *, run: int = 1, p50: float | None = None) -> Measured:
    """Return a job's report at a moment: its batches, and the CPU seconds of its instances."""
    instances = {each: InstanceMeasured(cpu_ns=round(seconds * 1e9), taken=1) for each, seconds in cpu.items()}
    return Measured(at=at, run=run, batch=batch, instances=instances, batch_seconds={} if p50 is None else {"p50": p50})


def job(name: str, *measured: Measured) -> JobSeen:
    return JobSeen(job=name, host="h", state="running", measured=measured, seen=NOW)


def plan(name: str, *, host: str = "h", paused: int = 0, bridges: int = 0) -> Plan:
    return Plan(
        job=name,
        host=host,
        version=1,
        slots=(
            Slot(instance=2, type="map", inputs=()),
            *(Slot(instance=10 + each, type="map", inputs=(), state=SlotState.PAUSED) for each in range(paused)),
        ),
        ingress=(
            Ingress(stream="s", instance=1, supply=RAW),
            *(Ingress(stream=f"b{each}", instance=20 + each, supply=Bridged()) for each in range(bridges)),
        ),
    )


def host(**cpu: float) -> HostSeen:
    return HostSeen(host="h", alive=True, cpu=cpu, seen=NOW)


def test_a_moment_has_only_the_host_s_own_jobs() -> None:
    """Plans of other hosts do not count, nor do jobs without reports."""
    plans = [plan("1", paused=2, bridges=1), plan("2", bridges=2), plan("3", host="other", paused=9, bridges=9)]
    seen = {
        "1": job("1", reported(1.0, 4, {}), reported(2.0, 5, {2: 1.0})),
        "2": job("2"),
        "3": job("3", reported(1.0, 7, {})),
    }
    expected = Moment(at=9.0, cpu={"jvm": 3.0}, jobs={"1": reported(2.0, 5, {2: 1.0})}, bridges=3, paused=2)
    assert expected == moment(host(jvm=3.0), [], plans, seen, 9.0)


BEFORE = Moment(
    at=100.0,
    cpu={"jvm": 10.0, "driver": 5.0},
    jobs={"1": reported(1.0, 40, {2: 1.0}), "2": reported(1.0, 50, {3: 2.0})},
    bridges=2,
    paused=5,
)
AFTER = Moment(
    at=160.0,
    cpu={"jvm": 14.0, "driver": 6.0, "worker": 1.0},
    jobs={"1": reported(2.0, 100, {2: 1.5, 4: 0.25}), "2": reported(2.0, 110, {3: 2.25})},
    bridges=3,
    paused=5,
)


def test_a_sample_leaves_out_the_tasks() -> None:
    """It has the CPU of the processes without that of instances, including new ones."""
    expected = HostSample(seconds=60.0, cpu=5.0, batches=120, bridges=2.5, paused=5.0)
    assert (AFTER, expected) == sample(BEFORE, AFTER)


@pytest.mark.parametrize(
    "after",
    [
        replace(AFTER, cpu={}),
        replace(AFTER, cpu={"jvm": 1.0, "driver": 6.0}),
        replace(AFTER, cpu={"jvm": 40.0}),
        replace(AFTER, jobs={"1": AFTER.jobs["1"]}),
        replace(AFTER, jobs={**AFTER.jobs, "3": reported(2.0, 1, {})}),
        replace(AFTER, jobs={**AFTER.jobs, "2": reported(2.0, 110, {}, run=2)}),
    ],
    ids=["no report", "restarted", "a part ended", "a job ended", "a job began", "a job restarted"],
)
def test_a_start_or_an_end_prevents_a_sample(after: Moment) -> None:
    """The next sample starts there."""
    assert (after, None) == sample(BEFORE, after)


def test_no_sample_starts_before_the_first_batch() -> None:
    """The number of the first batch is not known before it."""
    before = replace(BEFORE, jobs={**BEFORE.jobs, "1": reported(1.0, -1, {})})
    assert (AFTER, None) == sample(before, AFTER)


def test_no_sample_is_short() -> None:
    """The first moment is kept until the sample is long enough. A host without reports has none."""
    soon = replace(AFTER, at=100.0 + SHORTEST_SAMPLE - 1)
    assert (soon, None) == sample(None, soon)
    assert (BEFORE, None) == sample(BEFORE, soon)
    assert (AFTER, None) == sample(replace(BEFORE, cpu={}), AFTER)


def test_the_load_of_a_task_is_that_of_the_last_minute() -> None:
    """Sources have none, nor have tasks that a job does not report; without figures it is assumed."""
    floor = Floor(strategy="launch")
    floor.submit("s!:source > a:map > k:sink", "x")
    floor.submit("s!:source > a:map > k:sink", "y")
    seen = {
        "1": job("1", reported(100.0, 5, {2: 1.0}), reported(110.0, 15, {2: 3.5})),
        "2": job("2", reported(110.0, 5, {5: 3.0})),
    }
    expected = {1: 0.0, 2: 0.25, 3: 0.0, 4: 0.0, 5: ASSUMED_BUSY, 6: ASSUMED_BUSY}
    assert expected == busy(floor.running, floor.jobs, seen, 110.0)
    forgotten = {"1": job("1", reported(100.0, 5, {2: 1.0}), reported(110.0, 15, {}))}
    assert {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.0, 5: ASSUMED_BUSY, 6: ASSUMED_BUSY} == busy(
        floor.running, floor.jobs, forgotten, 110.0
    )


def test_batch_rates_are_given_if_known() -> None:
    """A restarted job has no batch number before its first batch."""
    floor = Floor(strategy="launch")
    for name in ("x", "y", "z", "w"):
        floor.submit("s!:source > k:sink", name)
    seen = {
        "1": job("1", reported(100.0, 5, {}), reported(110.0, 10, {}, p50=0.25)),
        "2": job("2", reported(100.0, -1, {}), reported(110.0, 900, {}, p50=0.75)),
        "3": job("3"),
    }
    assert {JobId(1): 0.5} == batches(floor.jobs, seen, 110.0)
    assert {JobId(1): 0.25, JobId(2): 0.75} == batch_seconds(floor.jobs, seen, 110.0)
    assert {} == batch_seconds(floor.jobs, seen, 999.0)
