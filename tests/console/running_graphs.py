"""Running graphs as REST tells them, of any size, and pages that get them in the place of what the service has."""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route

TYPES = ("range_filter", "block_window_average", "kalman_filter", "sliding_linear_regression", "output")
_PER_JOB = 100
_PER_DAG = 25
_THEN = "2026-03-01T12:00:00Z"


def running(size: int, seed: int = 0) -> list[dict[str, Any]]:
    """Tasks in DAGs of 25, in jobs of 100, of which each takes a stream from one before it; the last has failed."""
    random = Random(seed)
    return [_task(instance, random, last=instance == size) for instance in range(1, size + 1)]


def _task(instance: int, random: Random, *, last: bool) -> dict[str, Any]:
    place = (instance - 1) % _PER_DAG
    inputs = [instance - random.randint(1, min(place, 6))] if place else []
    if place > 10 and random.random() < 0.3:
        inputs.append(instance - random.randint(1, 10))
    job = (instance - 1) // _PER_JOB + 1
    if job > 1 and (instance - 1) % _PER_JOB == 50:
        # A stream over a bridge: jobs are a tree.
        inputs = [(job // 3) * _PER_JOB + 25]
    return {
        "instance": instance,
        "type": "source" if not inputs else random.choice(TYPES),
        "job": str(job),
        "state": "failed" if last else "active",
        "inputs": sorted(set(inputs)),
        "dataflows": random.choice((1, 1, 1, 2, 3, 5, 9, 20)),
        "since": _THEN,
        "dag": (instance - 1) // _PER_DAG + 1,
        "failed": "no such field: <b>temperature</b>" if last else "",
        "cpu_seconds": 0.25 * instance,
        "events_in": 10 * instance,
        "events_out": 9 * instance,
        "events_dead": 0,
    }


def job(name: str, **told: Any) -> dict[str, Any]:
    """A job that runs well, but for what is told otherwise."""
    well = {"host": "main", "version": 3, "in_effect": 3, "state": "running", "trouble": "", "active": 100, "paused": 0}
    return {"job": name, **well, "batch": 8, "restarts": 0, "seen": _THEN, **told}


def jobs_of(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The jobs of some tasks, running."""
    return [job(name) for name in dict.fromkeys(task["job"] for task in tasks)]


def answer_with(page: Page, lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Have lists of the API answered with these, in parts as the service does; they may change meanwhile."""

    def answered(route: Route) -> None:
        where = urlsplit(route.request.url)
        asked = {name: values[0] for name, values in parse_qs(where.query).items()}
        begin = int(asked.get("after", 0))
        end = begin + int(asked.get("limit", 100))
        items = lists[where.path]
        told = {"items": items[begin:end], "next": str(end) if end < len(items) else None}
        route.fulfill(status=200, content_type="application/json", body=json.dumps(told))

    for path in lists:
        page.route(f"**{path}?*", answered)
