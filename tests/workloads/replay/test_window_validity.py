"""A window counts only where the service kept up with what came."""

from typing import Any

import pytest

from manager.answers.jobs import JobAnswer
from workloads.replay.player import why_behind


def job(number: int, **figures: Any) -> JobAnswer:
    reported: dict[str, Any] = {
        "job": str(number),
        "host": "local",
        "version": 1,
        "in_effect": 1,
        "state": "running",
        "trouble": "",
        "active": 3,
        "paused": 0,
        "batch": 7,
        "batch_seconds_p50": 1.0,
        "events_in_per_second": 10.0,
        "lag_events": 50,
        "lag_seconds": 9.0,
    }
    return JobAnswer.model_validate(reported | figures)


WELL = (job(1), job(2))


def why(*after: JobAnswer, seconds: float = 20.0) -> str:
    """Of a window that began well, at a pace of 10 s."""
    return why_behind(WELL, after, pace=10.0, seconds=seconds)


def test_what_keeps_up_counts() -> None:
    """Also where nothing runs, where little is known yet, and where one batch more or less was done."""
    assert not why(*WELL)
    assert not why_behind((), (), pace=10.0, seconds=10.0)
    unknown = job(1, batch_seconds_p50=None, events_in_per_second=None, lag_events=None, lag_seconds=None)
    assert not why_behind((unknown,), (unknown,), pace=10.0, seconds=10.0)
    assert not why(job(1, lag_events=140), job(2), seconds=10.0)


def test_a_service_with_long_lags_and_long_batches_is_behind() -> None:
    """As one was that ran batches of 40 to 90 s, and had events wait for 150 s: the worst of its jobs is named."""
    assert "an event waited 150 s for job 2, at a pace of 10 s" == why(job(1), job(2, lag_seconds=150.0))
    assert "a batch of job 1 took 40.0 s, at a pace of 10 s" == why(job(1, batch_seconds_p50=40.0), job(2))


def test_events_that_pile_up_give_it_away_before_any_is_late() -> None:
    """Beyond what comes in one pace, which is chance."""
    assert "only 400 of 1200 events were processed" == why(job(1, lag_events=850), job(2))
    assert not why(job(1, lag_events=150), job(2))


@pytest.mark.parametrize("pace", [0.5, 1.0])
def test_a_short_pace_is_not_held_against_what_jobs_tell_now_and_then(pace: float) -> None:
    """They say every now and then how late they are, and a second or two are within that."""
    late = job(1, lag_seconds=4.0, batch_seconds_p50=0.3)
    assert not why_behind((late,), (late,), pace=pace, seconds=10.0)
    assert why_behind((late,), (job(1, lag_seconds=6.0, batch_seconds_p50=0.3),), pace=pace, seconds=10.0)
