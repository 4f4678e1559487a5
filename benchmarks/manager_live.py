"""What the manager's benchmark measures on a service that runs: from a request over HTTP to outputs over MQTT.

Sources send an event every fiftieth of a second, so that nobody waits long for the first. Requests come at any moment
of a pace. Every time is counted from the moment before its request is sent.
"""

import random
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks import drawn_dataflows
from benchmarks.documents import city_document, city_source, rate_source, row_document
from benchmarks.instruments import Figures, awaited, clocked, percentiles, report, scratch_folder
from benchmarks.manager_test_bed import SERVICE_PACE, MeasuredService, StandIn
from braid_client import Client
from braid_client.answers.dataflows import SubmitAnswer
from braid_client.answers.jobs import JobAnswer

_PER_SECOND = 20.0
LOOKING = 0.01
_CLIENTS = 4
_STORED = 1_000
_SHAPE = drawn_dataflows.Shape(sources=100)
FULL_JOB = 108
"""Tasks of one job, beside which another dataflow of `chain` has no room; see `merge.ASSUMED_BUSY`."""


def measured(*, quick: bool) -> Figures:
    """Measure everything."""
    times = 5 if quick else 20
    with scratch_folder() as folder:
        return {**running(folder, times), **stored(folder, 50 if quick else 250)}


def running(folder: Path, times: int) -> Figures:
    """What takes until outputs come or stop, with a host and Spark."""
    with MeasuredService(folder / "running") as service:
        figures = {"serve_start_s": report("serve_start_s", {"empty": round(service.start(), 2)})}
        service.listen()
        with Client(service.url, service.admit("ann")) as ann, service.operator() as operator:
            bench = _Running(service, ann, operator)
            bench.begin()
            for name, measure in (("reused", bench.reused), ("grafted", bench.grafted), ("new_job", bench.in_new_job)):
                samples = [measure(number) for number in range(times)]
                figures[f"{name}_to_output_s"] = report(f"{name}_to_output_s", _summed(samples))
            figures["remove_to_paused_s"] = report("remove_to_paused_s", _summed(bench.removals))
    return figures


class _Running:
    """Dataflows that come and go on one running service."""

    def __init__(self, service: MeasuredService, ann: Client, operator: Client) -> None:
        self._service = service
        self._ann = ann
        self._operator = operator
        self._draw = random.Random(7)
        self._filled = False
        self.removals: list[Figures] = []

    def begin(self) -> None:
        """Run what others reuse."""
        self._register("shared")
        self._first = self._ann.submit(chain("shared", 1))
        self._service.first_output(self._first.outputs[0].topic)

    def reused(self, _number: int) -> Figures:
        """A dataflow all of whose tasks run already, which then goes."""
        return self._come_and_go(chain("shared", 1), started=0)

    def grafted(self, number: int) -> Figures:
        """A dataflow whose filter runs already, and nothing behind it."""
        return self._come_and_go(chain("shared", 1, 1_000_000 + number), started=2)

    def in_new_job(self, number: int) -> Figures:
        """A dataflow with a source of its own, for which no job has room."""
        if not self._filled:
            self._filled = True
            self._register("never", per_second=0.0001)
            self._ann.submit(chain("never", *range(1, FULL_JOB - 2)))
            self._settle()
        self._register(f"own{number}")
        times = self._come_and_go(chain(f"own{number}", *range(1, 9)), started=10)
        if times["jobs"] != 2:  # noqa: PLR2004 - the one that runs, and the new one
            raise AssertionError(f"there were {times['jobs']} jobs, not a new one beside the full one")
        return times

    def _come_and_go(self, document: Figures, *, started: int) -> Figures:
        time.sleep(self._draw.uniform(0.0, SERVICE_PACE))
        begun = time.perf_counter()
        answer = self._ann.submit(document)
        answered = time.perf_counter()
        if len(answer.started) != started:
            raise AssertionError(f"{len(answer.started)} tasks were started, not {started}")
        took = self._service.first_output(answer.outputs[0].topic) - begun
        jobs = self._settle()
        newest = max(jobs, key=lambda job: int(job.job))
        times = {
            "s": took,
            "answered": answered - begun,
            "published": self._service.published[newest.job, newest.version] - begun,
            "in_effect": self._service.in_effect[newest.job, newest.version] - begun,
            "jobs": len(jobs),
        }
        removal = self._remove(answer, newest)
        if started != 10:  # noqa: PLR2004 - a job that goes with its only dataflow has no plan to be in effect
            self.removals.append(removal)
        return times

    def _remove(self, answer: SubmitAnswer, job: JobAnswer) -> Figures:
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

        def look() -> list[JobAnswer] | None:
            jobs = list(self._operator.jobs())
            return jobs if all(job.in_effect == job.version for job in jobs) else None

        return awaited(look, "jobs to take up their plans", within=60.0, every=LOOKING)

    def _register(self, name: str, *, per_second: float = _PER_SECOND) -> None:
        self._ann.register_source(rate_source(name, per_second))


