"""The clock and its twin."""

import time

import pytest

from bridge.machine import SystemClock
from tests.twins.memory_clock import MemoryClock


def test_the_twin_stands_still_until_it_advances() -> None:
    """Time in memory changes only on request."""
    clock = MemoryClock(10.0)
    assert (10.0, 10.0) == (clock.now(), clock.now())
    clock.advance(2.5)
    assert 12.5 == clock.now()
    with pytest.raises(ValueError, match="time does not go back, so not by -1 seconds; advance by 0 or more"):
        clock.advance(-1)


def test_setting_the_twin_lets_no_time_pass() -> None:
    """It may be set back or forth, and time passes as before."""
    clock = MemoryClock(10.0)
    clock.set(4.0)
    assert (4.0, 10.0) == (clock.now(), clock.passed())
    clock.advance(2.5)
    assert (6.5, 12.5) == (clock.now(), clock.passed())


def test_the_clock_is_the_systems() -> None:
    """The real clock has the system's time."""
    before, begun = time.time(), time.monotonic()
    clock = SystemClock()
    assert before <= clock.now() <= time.time()
    assert begun <= clock.passed() <= time.monotonic()
