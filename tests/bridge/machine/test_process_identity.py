"""The identity of a process never changes."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bridge.machine import began
from tests.clock import set_clock


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
