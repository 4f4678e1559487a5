"""The start of instances, the life cycle of a job, its lag, and the times of its latest batches."""

from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job.lifecycle import JOB_LIFE, ImpossibleTurn, JobEvent, JobState, next_state
from engine.job.pace import _COUNTED_SECONDS, _MOST_COUNTED, BatchTimes, percentile
from engine.job.plan_log import JobProgress, check_return, past_gone, returning, start_positions
from engine.job.query import JobLag, Lag
from engine.kernel.plans import brought
from engine.offset import Offset
from engine.plan import Bridged, Edge, Entry, Ingress, Plan, Slot, StateImport
from engine.plan_messages import RefusedPlan
from engine.records.job_folder import KeptCut

KEPT = [
    KeptCut("c", 4, (1, 7), {"s": 10}),
    KeptCut("c", 6, (2, 8), {"t": 20}),
    # Its marker came a second time.
    KeptCut("c", 9, (1, 7), {"s": 15}),
]


def plan(*slots: int, start: int | None = None, imports: tuple[StateImport, ...] = ()) -> Plan:
    return Plan(
        job="j",
        host="h",
        version=1,
        slots=tuple(Slot(instance=each, type="count", inputs=(Edge(parent=1),)) for each in slots),
        ingress=(Ingress(stream="s", instance=1, supply=Bridged(), start=start),),
        imports=imports,
    )


def entry(number: int, what: Plan) -> Entry:
    return Entry(number=number, plan=what, starts={})


BACK = StateImport(instance=7, job="j", cut="c")
OTHER = StateImport(instance=7, job="another", cut="c")


def test_an_instance_that_returns_is_found_in_the_first_part_of_its_cut() -> None:
    """Only cuts of its own job count, with the name that the plan gives."""
    assert {7: KEPT[0]} == returning(KEPT, plan(7, imports=(BACK, replace(BACK, instance=9))))
    assert {} == returning(KEPT, plan(7, imports=(OTHER, replace(BACK, cut="d"))))


def test_an_instance_that_never_left_goes_on_as_it_is() -> None:
    """An instance from another job is always imported, because it may have left and run there since."""
    begun = [entry(2, plan()), entry(3, plan(7, imports=(BACK, OTHER)))]
    assert [OTHER] == list(brought(begun, plan(7)))
    assert [BACK, OTHER] == list(brought(begun, plan()))
    assert [BACK, OTHER] == list(brought(begun, None))


def test_a_stream_goes_on_where_it_is_until_the_job_has_surely_left_it() -> None:
    """Even if a position is named: between a record and the next decided end the job may or may not have left it."""
    reads = JobProgress({"s": 5}, plan(7), Offset(run=1, entry=1, at={"s": 6}))
    assert {"s": 5} == start_positions(plan(7), {"s": 99}, reads)
    assert {"s": 5} == start_positions(plan(7, start=9), {"s": 9}, reads)
    assert {"s": 5} == start_positions(plan(7, start=9), {"s": 9}, reads._replace(decided=None))
    let_go = reads._replace(decided=Offset(run=1, entry=2))
    assert {"s": 5} == start_positions(plan(7), {"s": 99}, let_go)
    assert {"s": 9} == start_positions(plan(7, start=9), {"s": 9}, let_go)
    assert {"s": 99} == start_positions(plan(7), {"s": 99}, JobProgress({}, plan(), None))
    # The plan before it has the stream already.
    assert {"s": 3} == start_positions(plan(7), {"s": 3}, reads, {"s": 3})


def test_an_instance_cannot_return_if_its_stream_was_read_on() -> None:
    """It can if it is still there, or if its streams are where it left."""
    back = returning(KEPT, plan(7, imports=(BACK,)))
    check_return(plan(7), back, JobProgress({"s": 12}, plan(7), None))
    check_return(plan(7), back, JobProgress({"s": 10}, plan(), None))
    check_return(plan(7), back, JobProgress({}, plan(), None))
    # Another part was cut in the same batch, and has gone on.
    merged = KEPT[0]._replace(positions={"s": 10, "t": 20})
    check_return(plan(7), {7: merged}, JobProgress({"t": 25}, plan(), None))
    with pytest.raises(RefusedPlan, match="has read that on to 12 for others; let all that reads one stream"):
        check_return(plan(7), back, JobProgress({"s": 12}, plan(), None))


def test_a_stream_begins_after_the_events_that_are_gone() -> None:
    """Other streams begin where they did, and so do those that begin later anyway."""
    ran = replace(entry(1, plan(2)), starts={"a": 3, "b": 4, "c": 9})
    assert {"a": 5, "b": 4, "c": 9} == past_gone(ran, {"a": 5, "c": 6}).starts
    assert ran == past_gone(ran, {})


