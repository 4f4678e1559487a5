"""The life of a dataflow, found from its jobs; and live events, the state changes of jobs among them."""

import threading
from dataclasses import replace
from itertools import accumulate, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid_client.answers.dataflows import DataflowState
from bridge.connectors.connector_run import LinkState
from engine.host.spools import Received
from engine.job.lifecycle import JOB_LIFE, JobState
from manager.kernel.dataflow_life import (
    DATAFLOW_LIFE,
    DRAINS,
    REMOVED,
    DataflowEvent,
    DataflowFinding,
    ImpossibleDataflowTurn,
    Need,
    find,
    passed,
    path,
    turn,
)
from manager.kernel.live_events import UNSEEN, LiveEvents, between, job_news
from manager.observations.reports import HostSeen, JobSeen
from manager.observations.sight import JobSight
from tests.manager.jobs.worlds import NOW

NEED = Need(job="1", host="h", version=3, instances=frozenset({7, 8}))
WELL = JobSeen(job="1", host="h", state=JobState.RUNNING, version=3, term=1, in_effect=3, seen=NOW)
THERE = {"h": HostSeen(host="h", alive=True, seen=NOW)}


def found(seen: JobSeen | None, hosts: dict[str, HostSeen] | None = None) -> tuple[DataflowState, str]:
    """Return the state of a dataflow with one job, with the reason."""
    finding = find([NEED], {} if seen is None else {"1": seen}, THERE if hosts is None else hosts)
    return finding.state, finding.reason


def test_the_table_has_every_state_and_uses_every_event() -> None:
    """A removed dataflow has no more events, and every other state can be left by removal."""
    assert set(DataflowState) == set(DATAFLOW_LIFE)
    assert set(DataflowEvent) == {event for turns in DATAFLOW_LIFE.values() for event in turns}
    assert {} == DATAFLOW_LIFE[DataflowState.REMOVED]
    alive = set(DataflowState) - {DataflowState.REMOVED}
    assert {DataflowState.REMOVED} == {turn(state, DataflowEvent.REMOVE) for state in alive}


def test_an_event_outside_the_table_is_an_error() -> None:
    """The error names the state and the event."""
    with pytest.raises(ImpossibleDataflowTurn, match="a dataflow that is removed cannot meet"):
        turn(DataflowState.REMOVED, DataflowEvent.DEPLOYED)


def test_a_dataflow_runs_once_its_plan_is_in_effect() -> None:
    """A logged plan is not enough, and a newer plan is as good."""
    waits = "job 1 has not run version 3 of its plan yet"
    assert (DataflowState.DEPLOYING, waits) == found(None)
    assert (DataflowState.DEPLOYING, waits) == found(replace(WELL, in_effect=2))
    assert (DataflowState.DEPLOYING, waits) == found(replace(WELL, host="another"))
    assert (DataflowState.RUNNING, "") == found(WELL)
    assert (DataflowState.RUNNING, "") == found(replace(WELL, in_effect=4, version=5))


def test_a_failed_task_degrades_its_dataflows() -> None:
    """The reason names the task; failed tasks of other dataflows change nothing."""
    reason = "task instance 8 in job 1 has failed: division by zero"
    assert (DataflowState.DEGRADED, reason) == found(replace(WELL, failed={8: "division by zero"}))
    assert (DataflowState.RUNNING, "") == found(replace(WELL, failed={9: "division by zero"}))


def test_a_job_that_is_down_degrades_its_dataflows() -> None:
    """The reason says whether it died, its plan was refused or its host is away, and what happens next."""
    assert (
        DataflowState.DEGRADED,
        "job 1 died and is started again after a while: disk full",
    ) == found(replace(WELL, state=JobState.DIED, trouble="disk full"))
    assert (
        DataflowState.DEGRADED,
        "host h refused the plan of job 1: no such type",
    ) == found(replace(WELL, version=2, in_effect=2, refused="no such type"))
    away = {"h": replace(THERE["h"], alive=False)}
    assert (
        DataflowState.DEGRADED,
        "host h is away; job 1 goes on where it was once the host is back",
    ) == found(WELL, away)


READS = replace(WELL, positions={"source/1": 4, "j/2/out": 0})


def supplying(name: str = "h", /, **states: str) -> dict[str, HostSeen]:
    """Hosts of which one says how the streams are that the job reads."""
    return {name: HostSeen(host=name, alive=True, spools={"source/1": "ready", "j/2/out": "full", **states}, seen=NOW)}


