"""The bound of a batch, against batches that take a time of their own beside that of their bytes."""

from hypothesis import given
from hypothesis import strategies as st

from engine.job.pace import BatchBound
from engine.plan import SHORTEST_BOUND

EVENT = 50
"""Bytes."""


def worked_off(bound: BatchBound, fixed: float, rate: float, backlog: int, batches: int) -> list[tuple[int, float]]:
    """The sizes and seconds of some batches; each takes as much of a backlog as it may, and one event at least."""
    done = []
    for _ in range(batches):
        size = min(backlog, max(EVENT, bound.most_bytes(pace=0.1)))
        seconds = fixed + size / rate
        bound.note(size=size, seconds=seconds)
        done.append((size, seconds))
    return done


@given(fixed=st.floats(0.01, 5), rate=st.floats(5_000, 50_000_000), idle=st.integers(0, 20))
def test_a_backlog_is_worked_off_however_long_the_least_batch_takes(fixed: float, rate: float, idle: int) -> None:
    """Batches come to take half of what they may at least, and never twice as long, whatever came before."""
    bound = BatchBound()
    worked_off(bound, fixed, rate, EVENT, idle)
    done = worked_off(bound, fixed, rate, 1 << 40, 60)
    share = [size / rate / SHORTEST_BOUND for size, _ in done[-16:]]
    assert sum(share) / len(share) >= min(0.25, SHORTEST_BOUND / (fixed + SHORTEST_BOUND))
    assert max(share) <= 2.01


def test_a_batch_that_was_held_up_does_not_count() -> None:
    """The quickest of the last three decides."""
    bound = BatchBound()
    for seconds in (0.1, 3.0, 3.0):
        bound.note(size=10_000, seconds=seconds)
    assert 100_000 == bound.most_bytes(pace=1.0)
