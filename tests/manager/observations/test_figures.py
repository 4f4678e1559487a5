"""Figures of jobs and hosts, their shards, loads, costs and places, from the counters that hosts report."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid_client.answers.jobs import JobFigures, ShardFigures
from dags import Kind
from engine.plan import Ingress, Plan, Rated, Slot, Subscribed, Timed
from manager.observations.figures import (
    _WINDOW,
    SPACING,
    figures_of,
    group_events,
    host_loads,
    measured_costs,
    output_latency,
    placeable,
    remembered,
    shard_figures,
    stream_rate,
)
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.planner import Supplied
from merge import BATCH_SECONDS, Host, MeasuredCosts


def kept(*moments: Measured) -> tuple[Measured, ...]:
    """Return the samples that are kept of consecutive ones."""
    found: tuple[Measured, ...] = ()
    for each in moments:
        found = remembered(found, each)
    return found


def moment(at: float, entered: int, left: int = 0, *, run: int = 1, lag: int = 0) -> Measured:
    streams = {"s": StreamMeasured(entered=entered, lag_events=lag, lag_seconds=lag / 2)}
    late = {"p50": 0.5, "p99": 0.7}
    return Measured(
        at=at,
        run=run,
        streams=streams,
        left=left,
        batch_seconds={"p50": 0.1, "p99": 0.3},
        latency_seconds=late,
        outputs={"d": {"s": late, "silent": {}}},
    )


def test_a_job_without_reports_has_no_figures() -> None:
    """Nor has it rates before there are two samples."""
    assert JobFigures() == figures_of((), 5.0)
    first = figures_of(kept(moment(5.0, 100, 10, lag=3)), 5.0)
    assert (None, None, 3, 1.5, 0.1, 0.3) == (
        *(first.events_in_per_second, first.events_out_per_second, first.lag_events, first.lag_seconds),
        *(first.batch_seconds_p50, first.batch_seconds_p99),
    )


def test_rates_are_means_of_the_last_minute() -> None:
    """Earlier growth does not count, and a job that was silent for a minute has the rate zero."""
    moments = [moment(float(at), 1_000 * min(at, 30) + 10 * max(0, at - 30), at) for at in range(101)]
    figures = figures_of(kept(*moments), 100.0)
    assert (10.0, 1.0) == (figures.events_in_per_second, figures.events_out_per_second)
    later = figures_of(kept(*moments), 100.0 + _WINDOW)
    assert (0.0, 0.0, None) == (later.events_in_per_second, later.events_out_per_second, later.batch_seconds_p50)


def test_latencies_are_from_the_last_report() -> None:
    """Those of a job and of each output are unknown once the job was silent for a minute."""
    samples, known = kept(moment(5.0, 1)), {"p50": 0.5, "p99": 0.7}
    figures = figures_of(samples, 5.0)
    assert (0.5, 0.7) == (figures.latency_seconds_p50, figures.latency_seconds_p99)
    names = [("d", "s"), ("d", "silent"), ("d", "other"), ("other", "s")]
    assert [known, *[{}] * 3] == [output_latency(samples, *name, 5.0) for name in names]
    assert {} == output_latency((), "d", "s", 5.0)
    later = figures_of(samples, 5.0 + _WINDOW)
    assert (None, None) == (later.latency_seconds_p50, later.latency_seconds_p99)
    assert {} == output_latency(samples, "d", "s", 5.0 + _WINDOW)


def test_counters_of_a_restarted_job_start_again() -> None:
    """The fall of a counter is no negative growth."""
    figures = figures_of(kept(moment(0.0, 900), moment(1.0, 950), moment(2.0, 5, run=2), moment(4.0, 25, run=2)), 4.0)
    assert 10.0 == figures.events_in_per_second


def test_the_first_report_of_a_new_job_has_a_rate() -> None:
    """All its growth is since its start, if it started within the window; otherwise there is no rate yet."""
    began = [Measured(at=100.0, run=2, age=age, left=50) for age in (5.0, _WINDOW + 1.0)]
    for earlier in ((), kept(Measured(at=99.0, left=7))):
        figures = [figures_of(remembered(earlier, each), 100.0).events_out_per_second for each in began]
        assert [10.0, None] == figures


def test_streams_are_counted_separately() -> None:
    """A new stream counts from zero, a stream that is gone no longer counts, and the longest lag is the job's."""
    base = Measured(at=0.0, streams={"a": StreamMeasured(entered=5), "gone": StreamMeasured(entered=50)})
    streams = {
        "a": StreamMeasured(entered=25, lag_events=1, lag_seconds=0.5),
        "b": StreamMeasured(entered=10, lag_events=2, lag_seconds=2.5),
    }
    both = kept(base, Measured(at=10.0, streams=streams))
    figures = figures_of(both, 10.0)
    assert (3.0, 3, 2.5) == (figures.events_in_per_second, figures.lag_events, figures.lag_seconds)
    assert [2.0, 1.0, None] == [stream_rate(both, name, 10.0) for name in ("a", "b", "gone")]


