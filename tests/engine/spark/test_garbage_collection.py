"""Garbage collection in a worker: objects that stay are scanned once, and garbage is freed all the same."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from engine.spark.batch_task import GarbageGuard


class Knot:
    """An object that only a collection can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def sparing() -> Iterator[GarbageGuard]:
    """A guard that has begun, in a process that freezes nothing else and only collects when a test says so."""
    guard, others = GarbageGuard(), gc.callbacks[:]
    # An earlier test of this process may have begun a guard, which knows nothing of this one's batches.
    gc.callbacks.clear()
    gc.disable()
    gc.collect()
    gc.freeze()
    guard.begin()
    yield guard
    gc.callbacks[:] = others
    gc.unfreeze()
    gc.enable()


def much() -> list[list[int]]:
    """So many objects that a collection takes long."""
    return [[number] for number in range(300_000)]


def test_objects_that_outlive_a_long_collection_are_not_scanned_again(sparing: GarbageGuard) -> None:
    """Objects that a process keeps between two batches are frozen by the first long collection."""
    with sparing.batch():
        kept = much()
    gc.collect()
    assert not any(each is kept[0] for each in gc.get_objects())


def test_few_objects_are_not_frozen(sparing: GarbageGuard) -> None:
    """A short collection freezes nothing, so that objects can still be freed later."""
    del sparing
    knot = Knot()
    gc.collect()
    ended = weakref.ref(knot)
    del knot
    gc.collect()
    assert ended() is None


def test_a_batch_frees_its_garbage(sparing: GarbageGuard) -> None:
    """Collections within a batch do not freeze its objects."""
    with sparing.batch():
        knot, kept = Knot(), much()
        gc.collect()
        ended = weakref.ref(knot)
    del knot
    gc.collect()
    assert ended() is None
    assert kept


def test_a_failed_batch_is_over(sparing: GarbageGuard) -> None:
    """Collections freeze again after a batch that raised."""
    with pytest.raises(RuntimeError), sparing.batch():
        raise RuntimeError
    kept = much()
    gc.collect()
    assert not any(each is kept[0] for each in gc.get_objects())


def test_a_guard_begins_once_however_often_it_is_asked() -> None:
    """On a cluster each task asks, because nobody else has begun there."""
    guard, before = GarbageGuard(), len(gc.callbacks)
    guard.begin()
    guard.begin()
    assert before + 1 == len(gc.callbacks)
    gc.callbacks.remove(guard._on_collection)
