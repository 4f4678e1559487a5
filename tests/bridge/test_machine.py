"""The clock, processes, and how long to wait after failures."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bridge.machine import BackOff, SystemClock, began
from tests.clock import set_clock
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


def test_the_last_wait_repeats() -> None:
    """However often something fails, it is tried again."""
    back_off = BackOff((1.0, 5.0))
    assert [1.0, 5.0, 5.0, 5.0] == [back_off.after(failures) for failures in (1, 2, 3, 1_000)]
    assert 5.0 == back_off.longest


def test_nothing_is_waited_for_without_a_failure() -> None:
    """The first attempt begins at once."""
    assert 0.0 == BackOff((7.0,)).after(0)


def test_doubled_waits_end_at_the_longest() -> None:
    """The longest wait counts even if no doubling meets it."""
    assert (300.0, 600.0, 1_200.0, 2_400.0, 3_600.0) == BackOff.doubling(300.0, longest=3_600.0).waits
    assert (2.0,) == BackOff.doubling(2.0, longest=2.0).waits


@pytest.mark.parametrize("waits", [(), (1.0, -1.0)])
def test_waits_that_cannot_be_kept_are_refused(waits: tuple[float, ...]) -> None:
    """A back-off without a wait, or with one below 0, is an error where it is made."""
    with pytest.raises(ValueError, match="is no back-off; give at least one wait, and none below 0"):
        BackOff(waits)


@pytest.mark.parametrize("first", [0.0, 61.0])
def test_a_first_wait_that_cannot_double_up_to_the_longest_is_refused(first: float) -> None:
    """From 0 it would never grow, and above the longest it would have to shrink."""
    with pytest.raises(ValueError, match=f"the first wait is {first}; give one above 0, and at most 60.0"):
        BackOff.doubling(first, longest=60.0)


def test_a_process_keeps_its_identity_if_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start time of psutil moves with the clock; the identity does not."""
    this = psutil.Process()
    identity, reckoned = began(this), psutil.Process().create_time()
    set_clock(monkeypatch, by=-1.0)
    assert reckoned - 1.0 == pytest.approx(psutil.Process().create_time(), abs=0.1)
    assert identity == began(this) == began(psutil.Process(os.getpid()))


def test_processes_that_began_apart_differ() -> None:
    """Processes that began at different times differ, whatever their names are."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert began(psutil.Process()) != began(psutil.Process(child.pid))


@pytest.mark.skipif(not psutil.LINUX, reason="only Linux has names among what tells processes apart")
def test_a_name_may_be_anything(tmp_path: Path) -> None:
    """Brackets and blanks in a process's name change nothing."""
    odd = tmp_path / "a) 1 2 (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "60"]) as child:  # noqa: S603 - a link of our own
        process = psutil.Process(child.pid)
        assert began(process).split()[0] == str(round((process.create_time() - psutil.boot_time()) * 100))
        child.kill()


def test_a_process_that_is_gone_is_not_found() -> None:
    """The error is that of psutil."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        process = psutil.Process(child.pid)
    with pytest.raises(psutil.NoSuchProcess):
        began(process)
