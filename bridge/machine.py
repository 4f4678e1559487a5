"""The machine that Braid runs on: its clocks, the waits between attempts, and its processes.

The time of day is for people and other machines, and may be set back or forth at any moment. Whatever waits uses the
time that has passed. `BackOff` says how long to wait before something that failed is tried again.

A process is identified by its id and by when it began, so that neither a reused id nor a clock that was set can
mislead; the process need not be a child to be identified or ended.
"""

import resource
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol, Self

import psutil


class Clock(Protocol):
    """A clock."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def passed(self) -> float:
        """Seconds since some moment; setting the clock does not change it."""


class SystemClock:
    """The system's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def passed(self) -> float:
        """Seconds since some moment; setting the clock does not change it."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class BackOff:
    """The waits after the first failure in a row, the second and so on, in seconds. The last wait repeats.

    >>> back_off = BackOff((1.0, 5.0, 60.0))
    >>> [back_off.after(failures) for failures in range(5)]
    [0.0, 1.0, 5.0, 60.0, 60.0]
    """

    waits: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.waits or any(wait < 0 for wait in self.waits):
            raise ValueError(f"{self.waits} is no back-off; give at least one wait, and none below 0")

    @classmethod
    def doubling(cls, first: float, *, longest: float) -> Self:
        """Waits that double up to a longest one.

        >>> BackOff.doubling(10.0, longest=60.0).waits
        (10.0, 20.0, 40.0, 60.0)
        """
        if not 0 < first <= longest:
            raise ValueError(f"the first wait is {first}; give one above 0, and at most {longest}")
        waits = [first]
        while waits[-1] < longest:
            waits.append(min(2 * waits[-1], longest))
        return cls(tuple(waits))

    @property
    def longest(self) -> float:
        """The wait that repeats."""
        return self.waits[-1]

    def after(self, failures: int) -> float:
        """The wait after so many failures in a row; 0 after none."""
        return self.waits[min(failures, len(self.waits)) - 1] if failures > 0 else 0.0


_MOST = 65_536
"""Enough for any process here; some systems allow a billion, and programs that look at each of them."""


def allow_many_descriptors() -> None:
    """Raise the bound of this process as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(_MOST, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


_START_TIME = 19
"""The place of the start time among the words after the name in `/proc/<id>/stat`."""


def began(process: psutil.Process) -> str:
    """A text that differs for all processes with the same id; raises `psutil.NoSuchProcess` if it is gone."""
    if not psutil.LINUX:
        return str(process.create_time())
    # Not `create_time`: it adds the time of the boot, which moves when the clock is set.
    try:
        words = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(process.pid) from None
    return f"{int(words[_START_TIME])} of {_boot()}"


def running(pid: int, since: str) -> psutil.Process | None:
    """The process with an id, if it still runs and is the one that began then; `since` is what `began` said."""
    try:
        process = psutil.Process(pid)
        if began(process) != since or process.status() == psutil.STATUS_ZOMBIE:
            return None
    except psutil.NoSuchProcess:
        return None
    return process


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


_LOOK_EVERY = 0.05


def end_process(process: psutil.Process, patience: float) -> bool:
    """End a process: ask, and after so many seconds kill it with all that is below it. Whether it had to be killed."""
    below: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        below = process.children(recursive=True)
        process.terminate()
    deadline = time.monotonic() + patience
    while runs(process) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY)
    if not runs(process):
        return False
    with suppress(psutil.NoSuchProcess):
        below = process.children(recursive=True)
        process.kill()
    for child in below:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    return True


def runs(process: psutil.Process) -> bool:
    """True if a process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
