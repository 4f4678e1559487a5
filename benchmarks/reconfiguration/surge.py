"""Figure 13: a surge of events that is too much for a task, until its config is changed for a cheaper one."""

import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.instruments import Figures
from benchmarks.manager_test_bed import attended_service
from benchmarks.reconfiguration.installation import work_of
from benchmarks.reconfiguration.one_job import document
from benchmarks.reconfiguration.running_workflow import SteadyEvents
from braid_client import Client
from braid_client.answers.reconfigurations import ReconfigurationForm
from dags.vocabulary import Scheduler

_CALM, _SURGE = 40, 250
"""Events a second before the surge and in it."""
_EXPENSIVE_MS = 10.0
"""For each event, with the model before; the one after costs a hundredth."""
_NOTICED = 10.0
"""Seconds from the beginning of the surge until somebody acts."""
_WATCHED = 30.0
"""Seconds from then on for which the latency is watched."""
_GOOD = 2.0
"""Seconds of latency that are as good as before."""
_NEVER, _RESTART = "none", "restart"


def surges(folder: Path, *, quick: bool) -> Figures:
    """For each way to act, what became of the events.

    `good_after_s` are the seconds until latency was good again; None if it never was while it was watched.
    """
    ways = (str(Scheduler.FRIES), _RESTART) if quick else (str(Scheduler.FRIES), str(Scheduler.EPOCH), _RESTART, _NEVER)
    return {way: _surge(folder.with_name(f"{folder.name}-{way}"), way) for way in ways}


def _surge(folder: Path, way: str) -> Figures:
    with attended_service(folder) as (service, ann, operator):
        work = work_of(_EXPENSIVE_MS)
        sending = SteadyEvents(service, _CALM)
        flow = sending.begin(ann, document("surge", "bench:inference", {"work": work}))
        time.sleep(_NOTICED / 2)
        sending.per_second = _SURGE
        time.sleep(_NOTICED)
        acted = time.perf_counter()
        _act(way, ann, operator, flow.id, work // 100)
        time.sleep(max(0.0, acted + _WATCHED - time.perf_counter()))
        sending.stop()
        return _outcome({event["n"]: at for at, event in service.came()}, sending.sent, acted)


def _act(way: str, ann: Client, operator: Client, flow: str, work: int) -> None:
    """Have the task need less: by a reconfiguration, or as a tenant does without one."""
    if way == _RESTART:
        ann.remove(flow)
        ann.submit(document("surge anew", "bench:inference", {"work": work}))
    elif way != _NEVER:
        form = ReconfigurationForm(tasks={"task": {"config": {"work": work}}}, scheduler=Scheduler(way))
        operator.reconfigure(flow, form)


def _outcome(left: Mapping[int, float], sent: list[float], acted: float) -> Figures:
    last = sent[max(left)]
    late = [at for number, at in left.items() if at - sent[number] > _GOOD]
    good = None if sent[-1] - last > _GOOD else round(max([acted, *late]) - acted, 1)
    # A restart answers at once with what comes then, so it is good from its first event on.
    came = min((at for at in left.values() if at > acted and at not in late), default=None)
    if good is not None and came is not None:
        good = max(good, round(came - acted, 1))
    lost = sum(number not in left for number in range(max(left)))
    worst = max(at - sent[number] for number, at in left.items())
    return {"good_after_s": good, "worst_latency_s": round(worst, 1), "lost": lost}
