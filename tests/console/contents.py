"""Metered usage and figures of tasks for the console's town, and running graphs of any size."""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route

from manager.observations.reports import InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.savings.ledger import MINUTE, Minute, write
from manager.savings.settlement import CpuEstimate, Settlement, Share, Work
from manager.use_case import Pricing
from tests.console.conftest import ConsoleService
from tests.manager.managers import OPERATOR
from tests.manager.rest.real_service import NAME

SECOND = 10**9
MINUTES = 30


def metered(town: ConsoleService) -> None:
    """Write it down, and have a core hour cost something."""
    town.equip(pricing=Pricing(per_core_hour=6.0, currency="EUR"))
    now = int(time.time()) // MINUTE * MINUTE
    with town.tools.store.write() as session:
        # The tenth was not metered.
        ago = [each for each in range(MINUTES, 0, -1) if each != 10]
        assert write(session, NAME, [_minute(now - each * MINUTE, town) for each in ago])


def _minute(at: int, town: ConsoleService) -> Minute:
    alone, most = _estimate(20), _estimate(40)
    shares = {
        town.places["running"]: Share(
            tenant="ann",
            cpu=10 * SECOND,
            alone=alone,
            saving=_estimate(10),
            work=Work(done=4 * SECOND, alone=8 * SECOND),
        ),
        # It is removed by now.
        town.places["removed"]: Share(tenant="ann", cpu=5 * SECOND, alone=alone, saving=_estimate(15)),
        town.places["poors"]: Share(tenant="poor", cpu=10 * SECOND, alone=most, saving=_estimate(30)),
    }
    settled = Settlement(
        seconds=60.0,
        cpu={"driver": 15 * SECOND, "jvm": 30 * SECOND, "worker": 15 * SECOND},
        shares=shares,
        overhead=35 * SECOND,
        launched=_estimate(240),
        packed=_estimate(120),
        work=Work(done=9 * SECOND, alone=15 * SECOND),
    )
    return Minute(at=at, settled=settled)


def _estimate(seconds: int) -> CpuEstimate:
    return CpuEstimate(low=seconds * SECOND // 2, likely=seconds * SECOND, high=2 * seconds * SECOND)


def at_work(service: ConsoleService, dataflow: str, *, dead: int = 0, entered: int = 2_150) -> None:
    """As if hosts had said of each task of a dataflow that it had 50 seconds of work."""
    tasks = service.service.dataflows.get(OPERATOR, dataflow).tasks
    with service.tools.committer.looking() as state:
        plans = [state.plans[job] for job in state.jobs_of(dataflow)]
    now = time.monotonic()
    did = InstanceMeasured(cpu_ns=10**9, taken=entered, emitted=entered, dead=dead)
    for plan in plans:
        newest = Measured(
            at=now,
            run=1,
            instances={task.instance: did for task in tasks},
            streams={entry.stream: StreamMeasured(entered=entered, lag_events=3) for entry in plan.ingress},
            states={task.instance: 48_000 for task in tasks},
        )
        service.seen.jobs[plan.job] = JobSeen(
            job=plan.job,
            host=plan.host,
            state="running",
            version=plan.version,
            in_effect=plan.version,
            measured=(Measured(at=now - 50, run=1), newest),
            seen=datetime.now(UTC),
        )


TYPES = ("range_filter", "block_window_average", "kalman_filter", "sliding_linear_regression", "output")
_PER_JOB = 100
_PER_DAG = 25
_THEN = "2026-03-01T12:00:00Z"


def running(size: int, seed: int = 0) -> list[dict[str, Any]]:
    """Tasks in DAGs of 25 and jobs of 100; each job reads a stream of an earlier one, and the last task has failed."""
    random = Random(seed)
    return [_task(instance, random, last=instance == size) for instance in range(1, size + 1)]


def _task(instance: int, random: Random, *, last: bool) -> dict[str, Any]:
    place = (instance - 1) % _PER_DAG
    inputs = [instance - random.randint(1, min(place, 6))] if place else []
    if place > 10 and random.random() < 0.3:
        inputs.append(instance - random.randint(1, 10))
    job = (instance - 1) // _PER_JOB + 1
    dataflows = random.choice((1, 1, 1, 2, 3, 5, 9, 20))
    if job > 1 and (instance - 1) % _PER_JOB == 50:
        # A stream over a bridge: jobs are a tree.
        inputs = [(job // 3) * _PER_JOB + 25]
    return {
        "instance": instance,
        "type": "source" if not inputs else random.choice(TYPES),
        "name": f"step {place}" if inputs else f"city:street-{instance}",
        "job": str(job),
        "state": "failed" if last else "active",
        "inputs": sorted(set(inputs)),
        "dataflows": dataflows,
        "tenants": min(dataflows, 3),
        "tenant": ("ann", "bob")[instance % 2] if dataflows == 1 else "",
        "since": _THEN,
        "dag": (instance - 1) // _PER_DAG + 1,
        "failed": "no such field: <b>temperature</b>" if last else "",
        "cores": instance / 10_000,
        "events_in_per_second": instance / 10,
        "events_out_per_second": instance / 20,
        "cpu_seconds": 0.25 * instance,
        "events_in": 10 * instance,
        "events_out": 9 * instance,
        "events_dead": 0,
        "state_bytes": 20_000 * instance,
    }


def job(name: str, **fields: Any) -> dict[str, Any]:
    """A job without problems, except for the given fields."""
    well: dict[str, Any] = {
        "host": "main",
        "version": 3,
        "in_effect": 3,
        "state": "running",
        "trouble": "",
        "active": 100,
        "paused": 0,
        "pace": 1.0,
        "shards": 1,
        "shard_cores": [],
        "hot_group": None,
        "hot_group_part": None,
    }
    return {"job": name, **well, "batch": 8, "restarts": 0, "seen": _THEN, **fields}


def jobs_of(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The running jobs of some tasks."""
    return [job(name) for name in dict.fromkeys(task["job"] for task in tasks)]


def answer_with(page: Page, lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Answer the lists of the API with these items, page by page; the items may change in the meantime."""

    def answered(route: Route) -> None:
        where = urlsplit(route.request.url)
        asked = {name: values[0] for name, values in parse_qs(where.query).items()}
        begin = int(asked.get("after", 0))
        end = begin + int(asked.get("limit", 100))
        items = lists[where.path]
        page = {"items": items[begin:end], "next": str(end) if end < len(items) else None}
        route.fulfill(status=200, content_type="application/json", body=json.dumps(page))

    for path in lists:
        page.route(f"**{path}?*", answered)
