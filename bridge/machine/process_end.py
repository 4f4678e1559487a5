"""The end of a process that need not be a child."""

import time
from contextlib import suppress

import psutil

_LOOK_EVERY = 0.05


def end_process(process: psutil.Process, patience: float) -> bool:
    """End a process: ask, and after so many seconds kill it with all that is below it. Whether it had to be killed."""
    below: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        below = process.children(recursive=True)
        process.terminate()
    deadline = time.monotonic() + patience
    while _runs(process) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY)
    if not _runs(process):
        return False
    with suppress(psutil.NoSuchProcess):
        below = process.children(recursive=True)
        process.kill()
    for each in below:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    return True


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