def stored(folder: Path, samples: int) -> Figures:
    """Submissions over HTTP beside many that are stored, and how long the next start takes; a stand-in is the host."""
    with MeasuredService(folder / "stored", host="none") as service:
        starts = {"empty, no host": round(service.start(), 2)}
        host = StandIn(service.broker)
        try:
            keys = _prepared(service)
            with ProcessPoolExecutor(_CLIENTS, mp_context=get_context("spawn")) as clients:
                arguments = [(service.url, key, number) for number, key in enumerate(keys)]
                list(clients.map(_submit, [(*own, _STORED // _CLIENTS) for own in arguments]))
                taken = list(clients.map(_take_turns, [(*own, samples) for own in arguments]))
                alone = list(clients.map(_take_turns, [(*arguments[0], samples)]))
            service.stop()
            starts[f"{_STORED:,} dataflows, no host"] = round(service.start(), 2)
        finally:
            host.stop()
    figures = {
        "rest_ms": {"stored": _STORED, f"{_CLIENTS} clients": _turns(taken), "1 client": _turns(alone)},
        "serve_start_stored_s": starts,
    }
    return {name: report(name, about) for name, about in figures.items()}


def _prepared(service: MeasuredService) -> list[str]:
    """The API keys of the tenants, once there are sources, and a host to place jobs on."""
    service.admit("city")
    with service.operator() as operator:
        for name in drawn_dataflows.registered(_SHAPE):
            operator.register_source(city_source(name))
        while not list(operator.hosts()):
            time.sleep(LOOKING)
    return [service.admit(f"tenant-{number}") for number in range(_CLIENTS)]


def _submit(arguments: tuple[str, str, int, int]) -> None:
    url, key, number, many = arguments
    draw = random.Random(number)
    with Client(url, key) as client:
        for _ in range(many):
            client.submit(_drawn(draw))


def _take_turns(arguments: tuple[str, str, int, int]) -> tuple[list[float], list[float]]:
    url, key, number, many = arguments
    draw = random.Random(100 + number)
    submits, removals = [], []
    with Client(url, key) as client:
        for _ in range(many):
            document = _drawn(draw)
            answer, seconds = clocked(client.submit, document)
            submits.append(seconds)
            removals.append(clocked(client.remove, answer.id)[1])
    return submits, removals


def _drawn(draw: random.Random) -> bytes:
    return city_document(draw, _SHAPE, draw.randrange(10**6))


def chain(source: str, *bounds: int) -> Figures:
    """A source, a filter for each bound that lets everything through, and an output."""
    tasks = {
        f"f{at}": {"type": "range_filter", "config": {"field": "number", "min": -bound, "max": 10**12}}
        for at, bound in enumerate(bounds)
    }
    return row_document(f"chain of {len(bounds)}", source, tasks)


def _summed(samples: Sequence[Figures]) -> Figures:
    """The median and the most of the seconds, and the medians of what they are made of."""
    seconds = sorted(sample["s"] for sample in samples)
    parts = {name: [sample[name] for sample in samples] for name in samples[0] if name not in {"s", "jobs"}}
    return {
        "p50": round(statistics.median(seconds), 3),
        "max": round(seconds[-1], 3),
        "samples": len(seconds),
        "parts_p50": {name: round(statistics.median(values), 3) for name, values in parts.items()},
        "all": [round(taken, 3) for taken in seconds],
    }


def _turns(taken: Sequence[tuple[list[float], list[float]]]) -> Figures:
    """The milliseconds of all clients' submissions and removals."""
    submits, removals = ([1_000 * seconds for turns in taken for seconds in turns[kind]] for kind in (0, 1))
    return {"submit": percentiles(submits, 2), "remove": percentiles(removals, 2)}
