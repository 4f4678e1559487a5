"""The CPU that a task uses: that of the worker's thread, and of other processes that work for it."""

import time

_elsewhere_ns = 0


def task_cpu_ns() -> int:
    """The CPU used so far by this thread and by processes that worked for its tasks."""
    return time.thread_time_ns() + _elsewhere_ns


def elsewhere_ns() -> int:
    """The CPU used so far by processes that worked for tasks of this one."""
    return _elsewhere_ns


def count_elsewhere(nanoseconds: int) -> None:
    """Count what another process used for the running task."""
    global _elsewhere_ns  # noqa: PLW0603 - a worker has one thread that runs tasks, and so one clock
    _elsewhere_ns += nanoseconds
