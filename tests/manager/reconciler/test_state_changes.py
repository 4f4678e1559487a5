"""State changes of a job, reported from one look to the next."""

from dataclasses import replace
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.job.lifecycle import JOB_LIFE, JobState
from manager.kernel.live_events import UNSEEN, between, job_news
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight
from tests.manager.reconciler.worlds import NOW

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
