"""The dead letters of a batch that are kept: the newest, within bounds."""

from itertools import chain

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.kernel.task_bounds import newest_dead
from engine.records.record import Dead


@given(st.lists(st.integers(1, 20), max_size=8), st.integers(1, 6), st.integers(1, 800))
def test_the_newest_are_kept_in_order(counts: list[int], most: int, most_bytes: int) -> None:
    """Within both bounds, but for one event at least; and no older one if a newer one is not kept."""
    numbers = iter(range(1_000))
    dead = [
        Dead(
            instance=2, port="in", reason=str(at), events=pa.record_batch({"n": [next(numbers) for _ in range(count)]})
        )
        for at, count in enumerate(counts)
    ]
    kept = newest_dead(dead, most=most, most_bytes=most_bytes)
    events = list(chain.from_iterable(each.events["n"].to_pylist() for each in kept))
    every = list(range(sum(counts)))
    assert every[len(every) - len(events) :] == events
    assert bool(dead) == bool(events)
    assert len(kept) <= most
    assert sum(each.events.nbytes for each in kept) <= max(most_bytes, 8)
    if sum(counts) * 8 <= most_bytes and len(dead) <= most:
        assert dead == kept
