"""The server of REST: what it does to its process."""

import gc
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from fastapi import FastAPI

from manager.rest.app import Server


@pytest.fixture
def new_process() -> Iterator[None]:
    """Garbage collection and switching between threads as in a process that has just begun."""
    thresholds, switching = gc.get_threshold(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    # Now the collector knows of no old objects, of which it lets a quarter as many grow before it looks at them all.
    gc.collect()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(switching)


@pytest.mark.usefixtures("new_process")
def test_the_garbage_collector_does_not_walk_through_a_large_document_while_it_is_read() -> None:
    """Everybody would wait for that, again and again as it grows. Young objects are collected all the same."""
    passes: Counter[int] = Counter()

    def count(phase: str, info: dict[str, int]) -> None:
        passes[info["generation"]] += phase == "stop"

    with Server("here", FastAPI(), lambda: None, listen="127.0.0.1", port=0):
        gc.callbacks.append(count)
        grown = [[number] for number in range(500_000)]
        gc.callbacks.remove(count)
    assert 500_000 == len(grown)
    assert 0 == passes[2]
    assert passes[1] > 0
