"""Live events, and the state changes of jobs among them."""

import threading
from dataclasses import replace
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.job.lifecycle import JOB_LIFE, JobState
from manager.kernel.live_events import UNSEEN, LiveEvents, between, job_news
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight
from tests.manager.jobs.worlds import NOW


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
