"""A surge of events that is too much for a task, until its config is changed for a cheaper one."""

import json
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.manager_test_bed import MeasuredService, serving
from manager.answers import ReconfigurationForm, SourceForm, SubmitAnswer
from manager.client import Client
from merge.reconfiguration.switches import Scheduler

_CALM, _SURGE = 40, 250
"""Events a second before the surge and in it."""
_EXPENSIVE, _CHEAP = 10_000, 100
"""Iterations of the model before and after."""
_NOTICED = 10.0
"""Seconds from the beginning of the surge until somebody acts."""
_WATCHED = 30.0
"""Seconds from then on for which the latency is watched."""
_GOOD = 2.0
"""Seconds of latency that are as good as before."""
_NEVER = "none"
Found = dict[str, Any]


def surges(folder: Path, *, quick: bool) -> Found:
    """For each way to act the seconds until latency is good again; None if it never was while it was watched."""
    ways = (str(Scheduler.FRIES), _NEVER) if quick else (str(Scheduler.FRIES), str(Scheduler.EPOCH), _NEVER)
    return {way: _surge(folder.with_name(f"{folder.name}-{way}"), way) for way in ways}


def _surge(folder: Path, way: str) -> float | None:
    with serving(folder) as service:
        service.start()
        service.listen()
        service.events = {}
        with Client(service.url, service.admit("ann")) as ann, service.operator() as operator:
            ann.register_source(
                SourceForm.model_validate(
                    {"name": "raw", "connection": {"kind": "topic", "topic": "raw"}, "schema": {"n": "integer"}}
                )
            )
            flow = ann.submit(_document(_EXPENSIVE))
            while ann.dataflow(flow.id).state != "running":
                time.sleep(0.05)
            sending = _Sending(service)
            sending.start()
            service.first_output(flow.outputs[0].topic)
            time.sleep(_NOTICED / 2)
            sending.per_second = _SURGE
            time.sleep(_NOTICED)
            acted = time.perf_counter()
            if way != _NEVER:
                form = ReconfigurationForm(
                    tasks={"model": {"config": {"iterations": _CHEAP}}}, scheduler=Scheduler(way)
                )
                operator.reconfigure(flow.id, form)
            time.sleep(max(0.0, acted + _WATCHED - time.perf_counter()))
            sending.stop()
            return _good_again(service, flow, sending.sent, acted)


def _good_again(service: MeasuredService, flow: SubmitAnswer, sent: list[float], acted: float) -> float | None:
    """Seconds from the act until no event that came later was late."""
    # The model emits one event for one, in order.
    left = [at for at, events in (service.events or {}).get(flow.outputs[0].topic, []) for _ in events]
    if sent[-1] - sent[len(left) - 1] > _GOOD:
        return None
    late = [at for at, begun in zip(left, sent, strict=False) if at - begun > _GOOD]
    return round(max([acted, *late]) - acted, 1)


class _Sending(threading.Thread):
    """Sends numbered events, and knows when each was sent."""

    def __init__(self, service: MeasuredService) -> None:
        super().__init__(daemon=True)
        self.per_second = _CALM
        self.sent: list[float] = []
        self._service = service
        self._stopping = threading.Event()

    def run(self) -> None:
        """Send until it is stopped."""
        due = time.perf_counter()
        while not self._stopping.is_set():
            now = time.perf_counter()
            while due <= now:
                self.sent.append(time.perf_counter())
                self._service.publish("raw", json.dumps({"n": len(self.sent)}).encode())
                due += 1 / self.per_second
            self._stopping.wait(0.01)

    def stop(self) -> None:
        """Send no more."""
        self._stopping.set()
        self.join()


def _document(iterations: int) -> Found:
    return {
        "version": 1,
        "name": "surge",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": "raw"}},
            {"id": "model", "type": "pi_viete", "config": {"iterations": iterations}},
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "in", "to": "model"}, {"from": "model", "to": "out"}],
    }
