"""The confinement of a cell: limits, no privileges, no files, no system calls but those that compute."""

import ctypes
import fcntl
import os
import resource
import signal
from collections.abc import Iterable
from pathlib import Path

from engine.code.cell.file_access import allow_reading
from engine.code.cell.system_calls import deny_others, renounce_privileges

CPU_SECONDS = 10
"""The most CPU of one cell."""
MEMORY = 512 * 1024 * 1024
"""The memory that a cell may take beside that of Python and its packages, in bytes."""
_MOST_OPEN = 32
_DIE_WITH_PARENT = 1
_FIRST_KEPT = 3


def close_others(*kept: int) -> list[int]:
    """Close all that this process has open but some handles, whose new numbers are returned.

    Its standard streams stay too. They lead nowhere already.
    """
    # First above all new numbers, so that none takes the place of another.
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD, _FIRST_KEPT + len(kept)) for each in kept]
    found = [os.dup2(each, _FIRST_KEPT + at) for at, each in enumerate(moved)]
    os.closerange(_FIRST_KEPT + len(kept), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return found


def confine(folders: Iterable[str], files: Iterable[str], *, connects: bool) -> None:
    """Confine this process for good. It may read these folders and files, and use sockets that it is given or none."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    memory = pages * resource.getpagesize() + MEMORY
    for which, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_NOFILE, _MOST_OPEN),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(which, (most, most))
    renounce_privileges(libc)
    allow_reading(libc, folders, files)
    deny_others(libc, connects=connects)