def test_a_dataflow_runs_only_while_what_it_reads_is_received() -> None:
    """Until its host says so, it is deploying; once the host says that it is not, degraded. Others count nothing."""
    unheard = "no host has said yet that it receives j/2/out, source/1 for job 1"
    assert (DataflowState.DEPLOYING, unheard) == found(READS)
    assert (DataflowState.DEPLOYING, unheard) == found(READS, {})
    assert (DataflowState.RUNNING, "") == found(READS, supplying(**{"source/9": "no room"}))
    unsubscribed = "host h is not connected to the broker for source/1, which job 1 reads"
    assert (DataflowState.DEGRADED, unsubscribed) == found(READS, supplying(**{"source/1": "unsubscribed"}))
    trouble = "host h receives nothing of source/1, which job 1 reads: no room"
    assert (DataflowState.DEGRADED, trouble) == found(READS, supplying(**{"source/1": "no room"}))


def test_a_source_outside_that_is_not_connected_holds_up_nobody() -> None:
    """The dataflow runs, as do others in the job that do not read it; other troubles with its spool count."""
    outside = {"source/1": Received(since=1.0, link=LinkState(since=1.0))}
    for state, expected in (("unsubscribed", DataflowState.RUNNING), ("no room", DataflowState.DEGRADED)):
        (host,) = supplying(**{"source/1": state}).values()
        assert expected is found(READS, {"h": replace(host, sources=outside)})[0]


def test_a_stream_that_another_host_receives_is_received() -> None:
    """A host may read what another one puts into their common files; if none does, nothing comes."""
    here = supplying(**{"source/1": "elsewhere"})
    assert (DataflowState.RUNNING, "") == found(READS, here | supplying("i"))
    waits = "no host has said yet that it receives source/1 for job 1"
    assert (DataflowState.DEPLOYING, waits) == found(READS, here)
    assert (DataflowState.DEPLOYING, waits) == found(READS, here | supplying("i", **{"source/1": "unsubscribed"}))


def test_a_later_refused_plan_degrades_no_running_dataflow() -> None:
    """Tasks of older plans continue to run."""
    assert (DataflowState.RUNNING, "") == found(replace(WELL, refused="no such type"))


def test_a_failure_takes_precedence_over_waiting() -> None:
    """If one of two jobs deploys and the other died, the second counts, because it calls for action."""
    other = replace(NEED, job="2")
    died = replace(WELL, job="2", state=JobState.DIED)
    assert DataflowState.DEGRADED is find([NEED, other], {"2": died}, THERE).state


@given(
    st.sampled_from([DataflowState.DEPLOYING, DataflowState.RUNNING, DataflowState.DEGRADED]),
    st.sampled_from([None, WELL, replace(WELL, in_effect=1), replace(WELL, failed={7: "no"})]),
    st.booleans(),
)
def test_every_found_state_is_reached_by_the_table(state: DataflowState, seen: JobSeen | None, alive: bool) -> None:  # noqa: FBT001 - hypothesis draws it
    """From any observed state, the events lead to the found one."""
    finding = find([NEED], {"1": seen} if seen else {}, {"h": replace(THERE["h"], alive=alive)})
    after = state
    for event in path(state, finding):
        after = turn(after, event)
    assert finding.state is after


def test_draining_and_removal_are_not_undone() -> None:
    """A dataflow that drains or is removed stays so, in whatever state its jobs are."""
    findings = [
        DataflowFinding(state=DataflowState.RUNNING, event=DataflowEvent.DEPLOYED),
        DataflowFinding(state=DataflowState.DEGRADED, event=DataflowEvent.JOB_DOWN),
    ]
    ended = [DataflowState.DRAINING, DataflowState.REMOVED]
    assert [()] * 4 == [path(state, finding) for state, finding in product(ended, findings)]


FOUND = [
    find([NEED], {}, THERE),
    find([NEED], {"1": WELL}, THERE),
    find([NEED], {"1": replace(WELL, failed={7: "no"})}, THERE),
    DRAINS,
    REMOVED,
]


@given(st.lists(st.tuples(st.sampled_from(FOUND), st.booleans()), min_size=1))
def test_the_passed_states_are_a_path_in_the_table(looks: list[tuple[DataflowFinding, bool]]) -> None:
    """Each state follows from the one before, none repeats, and the last is the found one."""
    states: list[DataflowState] = []
    for found, replaced in looks:
        last = states[-1] if states else None
        ended = last in {DataflowState.DRAINING, DataflowState.REMOVED}
        states += passed(last, found, replaced=replaced and last is not None and not ended)
        assert states[-1] is found.state or ended
    assert DataflowState.DEPLOYING is states[0]
    assert all(after in DATAFLOW_LIFE[before].values() for before, after in pairwise(states))
    assert all(before is not after for before, after in pairwise(states))


