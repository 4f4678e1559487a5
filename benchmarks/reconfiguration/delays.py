"""Delays behind a backlog: tables 4 to 6 of Fries row by row, and its figures 15 and 16."""

import random
import statistics
import time
from pathlib import Path

from benchmarks.instruments import Figures, repeated, report
from benchmarks.manager_test_bed import SERVICE_PACE, MeasuredService, attended_service
from benchmarks.reconfiguration.installation import work_of
from benchmarks.reconfiguration.running_workflow import RunningWorkflow
from benchmarks.reconfiguration.workflows import WORKFLOWS
from braid_client import Client
from dags.vocabulary import Scheduler

_ROW_PACE = 0.1
"""So quick that no two tasks fit into one job."""
_SLOW_MS = 10.0
_BURST = 1_200
"""Events that come at once before each measurement. A slow task needs more than ten seconds for them."""
_BEHIND = 10.0
"""Seconds of a steady rate before a measurement."""
_TIMES = 5
"""The reconfigurations at each point that do not wait for the backlog."""
_RATE, _COST_MS = 80, 5.0
_RATES = (50, 150, 250)
"""Events a second, where two hundred are as many as the task can take."""
_COSTS = (5.0, 15.0, 25.0)
"""Milliseconds for each event, at the middle rate; a task that needs more than twelve falls behind."""


def rows(folder: Path, *, quick: bool) -> list[Figures]:
    """The delay of each row by each scheduler, in milliseconds.

    Rows of different workflows take turns, so that those of one are far apart without a wait.
    """
    figures: list[Figures] = []
    with attended_service(folder, pace=_ROW_PACE) as (service, ann, operator):
        work = work_of(_SLOW_MS)
        workflows = WORKFLOWS[1:2] if quick else WORKFLOWS
        running = [RunningWorkflow(service, ann, operator, workflow, work) for workflow in workflows]
        for one in running:
            one.burst(10)
            one.drain()
        for at in range(1 if quick else max(len(workflow.rows) for workflow in workflows)):
            turn = [one for one in running if at < len(one.workflow.rows)]
            made = [{"workflow": one.workflow.name, "changed": one.workflow.rows[at]} for one in turn]
            # Epochs pass through everything, so what is still on proof does not matter to them.
            for scheduler in (Scheduler.FRIES, Scheduler.UNPRUNED, Scheduler.EPOCH):
                for one, row in zip(turn, made, strict=True):
                    if scheduler is not Scheduler.UNPRUNED or one.workflow.is_pruned:
                        _measure(one, row, scheduler)
            figures += [report("row", row) for row in made]
    return figures


def _measure(running: RunningWorkflow, row: Figures, scheduler: Scheduler) -> None:
    if scheduler is not Scheduler.EPOCH:
        running.prove()
    begun = time.perf_counter()
    running.burst(int(_BURST * running.workflow.burst))
    # The first of them are under way.
    time.sleep(0.5)
    row[f"{scheduler}_ms"], components = running.delay(row["changed"], scheduler)
    ended = running.drain()
    if scheduler is Scheduler.FRIES:
        row |= {"components": components, "backlog_s": round(ended - begun, 1)}
    if scheduler is Scheduler.UNPRUNED:
        row["unpruned_components"] = components


def over_rate(folder: Path, *, quick: bool) -> list[Figures]:
    """Figure 15: delays of the inference behind ten seconds of so many events a second."""
    return [
        {"per_second": rate, **_behind(folder.with_name(f"{folder.name}-rate{rate}"), rate, _COST_MS)}
        for rate in (_RATES[-1:] if quick else _RATES)
    ]


def over_cost(folder: Path, *, quick: bool) -> list[Figures]:
    """Figure 16: delays of the inference that needs so many milliseconds for each event."""
    return [
        {"ms_per_event": cost, **_behind(folder.with_name(f"{folder.name}-cost{cost:g}"), _RATE, cost)}
        for cost in (() if quick else _COSTS)
    ]


def _behind(folder: Path, rate: float, cost: float) -> Figures:
    with attended_service(folder) as (service, ann, operator):
        return _steady(service, ann, operator, rate, cost)


def _steady(service: MeasuredService, ann: Client, operator: Client, rate: float, cost: float) -> Figures:
    running = RunningWorkflow(service, ann, operator, WORKFLOWS[0], work_of(cost))
    running.burst(10)
    running.drain()
    draw = random.Random(1)
    with repeated(lambda: running.burst(1), 1 / rate):
        time.sleep(_BEHIND)
        delays = []
        for _ in range(_TIMES):
            # At any moment of a batch.
            time.sleep(draw.uniform(0.0, SERVICE_PACE))
            delays.append(running.delay("FD", Scheduler.FRIES)[0])
        epoch = running.delay("FD", Scheduler.EPOCH)[0]
    return {"fries_ms": round(statistics.median(delays)), "most_ms": max(delays), "epoch_ms": epoch}
