"""The CPU meter of a host: the CPU time of its process tree, by the role of the processes.

Processes that ended between two looks are included: the system adds the CPU time of a process that ended to the parent
that reaps it, and it counts for the parent's role. Most of these processes live for milliseconds and are never seen,
like the commands that a JVM starts for each new file.

Managers import the names of the roles, so this imports no Spark.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import psutil

from bridge.machine import began
from engine.spark.programs import SERVER_MODULE

Key: TypeAlias = tuple[int, str]
"""A process: its id, and when it began, because ids are used again."""
PartOf: TypeAlias = Callable[[psutil.Process, psutil.Process, str], str]
"""A function from a process, its parent, and the role of the parent to the role of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCpu:
    """The CPU time that a process has used so far, in seconds."""

    part: str
    parent: Key | None
    own: float
    reaped: float
    """By children that have ended, and by theirs."""


Tree: TypeAlias = Mapping[Key, ProcessCpu]


def look(root: psutil.Process, part: str, part_of: PartOf) -> Tree:
    """The CPU time of a process, whose role is given, and of all processes below it."""
    tree: dict[Key, ProcessCpu] = {}
    below: dict[int, list[psutil.Process]] = {}
    # Workers live in their own process groups, so only the tree shows to which host they belong.
    for process in root.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            below.setdefault(process.ppid(), []).append(process)
    waiting: list[tuple[psutil.Process, Key | None, str]] = [(root, None, part)]
    while waiting:
        process, parent, role = waiting.pop()
        try:
            key = (process.pid, began(process))
        except psutil.NoSuchProcess:
            # Its children have another parent by now.
            continue
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            own, reaped = times.user + times.system, times.children_user + times.children_system
            tree[key] = ProcessCpu(part=role, parent=parent, own=own, reaped=reaped)
        for child in below.get(process.pid, ()):
            with suppress(psutil.NoSuchProcess):
                waiting.append((child, key, part_of(child, process, role)))
    return tree


def spent_between(begun: Tree, ended: Tree) -> Mapping[str, float]:
    """Seconds by role between two looks at a tree.

    What an ended process had used by the first look was counted then, so it is taken off its parent's reaped time.
    Nothing is known of the last time of a process that was not reaped.
    """
    counted: defaultdict[Key, float] = defaultdict(float)
    for key in begun.keys() - ended.keys():
        above = begun[key].parent
        while above is not None and above not in ended:
            above = begun[above].parent if above in begun else None
        if above is not None:
            counted[above] += begun[key].own + begun[key].reaped
    spent: defaultdict[str, float] = defaultdict(float)
    for key, used in ended.items():
        before = begun.get(key)
        own, reaped = (0.0, 0.0) if before is None else (before.own, before.reaped)
        spent[used.part] += used.own - own + max(0.0, used.reaped - reaped - counted[key])
    return spent


DRIVER, JVM, WORKER = "driver", "jvm", "worker"


class CpuMeter:
    """Measures a driver, its JVM, its workers, and anything else it started; by default this process is the driver."""

    def __init__(self, driver: int | None = None) -> None:
        self._driver = psutil.Process(driver)
        self._last: Tree = {}
        self._total: dict[str, float] = {}

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU by role since the meter was made, or the processes began."""
        now = look(self._driver, DRIVER, part_below)
        for part, seconds in spent_between(self._last, now).items():
            self._total[part] = self._total.get(part, 0.0) + seconds
        self._last = now
        return {part: round(seconds, 3) for part, seconds in sorted(self._total.items())}


def part_below(process: psutil.Process, _parent: psutil.Process, above: str) -> str:
    """The role of a process below a driver; one that is neither a JVM nor its worker counts for its parent."""
    name = process.name()
    if above == DRIVER and name.startswith("java"):
        return JVM
    if above == DRIVER and SERVER_MODULE in process.cmdline():
        return WORKER
    return WORKER if above == JVM and name.startswith("python") else above
