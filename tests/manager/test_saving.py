"""What sharing is predicted to save, and what that rests on."""

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Kind
from engine.plan import Ingress, Plan, Slot
from engine.supply import Subscribed
from manager.answers import Basis
from manager.committing.seen import InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.saving import EVENT, Known, Prospect, known, saving, taken
from tests.notation import flow

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TASK = Prospect(instance=2, type="count", streams=frozenset({"s"}))


def plan(job: str, *slots: tuple[int, str]) -> Plan:
    supply = Subscribed(topic="t", fields={"n": Kind.INTEGER})
    return Plan(
        job=job,
        host="h",
        version=1,
        slots=tuple(Slot(instance=instance, type=name, inputs=()) for instance, name in slots),
        ingress=(Ingress(stream="s", instance=1, supply=supply),),
    )


def seen(job: str, done: dict[int, tuple[float, int]], entered: int, *, begun: float = 0.0) -> JobSeen:
    """A job that did this in ten seconds: the CPU seconds and events of each instance, and what came in."""
    instances = {each: InstanceMeasured(cpu_ns=round(cpu * 1e9), taken=taken) for each, (cpu, taken) in done.items()}
    measured = (
        Measured(at=begun, streams={"s": StreamMeasured()}),
        Measured(at=begun + 10.0, instances=instances, streams={"s": StreamMeasured(entered=entered)}),
    )
    return JobSeen(job=job, host="h", state="running", measured=measured, seen=NOW)


def test_a_task_that_runs_is_measured_where_it_runs() -> None:
    """Whatever others of its type cost, and however few of its sources' events come to it."""
    plans = [plan("1", (2, "count"), (3, "count"))]
    jobs = {"1": seen("1", {2: (0.5, 100), 3: (9.0, 10)}, 1_000)}
    told = saving([TASK], [999.0], known([TASK], plans, jobs, 10.0), opened=1, job=0.06, busy=1.0)
    assert (0.05, 0.05, 0.0) == (told.cores, told.task_cores, told.batch_cores)
    assert {Basis.MEASURED: 1, Basis.TYPE: 0, Basis.ASSUMED: 0} == told.rests_on


def test_for_one_that_has_just_begun_its_type_stands_in() -> None:
    """In whichever jobs that runs: all its CPU over all its events, times the events of the sources."""
    plans = [plan("1", (2, "count")), plan("2", (3, "count"), (4, "map")), plan("3", (5, "count"))]
    jobs = {
        "1": seen("1", {}, 50),
        "2": seen("2", {3: (0.25, 100), 4: (9.0, 1)}, 1_000),
        "3": seen("3", {5: (0.75, 100)}, 1_000),
    }
    measured = known([TASK], plans, jobs, 10.0)
    assert ({}, {"count": 0.005}, {"s": 100.0}) == (measured.busy, measured.by_type, measured.rates)
    told = saving([TASK], [100.0], measured, opened=1, job=0.06, busy=1.0)
    assert (0.5, {Basis.MEASURED: 0, Basis.TYPE: 1, Basis.ASSUMED: 0}) == (told.cores, told.rests_on)


@pytest.mark.parametrize(("rates", "cores"), [({"s": 100.0, "r": 9.0}, EVENT * 100.0), ({"r": 9.0}, 0.25)])
def test_what_is_not_known_is_assumed(rates: dict[str, float], cores: float) -> None:
    """An event of a task whose type never ran, and a task whose sources' rate nobody told."""
    told = saving([TASK], [100.0 if "s" in rates else 1.0], Known(rates=rates), opened=1, job=0.06, busy=0.25)
    assert (cores, {Basis.MEASURED: 0, Basis.TYPE: 0, Basis.ASSUMED: 1}) == (told.cores, told.rests_on)


@pytest.mark.parametrize(("opened", "cores"), [(0, 0.06), (1, 0.0), (2, 0.0)])
def test_who_opens_no_job_saves_its_batches(opened: int, cores: float) -> None:
    """Also where nothing is reused, and never less than nothing."""
    told = saving([], [], Known(), opened=opened, job=0.06, busy=1.0)
    assert (cores, cores, 0.0) == (told.cores, told.batch_cores, told.task_cores)


@given(st.lists(st.sampled_from([2, 3, 4]), unique=True), st.integers(0, 2))
def test_a_saving_is_the_sum_of_its_parts(instances: list[int], opened: int) -> None:
    """Each reused task adds its own, and each counts for what it rests on."""
    measured = Known(busy={2: 0.5}, by_type={"map": 0.001}, rates={"s": 10.0})
    every = [Prospect(instance=each, type={3: "map"}.get(each, "x"), streams=frozenset({"s"})) for each in instances]

    def cores(reused: list[Prospect]) -> float:
        return saving(reused, [10.0] * len(reused), measured, opened=opened, job=0.06, busy=1.0).task_cores

    assert sum(cores([each]) for each in every) == pytest.approx(cores(every))
    told = saving(every, [10.0] * len(every), measured, opened=opened, job=0.06, busy=1.0)
    assert told.task_cores + told.batch_cores == pytest.approx(told.cores)
    assert len(every) == sum(told.rests_on.values())


def test_work_is_that_of_all_tasks_and_a_source_does_none() -> None:
    """What starts is weighed by its type and the events that come to it, and what that rests on is said."""
    source = Prospect(instance=1, type="source", is_source=True, streams=frozenset({"s"}))
    starts = Prospect(instance=None, type="map", streams=frozenset({"s"}))
    unheard = Prospect(instance=None, type="x", streams=frozenset({"s"}))
    measured = Known(busy={2: 0.5}, by_type={"map": 0.001}, rates={"s": 100.0})
    told = saving([source, TASK, starts], [100.0, 100.0, 400.0], measured, opened=1, job=0.06, busy=1.0)
    assert (2, 3, round(0.5 / 0.9, 6)) == (told.tasks, told.of_tasks, told.work)
    assert {Basis.MEASURED: 1, Basis.TYPE: 1, Basis.ASSUMED: 0} == told.work_rests_on
    told = saving([source, TASK, unheard], [100.0, 100.0, 400.0], measured, opened=1, job=0.06, busy=1.0)
    assert (round(0.5 / (0.5 + 400 * EVENT), 6), 1) == (told.work, told.work_rests_on[Basis.ASSUMED])
    assert saving([source], [100.0], measured, opened=1, job=0.06, busy=1.0).work is None


def test_events_come_to_a_task_as_its_sources_send_and_what_runs_lets_through() -> None:
    """Where nobody knows a source it sends one event, and a task that would start gives one for one."""
    dataflow = flow("s:source > a:map > k:sink s > b:map{'add': 1} > k t:source{'source': 'traffic'} > b")
    streams = {"weather": "s", "traffic": "t"}
    prospects = [
        Prospect(
            instance=None if task.config == {"add": 1} else number,
            type=task.type.name,
            is_source=task.type.is_source,
            streams=frozenset({streams[task.config["source"]]} if task.type.is_source else ()),
        )
        for number, task in enumerate(dataflow.tasks)
    ]
    at = {name: dataflow.places[name] for name in dataflow.places}
    measured = Known(rates={"s": 10.0}, selectivity={at["a"]: Fraction(1, 4)})
    found = taken(dataflow, prospects, measured)
    assert (10.0, 1.0, 10.0, 11.0, 13.5) == tuple(found[at[name]] for name in ("s", "t", "a", "b", "k"))