@given(st.lists(st.floats(0.1, 20.0), min_size=1, max_size=60))
def test_few_samples_cover_the_whole_window(steps: list[float]) -> None:
    """The rate of a steady job is exact, even if it reports very often."""
    at, moments = 0.0, []
    for step in [0.0, *steps]:
        at += step
        moments.append(Measured(at=at, streams={"s": StreamMeasured(entered=round(at * 1_000_000))}))
    found = kept(*moments)
    assert moments[-1] == found[-1]
    assert found[0].at <= max(0.0, at - _WINDOW) + SPACING
    assert len(found) <= _WINDOW / SPACING * 2 + 3
    rate = stream_rate(found, "s", at)
    assert rate is None or abs(rate - 1_000_000) < 100


BEFORE = Measured(at=0.0, shards={0: 10**9}, groups={1: 100, 2: 100})
AFTER = Measured(at=10.0, shards={0: 6 * 10**9, 1: 2 * 10**9}, groups={1: 180, 2: 110, 7: 10})


def test_each_shard_has_its_cores_and_a_hot_group_is_named() -> None:
    """Group 1 has eight tenths of the events; a shard would have half if they were even."""
    expected = ShardFigures(shard_cores=(0.5, 0.2), hot_group=1, hot_group_part=0.8)
    assert expected == shard_figures((BEFORE, AFTER), 2, 10.0)
    assert (0, 80, 10, 0, 0, 0, 0, 10) == group_events((BEFORE, AFTER), 10.0)[:8]


def test_a_group_with_an_even_share_is_not_hot() -> None:
    """Two that share all events are one for each shard."""
    after = Measured(at=10.0, shards={0: 10**9, 1: 10**9}, groups={1: 150, 2: 150})
    assert ShardFigures(shard_cores=(0.0, 0.1)) == shard_figures((BEFORE, after), 2, 10.0)


def test_of_one_shard_nothing_is_shown() -> None:
    """Nor before there are two moments, or of a host that reports nothing."""
    assert ShardFigures() == shard_figures((BEFORE, AFTER), 1, 10.0) == shard_figures((AFTER,), 2, 10.0)
    assert ShardFigures() == shard_figures((Measured(), Measured(at=10.0)), 2, 10.0)
    assert () == group_events((Measured(), Measured(at=10.0)), 10.0)


def job_seen(job: str, host: str, *measured: Measured) -> JobSeen:
    return JobSeen(job=job, host=host, state="running", measured=measured, seen=datetime(2026, 1, 2, tzinfo=UTC))


def did(at: float, batch: int, *seconds: float) -> Measured:
    tasks = {number: InstanceMeasured(cpu_ns=round(each * 1e9)) for number, each in enumerate(seconds)}
    return Measured(at=at, batch=batch, instances=tasks)


def test_a_host_has_the_load_of_its_jobs() -> None:
    """What their tasks take, and the price of their batches; a job that has reported once is not known yet."""
    jobs = [
        job_seen("1", "a", did(0.0, 0, 0.0, 0.0), did(20.0, 40, 4.0, 6.0)),
        job_seen("2", "a", did(0.0, -1, 0.0), did(20.0, 40, 2.0)),
        job_seen("3", "b", did(20.0, 5, 9.0)),
    ]
    assert host_loads(jobs, 20.0) == pytest.approx({"a": 0.5 + 2 * BATCH_SECONDS + 0.1})


def test_batches_count_from_the_first_that_has_a_number() -> None:
    """A job that has just begun has done its tasks' work since then, and its batches since they are numbered."""
    jobs = [job_seen("1", "a", did(0.0, -1, 0.0), did(10.0, 500, 1.0), did(20.0, 510, 4.0))]
    assert host_loads(jobs, 20.0) == pytest.approx({"a": 0.2 + 1.0 * BATCH_SECONDS})


def test_the_load_of_a_silent_job_goes() -> None:
    """As its last minute does."""
    jobs = [job_seen("1", "a", did(0.0, 0, 0.0), did(20.0, 0, 10.0))]
    assert [host_loads(jobs, now)["a"] for now in (20.0, 45.0, 120.0)] == pytest.approx([0.5, 0.25, 0.0])


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


