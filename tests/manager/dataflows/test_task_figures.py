"""Figures of a dataflow's tasks: measured where they run, shown to their tenant, and of others a number alone."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from braid_client.answers.dataflows import Stop, TaskFiguresAnswer, TaskState
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.problem import NotFound
from tests.manager.managers import ANN, BOB, EVE, OPERATOR, Manager, leading

LONG = "s:source > w:window > k:sink"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob", "eve"), sources=("weather", "traffic", "power"))


def measured(manager: Manager, job: str = "1", **more: Any) -> None:
    """As if its host had said that in the last 50 seconds source, window and sink saw 500, 400 and 100 events."""
    plan = manager.changes.jobs.wanted()[job].plan
    assert plan is not None
    (entering,) = plan.ingress
    window, sink = (slot.instance for slot in plan.slots)
    now = time.monotonic()
    did = {
        window: InstanceMeasured(cpu_ns=10**9, taken=500, emitted=100, dead=5),
        sink: InstanceMeasured(cpu_ns=10**8, taken=100, emitted=100),
    }
    streams = {entering.stream: StreamMeasured(entered=500, lag_events=7)}
    newest = Measured(at=now, run=1, batch=9, instances=did, states={window: 48_000}, streams=streams)
    status = {"state": "running", "version": plan.version, "in_effect": plan.version, **more}
    manager.seen.jobs[job] = JobSeen(
        job=job, host=plan.host, measured=(Measured(at=now - 50, run=1), newest), seen=AT, **status
    )


def figures(manager: Manager, dataflow: str) -> dict[str, TaskFiguresAnswer]:
    return {task.id: task for task in manager.service.dataflows.tasks(OPERATOR, dataflow).tasks}


def test_rates_loads_errors_and_states_are_those_of_the_last_minute(manager: Manager) -> None:
    """A source has the rate and the waiting events of those who read it; what did nothing has rates of zero."""
    dataflow = manager.submit("ann", LONG)
    measured(manager)
    shown = {task.id: task for task in manager.service.dataflows.tasks(ANN, dataflow).tasks}
    source, window, sink = shown["s"], shown["w"], shown["k"]
    assert (None, 7) == (source.events_in_per_second, source.lag_events)
    assert pytest.approx(10, rel=0.01) == source.events_out_per_second
    rates = (window.events_in_per_second, window.events_out_per_second, window.events_dead_per_second)
    assert pytest.approx((10, 2, 0.1), rel=0.01) == rates
    assert pytest.approx(0.02, rel=0.01) == window.cores
    assert (0, 5, 48_000) == (window.lag_events, window.events_dead, window.state_bytes)
    assert (0, None, TaskState.RUNNING) == (sink.events_dead, sink.state_bytes, sink.state)


def test_what_is_not_known_is_not_said(manager: Manager) -> None:
    """Before a job has run the plan that a task needs, its counters are of something else."""
    dataflow = manager.submit("ann", LONG)
    starting = figures(manager, dataflow)["w"]
    assert (TaskState.STARTING, None, None, None) == (
        starting.state,
        starting.events_in_per_second,
        starting.cores,
        starting.state_bytes,
    )
    measured(manager, in_effect=0)
    assert (TaskState.STARTING, None) == (
        figures(manager, dataflow)["w"].state,
        figures(manager, dataflow)["w"].events_in_per_second,
    )


def test_a_task_that_failed_or_whose_host_is_away_says_why(manager: Manager) -> None:
    """The one that failed alone, and all of them where the job is down."""
    dataflow = manager.submit("ann", LONG)
    plan = manager.changes.jobs.wanted()["1"].plan
    assert plan is not None
    measured(manager, failed={plan.slots[0].instance: "cannot divide"})
    shown = figures(manager, dataflow)
    assert (TaskState.FAILED, "cannot divide") == (shown["w"].state, shown["w"].reason)
    assert (TaskState.RUNNING, "") == (shown["k"].state, shown["k"].reason)
    manager.seen.every_host = (HostSeen(host=plan.host, alive=False, seen=AT),)
    shown = figures(manager, dataflow)
    assert {TaskState.DOWN} == {task.state for task in shown.values()}
    assert f"host {plan.host} is away" in shown["k"].reason


def test_of_others_a_tenant_learns_how_many_share_a_task_and_to_the_hour_since_when(manager: Manager) -> None:
    """Also those that came later count, and none that is gone; whose they are is nowhere in the answer."""
    first = manager.submit("ann", LONG)
    assert {0} == {task.others for task in manager.service.dataflows.tasks(ANN, first).tasks}
    second, third = manager.submit("bob", LONG), manager.submit("eve", "s:source > w:window > m:map > k:sink")
    answer = manager.service.dataflows.tasks(ANN, first)
    assert {"s": 2, "w": 2, "k": 1} == {task.id: task.others for task in answer.tasks}
    assert not any(secret in answer.model_dump_json() for secret in ('"bob"', '"eve"', second, third))
    began = {task.id: task.since for task in answer.tasks}
    of_bob = manager.service.dataflows.tasks(BOB, second).tasks
    assert {began[task.id].replace(minute=0, second=0, microsecond=0) for task in of_bob} == {
        task.since for task in of_bob
    }
    manager.service.dataflows.remove(BOB, second, Stop.NOW)
    assert {"s": 1, "w": 1, "k": 0} == {
        task.id: task.others for task in manager.service.dataflows.tasks(ANN, first).tasks
    }


def test_others_figures_look_like_those_of_no_dataflow(manager: Manager) -> None:
    """Also where another shares every task; and a removed dataflow has none."""
    dataflow = manager.submit("ann", LONG)
    manager.submit("bob", LONG)
    answers = []
    for name in (dataflow, "d-000000000000"):
        with pytest.raises(NotFound) as refused:
            manager.service.dataflows.tasks(EVE, name)
        answers.append((refused.value.detail.replace(name, "?"), refused.value.errors))
    assert answers[0] == answers[1]
    manager.service.dataflows.remove(ANN, dataflow, Stop.NOW)
    assert () == manager.service.dataflows.tasks(ANN, dataflow).tasks