def numbers(events: LiveEvents, after: int) -> list[int]:
    """Return the numbers of the events after one."""
    return [event.id for event in events.since(after)]


def test_a_reader_gets_the_events_since_its_last() -> None:
    """They are in order, each once."""
    events = LiveEvents(last=0)
    for number in range(3):
        events.add("job", {"n": number})
    assert ([1, 2, 3], [3], []) == (numbers(events, 0), numbers(events, 2), numbers(events, 3))
    assert [{"n": 2}] == [event.told for event in events.since(2)]


def test_only_the_newest_events_are_kept() -> None:
    """A reader that was away for long gets those that are left."""
    events = LiveEvents(most=2, last=0)
    for _ in range(5):
        events.add("job", {})
    assert ([4, 5], [5]) == (numbers(events, 0), numbers(events, 4))


def test_numbers_rise_from_one_manager_to_the_next() -> None:
    """A reader that reconnects to another process with its last number misses nothing."""
    before = LiveEvents()
    last = before.add("job", {}).id
    assert last > 1_700_000_000_000
    assert LiveEvents().last >= before.last - 1


def test_a_new_event_ends_the_wait() -> None:
    """A waiting reader gets it at once."""
    events = LiveEvents(last=0)
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.extend(each.id for each in events.wait(0, 60.0)))
    waiting.start()
    events.add("job", {})
    waiting.join(60.0)
    assert [1] == found


def test_a_wait_ends_after_its_timeout() -> None:
    """It returns no events then."""
    assert () == LiveEvents(last=0).wait(0, 0.01)


def test_closing_releases_waiting_readers() -> None:
    """When the manager ends, every stream ends; earlier events can still be read."""
    events = LiveEvents(last=0)
    events.add("job", {})
    events.close()
    assert events.closed
    assert ([1], ()) == ([each.id for each in events.wait(0, 60.0)], events.wait(1, 60.0))


SEEN = JobSeen(job="1", host="h", state=JobState.RUNNING, version=1, term=1, seen=NOW)


def changed(before: JobSight, state: str) -> JobSight:
    """Return the sight of a job after it has entered another state."""
    seen = replace(SEEN, state=state)
    return replace(
        before, seen=seen, transitions=(*before.transitions, seen), transition_count=before.transition_count + 1
    )


def states(before: JobSight, now: JobSight) -> list[str]:
    """Return the reported states."""
    return [content["state"] for content in job_news(before, now)]


def test_unobserved_states_are_filled_in_by_the_table() -> None:
    """A host that was killed reports only the start of a job, and one that stops it at once only the end."""
    new = changed(JobSight(), JobState.RUNNING)
    again = changed(new, JobState.STARTING)
    stopped = changed(new, JobState.STOPPED)
    assert ["starting", "running"] == states(JobSight(), new)
    assert ["died", "starting"] == states(new, again)
    assert UNSEEN == next(job_news(new, again))["trouble"]
    assert ["stopping", "stopped"] == states(new, stopped)
    assert ["stopping", "stopped"] == states(new, replace(new, seen=None))
    assert [] == states(stopped, replace(stopped, seen=None))
    assert ["starting", "running"] == states(stopped, changed(stopped, JobState.RUNNING))


def test_news_within_a_state_is_reported_once() -> None:
    """An example is a plan that has come into effect."""
    before = changed(JobSight(), JobState.RUNNING)
    now = replace(before, seen=replace(SEEN, in_effect=1))
    assert [[1], []] == [[content["in_effect"] for content in job_news(last, now)] for last in (before, now)]


_STATES = st.sampled_from(sorted(JobState))


@given(st.lists(_STATES, min_size=1, max_size=6))
def test_reported_states_are_a_path_in_the_table(seen: list[str]) -> None:
    """For any observed states, the path begins with a start, and again only after a stop."""
    sights = list(accumulate(seen, changed, initial=JobSight()))
    reported = [state for before, now in pairwise(sights) for state in states(before, now)]
    assert JobState.STARTING == reported[0]
    for before, after in pairwise(reported):
        follows = JOB_LIFE[JobState(before)].values() or {JobState.STARTING}
        assert after == before or after in follows
    # In their order, whatever lies between them.
    left = iter(reported)
    assert all(state in left for state in seen)


def test_an_unknown_state_is_reported_as_it_is() -> None:
    """A newer host may have more states."""
    assert [] == between("running", "thinking")
    assert ["starting", "running"] == [*between("thinking", "running"), "running"]
