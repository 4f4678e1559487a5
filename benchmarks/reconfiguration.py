"""Reconfigurations on a service that runs: how soon they take effect, by each scheduler.

    python -m benchmarks.reconfiguration [--quick]

First one job, at two paces: from the request to the first event of the new config. Then jobs in a row and beside each
other, a task in each, behind a burst of events: the delay until all jobs have switched, by
components, without pruning, and by epochs. At last a surge that is too much for a task, until its config is changed for
a cheaper one. Prints a line per measurement; the last is one JSON object.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.manager_test_bed import SERVICE_PACE, MeasuredService, serving
from benchmarks.reconfiguration_surge import surges
from manager.answers import ReconfigurationForm, ReconfigurationState, SourceForm
from manager.client import Client
from merge.reconfiguration.switches import Scheduler

_QUICK_PACE = 0.2
_ROW_PACE = 0.1
"""So quick that no two tasks fit into one job."""
_HEAVY, _LIGHT = 4_000, 10
"""Iterations that take some milliseconds an event, and next to nothing."""
_BURST = 1_500
"""Events that come at once before each measurement; the heavy task needs more than ten seconds for them."""
_BOUND = 300.0
Found = dict[str, Any]
_CHAIN = ("j1", "j2", "j3", "j4")
_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("chain", ("j1",)),
    ("chain", ("j2",)),
    ("chain", ("j3", "j4")),
    ("chain", ("j1", "j3")),
    ("chain", ("j1", "j4")),
    ("fan", ("right2",)),
    ("fan", ("left", "right2")),
)


def main(*, quick: bool) -> None:
    """Measure everything."""
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as folder:
        root = Path(folder)
        times = 5 if quick else 30
        one_job = {
            str(pace): report(f"one job, pace {pace} s", one(root / f"one-{pace}", pace, times))
            for pace in (SERVICE_PACE, _QUICK_PACE)
        }
        rows = compared(root / "rows", _ROWS[3:6] if quick else _ROWS)
        surge = report("surge", surges(root / "surge", quick=quick))
    print(
        json.dumps(
            {
                "one_job_ms": {pace: {"p50": each["p50"], "p99": each["p99"]} for pace, each in one_job.items()},
                "rows": rows,
                "surge_s": surge,
            }
        )
    )


def report(name: str, found: Found) -> Found:
    """Print a line."""
    print(f"{name}: {json.dumps(found)}", flush=True)
    return found


def one(folder: Path, pace: float, times: int) -> Found:
    """Milliseconds from a request to the first event of the new config, in one job."""
    draw = random.Random(1)
    with serving(folder, pace=pace) as service:
        service.start()
        service.listen()
        service.events = {}
        with Client(service.url, service.admit("ann")) as ann:
            rate = {"name": "numbers", "connection": {"kind": "rate", "per_second": 50.0}}
            ann.register_source(SourceForm.model_validate(rate))
            flow = ann.submit(_document("one", [("f", _filter(on=True))], [("in", "f"), ("f", "out")]))
            topic = flow.outputs[0].topic
            service.first_output(topic)
            delays = []
            for number in range(times):
                time.sleep(draw.uniform(0.0, pace))
                on = number % 2 == 1
                begun = time.perf_counter()
                answer = ann.reconfigure(flow.id, ReconfigurationForm(tasks={"f": {"config": _filter(on=on)}}))
                delays.append((_first(service, topic, on=on, since=begun) - begun) * 1_000)
                settled(ann, flow.id, answer.id)
    return {
        "p50": round(statistics.median(delays)),
        "p99": round(statistics.quantiles(delays, n=100)[98]),
        "samples": len(delays),
    }


def _first(service: MeasuredService, topic: str, *, on: bool, since: float) -> float:
    """When the first event of a config came: one with a number, or with none."""

    def found() -> float | None:
        came = (service.events or {}).get(topic, ())
        return next(
            (at for at, events in came if at > since and any((each["number"] is not None) is on for each in events)),
            None,
        )

    return service.wait(found, "an event of the new config")


def compared(folder: Path, rows: tuple[tuple[str, tuple[str, ...]], ...]) -> list[Found]:
    """The delays of each row by each scheduler, in milliseconds, each behind a burst of events."""
    found: list[Found] = []
    for shape in dict.fromkeys(shape for shape, _ in rows):
        with serving(folder.with_name(f"{folder.name}-{shape}"), pace=_ROW_PACE) as service:
            service.start()
            service.listen()
            with Client(service.url, service.admit("ann")) as ann, service.operator() as operator:
                bench = _Row(service, ann, operator, _chain() if shape == "chain" else _fan())
                for changed in (changed for each, changed in rows if each == shape):
                    by = {str(scheduler): bench.delay(changed, scheduler) for scheduler in Scheduler}
                    row = {
                        "workflow": shape,
                        "changed": list(changed),
                        "components": by["fries"]["components"],
                        **{f"{name}_ms": each["ms"] for name, each in by.items()},
                    }
                    found.append(report(f"{shape}, {', '.join(changed)}", row))
    return found


class _Row:
    """A dataflow with a task in each job."""

    def __init__(self, service: MeasuredService, ann: Client, operator: Client, document: Found) -> None:
        self._service = service
        self._operator = operator
        self._sent = 0
        self._drawn = 0
        service.events = {}
        form = {"name": "numbers", "connection": {"kind": "topic", "topic": "numbers"}, "schema": {"n": "integer"}}
        ann.register_source(SourceForm.model_validate(form))
        self._flow = ann.submit(document)
        while ann.dataflow(self._flow.id).state != "running":
            time.sleep(0.05)
        self._burst(10)
        self._drain()

    def delay(self, changed: tuple[str, ...], scheduler: Scheduler) -> Found:
        """The delay of one reconfiguration until all jobs have switched."""
        self._burst(_BURST)
        # The first of them are under way.
        time.sleep(1.0)
        self._drawn += 1
        heavy = {"j1", "right1"}
        tasks = {
            task: {"config": {"iterations": (_HEAVY if task in heavy else _LIGHT) + self._drawn}} for task in changed
        }
        answer = self._operator.reconfigure(self._flow.id, ReconfigurationForm(tasks=tasks, scheduler=scheduler))
        ended = settled(self._operator, self._flow.id, answer.id)
        if ended.switched is None or ended.scope is None:
            raise TimeoutError(f"the reconfiguration did not switch: {ended}")
        self._drain()
        # Until then a task that was changed counts as if it changed again.
        while self._operator.reconfiguration(self._flow.id, answer.id).state is ReconfigurationState.PROVING:
            time.sleep(0.2)
        return {
            "ms": round((ended.switched - ended.begun).total_seconds() * 1_000),
            "components": [list(component.tasks) for component in ended.scope.components],
        }

    def _burst(self, many: int) -> None:
        for _ in range(many):
            self._service.publish("numbers", json.dumps({"n": self._sent}).encode())
            self._sent += 1

    def _drain(self) -> None:
        """Wait until every event has left at every output."""

        def all_left() -> bool:
            events = self._service.events or {}
            return all(
                sum(len(each) for _, each in events.get(output.topic, ())) >= self._sent
                for output in self._flow.outputs
            )

        self._service.wait(all_left, "all events to have left")


def settled(client: Client, flow: str, number: str) -> Any:
    """The reconfiguration, once it has switched."""
    until = time.monotonic() + _BOUND
    while (answer := client.reconfiguration(flow, number)).state in {
        ReconfigurationState.PREPARING,
        ReconfigurationState.SWITCHING,
    }:
        if time.monotonic() > until:
            raise TimeoutError(f"not within {_BOUND:g} s: {answer}")
        time.sleep(0.02)
    return answer


def _filter(*, on: bool) -> Found:
    return {"field": "number", "min": -1, "max": 10**12 if on else 0, "outside": "null"}


def _chain() -> Found:
    """Four expensive tasks in a row; the first holds up the others."""
    names = ("in", *_CHAIN, "out")
    tasks = [(name, {"iterations": _HEAVY if name == "j1" else _LIGHT}) for name in _CHAIN]
    return _document("chain", tasks, list(pairwise(names)), kind="pi_viete")


def _fan() -> Found:
    """A task whose events go two ways, expensive at the head of one of them."""
    tasks = [("split", _LIGHT), ("left", _LIGHT), ("right1", _HEAVY), ("right2", _LIGHT)]
    streams = [("in", "split"), ("split", "left"), ("left", "out"), ("split", "right1"), ("right1", "right2")]
    return _document(
        "fan",
        [(name, {"iterations": iterations}) for name, iterations in tasks],
        [*streams, ("right2", "out2")],
        kind="pi_viete",
    )


def _document(
    name: str, tasks: list[tuple[str, Found]], streams: list[tuple[str, str]], kind: str = "range_filter"
) -> Found:
    outputs = sorted({to for _, to in streams if to.startswith("out")})
    return {
        "version": 1,
        "name": name,
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": "numbers"}},
            *({"id": task, "type": kind, "config": config} for task, config in tasks),
            *({"id": output, "type": "output"} for output in outputs),
        ],
        "streams": [{"from": origin, "to": to} for origin, to in streams],
    }


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
