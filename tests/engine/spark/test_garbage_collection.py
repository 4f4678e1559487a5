"""What a worker keeps from batch to batch is looked at once, and what it is done with is freed all the same."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from engine.spark.garbage_collection import GarbageGuard


class Knot:
    """Something that only a collection can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def sparing() -> Iterator[GarbageGuard]:
    """One that has begun, in a process that freezes nothing else meanwhile."""
    found = GarbageGuard()
    gc.collect()
    gc.freeze()
    found.begin()
    yield found
    found.end()
    gc.unfreeze()


def much() -> list[list[int]]:
    """So much that a collection takes long."""
    return [[number] for number in range(300_000)]


def test_what_outlives_a_long_collection_is_not_looked_at_again(sparing: GarbageGuard) -> None:
    """What a process keeps between two batches is frozen by the collection that finds it."""
    with sparing.batch():
        kept = much()
    gc.collect()
    assert not any(each is kept[0] for each in gc.get_objects())


def test_little_is_not_frozen(sparing: GarbageGuard) -> None:
    """A collection that takes hardly any time freezes nothing, so that what ends later can be freed."""
    del sparing
    knot = Knot()
    gc.collect()
    ended = weakref.ref(knot)
    del knot
    gc.collect()
    assert ended() is None


def test_a_batch_frees_what_it_is_done_with(sparing: GarbageGuard) -> None:
    """What lives while a batch runs is not frozen by collections within it."""
    with sparing.batch():
        knot, kept = Knot(), much()
        gc.collect()
        ended = weakref.ref(knot)
    del knot
    gc.collect()
    assert ended() is None
    assert kept


def test_a_batch_that_fails_is_over(sparing: GarbageGuard) -> None:
    """Collections freeze again after a batch that raised."""
    with pytest.raises(RuntimeError), sparing.batch():
        raise RuntimeError
    kept = much()
    gc.collect()
    assert not any(each is kept[0] for each in gc.get_objects())
