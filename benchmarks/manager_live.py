"""What the manager's benchmark measures on a service that runs: from a request over HTTP to outputs over MQTT.

Sources send an event every fiftieth of a second, so that nobody waits long for the first. Requests come at any moment
of a pace. Every time is counted from the moment before its request is sent.
"""

import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks import drawn_dataflows
from benchmarks.manager_test_bed import SERVICE_PACE, MeasuredService, StandIn, serving
from manager.answers.dataflows import SubmitAnswer
from manager.answers.jobs import JobAnswer
from manager.answers.sources import SourceForm
from manager.client import Client

_PER_SECOND = 20.0
LOOKING = 0.01
_CLIENTS = 4
_STORED = 1_000
_SHAPE = drawn_dataflows.Shape(sources=100)
FULL_JOB = 108
"""Tasks of one job, beside which another dataflow of `chain` has no room; see `manager.kernel.draft.BUSY`."""
Found = dict[str, Any]


def measured(*, quick: bool) -> Found:
    """Measure everything."""
    times = 5 if quick else 20
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as folder:
        return {**running(Path(folder), times), **stored(Path(folder), 50 if quick else 250)}


def running(folder: Path, times: int) -> Found:
    """What takes until outputs come or stop, with a host and Spark."""
    with serving(folder / "running") as service:
        found: Found = {"serve_start_s": {"empty": round(service.start(), 2)}}
        report("serve_start_s", found["serve_start_s"])
        service.listen()
        with Client(service.url, service.admit("ann")) as ann, service.operator() as operator:
            bench = _Running(service, ann, operator)
            bench.begin()
            for name, measure in (
                ("reused", bench.reused),
                ("grafted", bench.grafted),
                ("new_job", bench.in_new_job),
            ):
                found[f"{name}_to_output_s"] = _summed(measure(number) for number in range(times))
                report(f"{name}_to_output_s", found[f"{name}_to_output_s"])
            found["remove_to_paused_s"] = _summed(bench.removals)
            report("remove_to_paused_s", found["remove_to_paused_s"])
    return found


class _Running:
    """Dataflows that come and go on one running service."""

    def __init__(self, service: MeasuredService, ann: Client, operator: Client) -> None:
        self._service = service
        self._ann = ann
        self._operator = operator
        self._draw = random.Random(7)
        self._filled = False
        self.removals: list[Found] = []

    def begin(self) -> None:
        """Run what others reuse."""
        self._register("shared")
        self._first = self._ann.submit(chain("shared", 1))
        self._service.first_output(self._first.outputs[0].topic)

    def reused(self, _number: int) -> Found:
        """A dataflow all of whose tasks run already, which then goes."""
        return self._come_and_go(chain("shared", 1), started=0)

    def grafted(self, number: int) -> Found:
        """A dataflow whose filter runs already, and nothing behind it."""
        return self._come_and_go(chain("shared", 1, 1_000_000 + number), started=2)

    def in_new_job(self, number: int) -> Found:
        """A dataflow with a source of its own, for which no job has room."""
        if not self._filled:
            self._filled = True
            self._register("never", per_second=0.0001)
            self._ann.submit(chain("never", *range(1, FULL_JOB - 2)))
            self._settle()
        self._register(f"own{number}")
        found = self._come_and_go(chain(f"own{number}", *range(1, 9)), started=10)
        if found["jobs"] != 2:  # noqa: PLR2004 - the one that runs, and the new one
            raise AssertionError(f"there were {found['jobs']} jobs, not a new one beside the full one")
        return found

    def _come_and_go(self, document: Found, *, started: int) -> Found:
        time.sleep(self._draw.uniform(0.0, SERVICE_PACE))
        begun = time.perf_counter()
        answer = self._ann.submit(document)
        answered = time.perf_counter()
        if len(answer.started) != started:
            raise AssertionError(f"{len(answer.started)} tasks were started, not {started}")
        took = self._service.first_output(answer.outputs[0].topic) - begun
        jobs = self._settle()
        newest = max(jobs, key=lambda job: int(job.job))
        found = {
            "s": took,
            "answered": answered - begun,
            "published": self._service.published[newest.job, newest.version] - begun,
            "in_effect": self._service.in_effect[newest.job, newest.version] - begun,
            "jobs": len(jobs),
        }
        removal = self._remove(answer, newest)
        if started != 10:  # noqa: PLR2004 - a job that goes with its only dataflow has no plan to be in effect
            self.removals.append(removal)
        return found

    def _remove(self, answer: SubmitAnswer, job: JobAnswer) -> Found:
        time.sleep(self._draw.uniform(0.0, SERVICE_PACE))
        begun = time.perf_counter()
        self._ann.remove(answer.id)
        answered = time.perf_counter()
        self._settle()
        settled = time.perf_counter()
        time.sleep(SERVICE_PACE)
        version = job.version + 1
        return {
            # No output may come once its plan is in effect.
            "s": max(settled, self._service.outputs[answer.outputs[0].topic][-1]) - begun,
            "answered": answered - begun,
            "published": self._service.published.get((job.job, version), settled) - begun,
            "in_effect": self._service.in_effect.get((job.job, version), settled) - begun,
            "last_output": self._service.outputs[answer.outputs[0].topic][-1] - begun,
        }

    def _settle(self) -> list[JobAnswer]:
        """Wait until every job runs its plan, as REST says."""
        until = time.monotonic() + 60.0
        while True:
            jobs = list(self._operator.jobs())
            if all(job.in_effect == job.version for job in jobs):
                return jobs
            if time.monotonic() > until:
                raise TimeoutError(f"jobs do not take up their plans: {jobs}")
            time.sleep(LOOKING)

    def _register(self, name: str, *, per_second: float = _PER_SECOND) -> None:
        self._ann.register_source(
            SourceForm.model_validate({"name": name, "connection": {"kind": "rate", "per_second": per_second}})
        )


