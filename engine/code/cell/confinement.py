"""The confinement of a cell: limits, no privileges, no files, no system calls but those that compute."""

import ctypes
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
_RESULTS = 3


def close_others(results: int) -> int:
    """Close all that this process has open but the handle of its results, whose new number is returned.

    Its standard streams stay too. They lead nowhere already.
    """
    os.dup2(results, _RESULTS)
    os.closerange(_RESULTS + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return _RESULTS


def confine(folders: Iterable[str], files: Iterable[str]) -> None:
    """Confine this process for good. It may read these folders and files."""
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
    deny_others(libc)
