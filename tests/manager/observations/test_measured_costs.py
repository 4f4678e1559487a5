"""Costs and rates, from the reports of jobs."""

from datetime import UTC, datetime
from fractions import Fraction

from dags import Kind
from engine.plan import Ingress, Plan, Rated, Slot, Subscribed, Timed
from manager.observations.figures import measured_costs
from manager.observations.reports import InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.planner import Supplied
from merge import MeasuredCosts

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SUPPLY = Subscribed(topic="t", fields={"n": Kind.INTEGER})
SOURCES = {"ann:s": Supplied("s", SUPPLY)}


def plan(job: str, *slots: tuple[int, str]) -> Plan:
    return Plan(
        job=job,
        host="h",
        version=1,
        slots=tuple(Slot(instance=instance, type=name, inputs=()) for instance, name in slots),
        ingress=(Ingress(stream="s", instance=1, supply=SUPPLY),),
    )


def seen(job: str, done: dict[int, tuple[float, int, int]], entered: int) -> JobSeen:
    """Return a job's counters after ten seconds: CPU seconds, events in and out of each instance, and events read."""
    instances = {
        each: InstanceMeasured(cpu_ns=round(cpu * 1e9), taken=taken, emitted=emitted)
        for each, (cpu, taken, emitted) in done.items()
    }
    measured = (
        Measured(at=0.0, streams={"s": StreamMeasured()}),
        Measured(at=10.0, instances=instances, streams={"s": StreamMeasured(entered=entered)}),
    )
    return JobSeen(job=job, host="h", state="running", measured=measured, seen=NOW)


def test_each_instance_and_each_type_has_its_cost() -> None:
    """The cost of a type is all its CPU divided by all its events, over all jobs.

    An instance without events has no cost.
    """
    plans = [plan("1", (2, "count"), (6, "idle")), plan("2", (3, "count"), (4, "map")), plan("3", (5, "count"))]
    jobs = {
        "1": seen("1", {2: (0.5, 100, 50), 6: (0.1, 0, 0)}, 50),
        "2": seen("2", {3: (0.25, 100, 100), 4: (9.0, 1, 0)}, 1_000),
        "3": seen("3", {5: (0.75, 100, 0)}, 1_000),
    }
    found = measured_costs(plans, jobs, SOURCES, 10.0)
    assert {2: 0.05, 3: 0.025, 4: 0.9, 5: 0.075} == dict(found.busy)
    assert {"count": 0.005, "map": 9.0} == found.by_type
    assert {2: Fraction(1, 2), 3: Fraction(1), 4: Fraction(0), 5: Fraction(0)} == found.selectivity


def test_the_rate_of_a_source_is_that_of_its_fastest_reader() -> None:
    """A job that has just started to read it may measure less."""
    jobs = {"1": seen("1", {}, 50), "2": seen("2", {}, 1_000)}
    assert {"ann:s": 100.0} == measured_costs([plan("1"), plan("2")], jobs, SOURCES, 10.0).rates


def test_costs_can_be_limited_to_some_instances() -> None:
    """The costs of types then cover these alone."""
    jobs = {"1": seen("1", {2: (9.0, 100, 50), 3: (0.5, 100, 50)}, 50)}
    found = measured_costs([plan("1", (2, "count"), (3, "count"))], jobs, SOURCES, 10.0, only={3})
    assert ({3}, {3}, {"count": 0.005}) == (set(found.busy), set(found.selectivity), found.by_type)


def test_a_generator_has_its_declared_rate() -> None:
    """It has that rate until its events are counted. A topic without readers has no rate."""
    sources = SOURCES | {"ann:r": Supplied("r", Rated(per_second=40.0)), "ann:t": Supplied("t", Timed(seconds=4.0))}
    assert {"ann:r": 40.0, "ann:t": 0.25} == measured_costs([], {}, sources, 10.0).rates
    assert MeasuredCosts() == measured_costs([], {}, SOURCES, 10.0)
