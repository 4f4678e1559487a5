"""The times of the latest batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job.pace import _COUNTED_SECONDS, _MOST_COUNTED, BatchTimes, percentile


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
