"""A service in which everything is observed that a manager can observe: hosts, jobs, counters and costs."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
from prometheus_client import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from braid_client.answers.dataflows import DataflowState
from bridge.connectors.connector_run import LinkState
from engine.delivery.publisher import LeftOutSoFar
from engine.host.spools import Received
from manager.kernel.live_events import Delays, ReconcilerActivity
from manager.lineage.sent import LineageCounts
from manager.observations.reports import (
    HostSeen,
    InstanceMeasured,
    JobSeen,
    MachineStatus,
    Measured,
    StreamMeasured,
)
from manager.series.figures import SeriesFigures
from manager.series.resolutions import FINEST, write_step
from merge import JobId, Rescale
from ring.fleet import HostReport, MachineSeen
from tests.manager.rest.real_service import NAME
from tests.manager.rest.socket_server import serving
from tests.manager.rest.town import Town, town

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HOST = HostSeen(
    host="north",
    alive=True,
    jobs=("1",),
    spools={"1": "ready", "2": "the disk is full; free some space", "bridge/3:out": "elsewhere"},
    spool_bytes=4_096,
    sources={
        "source/1": Received(since=1.0, accepted=40, rejected=3),
        "source/2": Received(since=1.0, link=LinkState(since=1.0)),
        "source/3": Received(since=1.0, link=LinkState(since=1.0, connected=True)),
    },
    dropped=2,
    passed_over={"unasked": 3, "failed": 0},
    cpu={"driver": 1.5, "jvm": 20.0, "worker": 4.0},
    cores=4.0,
    seen=NOW,
)
MACHINE = MachineSeen(name="north", alive=True, hosts={"north": HostReport(version=1, behind_bytes=512)})
DRIVEN = ReconcilerActivity(
    connected=True,
    unread=1,
    looks=5,
    failures=1,
    steps={"run": 3},
    turns={"begun": 1},
    reconfigurations={"begun": 2},
    reconfiguration_delays=Delays().plus(0.3).plus(1.2),
    dataflows={DataflowState.RUNNING: 7},
)


class Seen:
    """Observations that a test sets."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobSeen] = {}
        self.there: tuple[HostSeen, ...] = (HOST,)
        self.every_machine: dict[str, MachineStatus] = {"north": MachineStatus(seen=MACHINE)}

    def job(self, job: str) -> JobSeen | None:
        return self.jobs.get(job)

    def hosts(self) -> tuple[HostSeen, ...]:
        return self.there

    def misses_machines(self) -> bool:
        return False

    def machines(self) -> Mapping[str, tuple[MachineStatus, ...]]:
        return {name: (status,) for name, status in self.every_machine.items()}


def did(number: int) -> InstanceMeasured:
    """Return the counters of an instance, as multiples of one another."""
    return InstanceMeasured(cpu_ns=number * 10**9, taken=number * 10, emitted=number * 9, dead=number)


def measured(instances: dict[int, InstanceMeasured], *, entered: int, left: int, run: int = 1) -> Measured:
    """Return the counters of a job, received a moment ago by any clock."""
    percentiles = {"p50": 0.25, "p99": 0.5}
    return Measured(
        at=1e12,
        run=run,
        age=10.0,
        batch=left,
        instances=instances,
        states=dict.fromkeys(instances, 20_000),
        streams={"1": StreamMeasured(entered=entered, lag_events=3, lag_seconds=1.5)},
        left=left,
        shards={0: 10**9, 1: 10**9},
        groups={7: entered},
        batch_seconds=percentiles,
        latency_seconds=percentiles,
        left_out={"d-1": {"out": LeftOutSoFar(count=left, at=1.0, reason="all of its fields are null", event="{}")}},
    )


def running(job: str, *moments: Measured, restarts: int = 0) -> JobSeen:
    """Return a running job."""
    return JobSeen(
        job=job,
        host="north",
        state="running",
        batch=moments[-1].batch,
        restarts=restarts,
        measured=moments,
        seen=NOW,
    )


@contextmanager
def observed(folder: Path) -> Iterator[tuple[Town, Seen]]:
    """The town, and what is seen there; its job has done something already."""
    seen = Seen()
    made: Town

    def activity() -> ReconcilerActivity | None:
        return DRIVEN if made.tools.committer.leads else None

    lineage = LineageCounts(sent=3, behind_since=0.0)
    with town(folder, seeing=seen, activity=activity, replicas=1, lineage=lambda: lineage) as made:
        instances = instances_of(made)
        job = made.places["job"]
        _split(made, JobId(int(job)))
        done = measured(dict.fromkeys(instances, did(1)), entered=20, left=5)
        seen.jobs[job] = running(job, Measured(at=done.at - 10.0, run=1), done)
        seen.jobs[job] = replace(seen.jobs[job], failed={instances[0]: "no number"})
        figures = SeriesFigures(
            seconds=10.0,
            events_in=40,
            events_out=20,
            dead=5,
            waiting=7,
            latency_p50=0.25,
            latency_p99=0.5,
            cores=0.1,
            alone=0.3,
        )
        with made.tools.store.write() as session:
            step = int(time.time()) // FINEST * FINEST
            write_step(session, NAME, step, {made.places["running"]: figures, made.places["poors"]: figures})
        yield made, seen


def _split(made: Town, job: JobId) -> None:
    """Give a job a second shard."""
    with made.tools.committer.looking() as state:
        base, busy = state.jobs.version, dict.fromkeys(state.jobs.jobs[job].active, 0.5)
    made.tools.changes.jobs.rescale(Rescale(job, 2, busy, "two are needed"), base=base, who="operator")


def instances_of(made: Town) -> list[int]:
    """The running tasks of a town."""
    with made.tools.committer.looking() as state:
        return sorted(state.running.tasks)


def scraped(made: Town, who: str = "operator") -> dict[str, Family]:
    """Return the metrics that an operator or a tenant reads, by name."""
    with serving(made.app) as url:
        headers = {"Authorization": f"Bearer {made.keys[who]}"}
        # The first look finds nothing of the requests.
        httpx.get(f"{url}/metrics", headers=headers, trust_env=False).raise_for_status()
        answer = httpx.get(f"{url}/metrics", headers=headers, trust_env=False).raise_for_status()
    return {family.name: family for family in text_string_to_metric_families(answer.text)}
