"""The identity of a process, even if its id is reused or the clock is set."""

from functools import cache
from pathlib import Path

import psutil

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