def stored(folder: Path, samples: int) -> Found:
    """Submissions over HTTP beside many that are stored, and how long the next start takes; a stand-in is the host."""
    with serving(folder / "stored", host="none") as service:
        starts = {"empty, no host": round(service.start(), 2)}
        host = StandIn(service.broker)
        try:
            keys = _prepared(service)
            with ProcessPoolExecutor(_CLIENTS, mp_context=get_context("spawn")) as clients:
                asked = [(service.url, key, number) for number, key in enumerate(keys)]
                list(clients.map(_submit, [(*each, _STORED // _CLIENTS) for each in asked]))
                taken = list(clients.map(_take_turns, [(*each, samples) for each in asked]))
                alone = list(clients.map(_take_turns, [(*asked[0], samples)]))
            service.stop()
            starts[f"{_STORED:,} dataflows, no host"] = round(service.start(), 2)
        finally:
            host.stop()
    found = {
        "rest_ms": {"stored": _STORED, f"{_CLIENTS} clients": _turns(taken), "1 client": _turns(alone)},
        "serve_start_stored_s": starts,
    }
    for name, each in found.items():
        report(name, each)
    return found


def _prepared(service: MeasuredService) -> list[str]:
    """The API keys of the tenants, once there are sources, and a host to place jobs on."""
    service.admit("city")
    with service.operator() as operator:
        for name in drawn_dataflows.registered(_SHAPE):
            operator.register_source(
                SourceForm.model_validate(
                    {
                        "name": name,
                        "owner": "city",
                        "connection": {"kind": "topic", "topic": f"city/{name}"},
                        "schema": dict(drawn_dataflows.SOURCE_SCHEMA.fields),
                        "visibility": "public",
                    }
                )
            )
        while not list(operator.hosts()):
            time.sleep(LOOKING)
    return [service.admit(f"tenant-{number}") for number in range(_CLIENTS)]


def _submit(asked: tuple[str, str, int, int]) -> None:
    url, key, number, many = asked
    draw = random.Random(number)
    with Client(url, key) as client:
        for _ in range(many):
            client.submit(_drawn(draw))


def _take_turns(asked: tuple[str, str, int, int]) -> tuple[list[float], list[float]]:
    """Seconds of submissions and removals by turns."""
    url, key, number, many = asked
    draw = random.Random(100 + number)
    submits, removals = [], []
    with Client(url, key) as client:
        for _ in range(many):
            document = _drawn(draw)
            begun = time.perf_counter()
            answer = client.submit(document)
            submits.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            client.remove(answer.id)
            removals.append(time.perf_counter() - begun)
    return submits, removals


def _drawn(draw: random.Random) -> bytes:
    document = json.loads(drawn_dataflows.document(draw, _SHAPE, draw.randrange(10**6)))
    for task in document["tasks"]:
        if task["type"] == "source":
            task["config"]["source"] = f"city:{task['config']['source']}"
    return json.dumps(document).encode()


def chain(source: str, *bounds: int) -> Found:
    """A source, a filter for each bound that lets everything through, and an output."""
    tasks: list[Found] = [{"id": "in", "type": "source", "config": {"source": source}}]
    tasks += [
        {"id": f"f{at}", "type": "range_filter", "config": {"field": "number", "min": -bound, "max": 10**12}}
        for at, bound in enumerate(bounds)
    ]
    tasks.append({"id": "out", "type": "output"})
    names = [task["id"] for task in tasks]
    streams = [{"from": one, "to": other} for one, other in pairwise(names)]
    return {"version": 1, "name": f"chain of {len(bounds)}", "tasks": tasks, "streams": streams}


def _summed(samples: Sequence[Found] | Any) -> Found:
    """The median and the most of the seconds, and the medians of what they are made of."""
    kept = list(samples)
    seconds = sorted(each["s"] for each in kept)
    parts = {name: [each[name] for each in kept] for name in kept[0] if name not in {"s", "jobs"}}
    return {
        "p50": round(statistics.median(seconds), 3),
        "max": round(seconds[-1], 3),
        "samples": len(seconds),
        "parts_p50": {name: round(statistics.median(values), 3) for name, values in parts.items()},
        "all": [round(each, 3) for each in seconds],
    }


def _turns(taken: Sequence[tuple[list[float], list[float]]]) -> Found:
    """Of the seconds of all clients' submissions and removals."""
    submits, removals = ([seconds for each in taken for seconds in each[kind]] for kind in (0, 1))
    return {"submit": _percentiles(submits), "remove": _percentiles(removals)}


def _percentiles(seconds: Sequence[float]) -> Found:
    return {
        "p50": round(statistics.median(seconds) * 1000, 2),
        "p99": round(statistics.quantiles(seconds, n=100)[98] * 1000, 2),
    }


def report(name: str, found: object) -> None:
    """Print a line."""
    print(f"{name}: {json.dumps(found)}", flush=True)