def test_every_state_is_in_the_table() -> None:
    """Each state has a row, and each is reached from some other."""
    assert set(JOB_LIFE) == set(JobState)
    reached = {after for events in JOB_LIFE.values() for after in events.values()}
    assert reached == set(JobState)


def test_a_job_can_end_from_every_state() -> None:
    """From each state some events lead to the end, and from there none leads on."""
    graph = nx.DiGraph((state, after) for state, events in JOB_LIFE.items() for after in events.values())
    for state in JobState:
        assert nx.has_path(graph, state, JobState.STOPPED)
    assert JOB_LIFE[JobState.STOPPED] == {}


def test_an_impossible_event_is_refused() -> None:
    """An event that the table does not have raises an error, and is not passed over."""
    with pytest.raises(ImpossibleTurn, match="a job that is stopped cannot meet"):
        next_state(JobState.STOPPED, JobEvent.STOP)


def test_events_wait_since_they_were_seen() -> None:
    """Each event waits since the beat at which the end of the spool was first beyond it."""
    lag = JobLag(lambda _stream, _position: None)
    lags = [
        lag.note({"s": end}, {"s": position}, now)["s"]
        for now, end, position in [(0.0, 5, 5), (1.0, 7, 5), (2.0, 9, 5), (3.0, 9, 7), (4.0, 9, 8), (5.0, 9, 9)]
    ]
    assert [Lag(0, 0.0), Lag(2, 0.0), Lag(4, 1.0), Lag(2, 1.0), Lag(1, 2.0), Lag(0, 0.0)] == lags


def test_events_from_before_the_start_are_looked_up_once() -> None:
    """If that fails they wait from now on; a stream that is left is forgotten."""
    asked: list[tuple[str, int]] = []

    def came(stream: str, position: int) -> float | None:
        asked.append((stream, position))
        return {"a": 40.0}.get(stream)

    lag = JobLag(came)
    lags = [lag.note({"a": 3, "b": 3, "c": 3}, {"a": 1, "b": 1, "c": 3}, now) for now in (100.0, 101.0)]
    assert {"a": Lag(2, 61.0), "b": Lag(2, 1.0), "c": Lag(0, 0.0)} == lags[-1]
    assert [("a", 1), ("b", 1)] == asked
    assert ["c"] == list(lag.note({"c": 4}, {"c": 3}, 102.0))
    lag.note({"a": 3}, {"a": 1}, 103.0)
    assert [("a", 1), ("b", 1), ("a", 1)] == asked


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_a_job_that_has_read_everything_is_not_behind(beats: list[tuple[int, int]]) -> None:
    """The lag of any other is the time since its oldest waiting event was first noted."""
    lag = JobLag(lambda _stream, _position: None)
    end = position = 0
    noted: list[int] = []
    for now, (came, done) in enumerate(beats):
        end, position = end + came, min(position + done, end + came)
        noted.append(end)
        oldest = next((at for at, reached in enumerate(noted) if reached > position), now)
        assert Lag(end - position, float(now - oldest)) == lag.note({"s": end}, {"s": position}, float(now))["s"]


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def batch(times: BatchTimes, clock: Clock, seconds: float) -> None:
    times.begin()
    clock.now += seconds
    times.end()


def test_the_latest_batches_count(clock: Clock) -> None:
    """Batches older than the window do not count, and neither does the time between batches."""
    times = BatchTimes(clock)
    assert {} == times.percentiles()
    batch(times, clock, 9.0)
    clock.now += 10.0
    times.end()
    for seconds in (0.5, 0.25, 1.0):
        batch(times, clock, seconds)
    assert {"p50": 0.5, "p99": 9.0} == times.percentiles()
    clock.now += _COUNTED_SECONDS - 5.0
    assert {"p50": 0.5, "p99": 1.0} == times.percentiles()
    clock.now += _COUNTED_SECONDS
    assert {} == times.percentiles()


def test_only_so_many_batches_count(clock: Clock) -> None:
    """A job with a short pace keeps no more of them in memory."""
    times = BatchTimes(clock)
    batch(times, clock, 5.0)
    for _ in range(_MOST_COUNTED):
        batch(times, clock, 0.015625)
    assert {"p50": 0.0156, "p99": 0.0156} == times.percentiles()


@given(st.lists(st.integers(min_value=0, max_value=99), min_size=1), st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_the_given_part_of_values_is_not_above_its_percentile(values: list[int], part: float) -> None:
    """The percentile is the smallest value for which that is true."""
    ordered = sorted(map(float, values))
    found = percentile(ordered, part)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= part * len(ordered)
    assert sum(value < found for value in ordered) < part * len(ordered)
