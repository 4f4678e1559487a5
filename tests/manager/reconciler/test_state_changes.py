"""What is told of a job from one look to the next."""

from dataclasses import replace
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.job.lifecycle import JOB_LIFE, JobState
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight
from manager.reconciler.state_changes import UNSEEN, between, job_news
from tests.manager.reconciler.worlds import NOW

SEEN = JobSeen(job="1", host="h", state=JobState.RUNNING, version=1, term=1, seen=NOW)


def turned(before: JobSight, state: str) -> JobSight:
    """What is known of a job that came into another state."""
    seen = replace(SEEN, state=state)
    return replace(
        before, seen=seen, transitions=(*before.transitions, seen), transition_count=before.transition_count + 1
    )


def states(before: JobSight, now: JobSight) -> list[str]:
    """The states that are told."""
    return [told["state"] for told in job_news(before, now)]


def test_what_a_host_passed_over_is_filled_in_by_the_table() -> None:
    """A host that was killed says only that a job starts, and one that stops it at once only that it is stopped."""
    new = turned(JobSight(), JobState.RUNNING)
    again = turned(new, JobState.STARTING)
    stopped = turned(new, JobState.STOPPED)
    assert ["starting", "running"] == states(JobSight(), new)
    assert ["died", "starting"] == states(new, again)
    assert UNSEEN == next(job_news(new, again))["trouble"]
    assert ["stopping", "stopped"] == states(new, stopped)
    assert ["stopping", "stopped"] == states(new, replace(new, seen=None))
    assert [] == states(stopped, replace(stopped, seen=None))
    assert ["starting", "running"] == states(stopped, turned(stopped, JobState.RUNNING))


def test_what_is_news_without_another_state_is_told_once() -> None:
    """Such as a plan that is in effect."""
    before = turned(JobSight(), JobState.RUNNING)
    now = replace(before, seen=replace(SEEN, in_effect=1))
    assert [[1], []] == [[told["in_effect"] for told in job_news(last, now)] for last in (before, now)]


_STATES = st.sampled_from(sorted(JobState))


@given(st.lists(_STATES, min_size=1, max_size=6))
def test_what_is_told_of_a_job_is_a_way_through_the_table(seen: list[str]) -> None:
    """Whichever of its states are seen; it begins with its start, and again only once it has stopped."""
    sights = list(accumulate(seen, turned, initial=JobSight()))
    told = [state for before, now in pairwise(sights) for state in states(before, now)]
    assert JobState.STARTING == told[0]
    for before, after in pairwise(told):
        follows = JOB_LIFE[JobState(before)].values() or {JobState.STARTING}
        assert after == before or after in follows
    # In their order, whatever lies between them.
    left = iter(told)
    assert all(state in left for state in seen)


def test_a_state_that_is_not_in_the_table_is_told_as_it_is() -> None:
    """A newer host may know more of them."""
    assert [] == between("running", "thinking")
    assert ["starting", "running"] == [*between("thinking", "running"), "running"]