def counted(job: str, done: dict[int, tuple[float, int, int]], entered: int) -> JobSeen:
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
        "1": counted("1", {2: (0.5, 100, 50), 6: (0.1, 0, 0)}, 50),
        "2": counted("2", {3: (0.25, 100, 100), 4: (9.0, 1, 0)}, 1_000),
        "3": counted("3", {5: (0.75, 100, 0)}, 1_000),
    }
    found = measured_costs(plans, jobs, SOURCES, 10.0)
    assert {2: 0.05, 3: 0.025, 4: 0.9, 5: 0.075} == dict(found.busy)
    assert {"count": 0.005, "map": 9.0} == found.by_type
    assert {2: Fraction(1, 2), 3: Fraction(1), 4: Fraction(0), 5: Fraction(0)} == found.selectivity


def test_the_rate_of_a_source_is_that_of_its_fastest_reader() -> None:
    """A job that has just started to read it may measure less."""
    jobs = {"1": counted("1", {}, 50), "2": counted("2", {}, 1_000)}
    assert {"ann:s": 100.0} == measured_costs([plan("1"), plan("2")], jobs, SOURCES, 10.0).rates


def test_costs_can_be_limited_to_some_instances() -> None:
    """The costs of types then cover these alone."""
    jobs = {"1": counted("1", {2: (9.0, 100, 50), 3: (0.5, 100, 50)}, 50)}
    found = measured_costs([plan("1", (2, "count"), (3, "count"))], jobs, SOURCES, 10.0, only={3})
    assert ({3}, {3}, {"count": 0.005}) == (set(found.busy), set(found.selectivity), found.by_type)


def test_a_generator_has_its_declared_rate() -> None:
    """It has that rate until its events are counted. A topic without readers has no rate."""
    sources = SOURCES | {"ann:r": Supplied("r", Rated(per_second=40.0)), "ann:t": Supplied("t", Timed(seconds=4.0))}
    assert {"ann:r": 40.0, "ann:t": 0.25} == measured_costs([], {}, sources, 10.0).rates
    assert MeasuredCosts() == measured_costs([], {}, SOURCES, 10.0)


def host_seen(
    name: str, *, alive: bool = True, cores: float | None = None, tags: str = "", types: frozenset[str] | None = None
) -> HostSeen:
    return HostSeen(host=name, alive=alive, cores=cores, tags=frozenset(tags.split()), types=types, seen=NOW)


def test_live_hosts_have_their_reported_cores_and_tags() -> None:
    """They are ordered by name, and a host that is away is left out."""
    found = placeable(
        [host_seen("b", cores=8.0, tags="gpu big"), host_seen("c", alive=False), host_seen("a", cores=2.0)], None
    )
    assert (
        Host(name="a", cores=2.0),
        Host(name="b", cores=8.0, tags=frozenset({"gpu", "big"})),
    ) == found
    assert () == placeable([host_seen("c", alive=False)], None)
    # Its workers have left; that is not the same as if it did not say.
    assert [0.0, 1.0] == [host.cores for host in placeable([host_seen("a", cores=0.0), host_seen("b")], None)]


def test_the_local_host_is_placeable_before_it_runs() -> None:
    """It has its configured tags, and its own cores once it reports them."""
    here = Host(name="local", cores=4.0, tags=frozenset({"gpu"}))
    assert (here,) == placeable([], here)
    assert (here,) == placeable([host_seen("local", alive=False, cores=2.0)], here)
    assert [("a", 4.0), ("local", 2.0)] == [
        (host.name, host.cores) for host in placeable([host_seen("local", cores=2.0, tags="old"), host_seen("a")], here)
    ]
    assert here.tags == placeable([host_seen("local", tags="old")], here)[0].tags


def test_hosts_say_which_machine_carries_them() -> None:
    """So that its cores are counted once."""
    found = placeable(
        [replace(host_seen(name, cores=1.0), machine="m") for name in ("a", "b")], Host(name="b", cores=4.0)
    )
    assert [("a", 1.0, "m"), ("b", 1.0, "m")] == [(each.name, each.cores, each.machine) for each in found]


def test_hosts_that_are_away_keep_their_root() -> None:
    """They are listed as away, so that what their jobs run is not taken to another root."""
    here = Host(name="local", cores=4.0)
    away = replace(host_seen("a", alive=False), root="x")
    assert (Host(name="a", cores=4.0, root="x", away=True), here) == placeable([away], here)
    assert replace(here, root="y") == placeable([replace(host_seen("local"), root="y")], here)[0]
    assert replace(here, root="y") == placeable([replace(host_seen("local", alive=False), root="y")], here)[0]


def test_hosts_have_the_task_types_that_they_report() -> None:
    """Before a host has reported them it may have any."""
    some = frozenset({"map"})
    here = Host(name="local", cores=4.0)
    assert [None, some, some] == [
        host.types
        for host in placeable([host_seen("a"), host_seen("b", types=some), host_seen("local", types=some)], here)
    ]
