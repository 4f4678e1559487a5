"""Which process it is, however often ids come round and whatever the clock is set to."""

from functools import cache
from pathlib import Path

import psutil

_START_TIME = 19
"""Where a process's start is among the words behind its name in `/proc/<id>/stat`."""


def began(process: psutil.Process) -> str:
    """What tells a process from all others that have or had its id; raises `psutil.NoSuchProcess` where it is gone."""
    if not psutil.LINUX:
        return str(process.create_time())
    # Not `create_time` here: it adds the moment of the boot, and that moves whenever the clock is set.
    try:
        words = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(process.pid) from None
    return f"{int(words[_START_TIME])} of {_boot()}"


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
