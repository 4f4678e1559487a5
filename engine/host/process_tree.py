"""The CPU that a tree of processes takes, by the parts that they play, and with those that ended meanwhile.

What a process used that ended, its parent was told when it buried it; that counts for the parent's part. Most of these
live for milliseconds and are never seen, as the commands that a JVM starts for each file that it makes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import psutil

from bridge.machine.process_identity import began

Key: TypeAlias = tuple[int, str]
"""A process: its id, and what tells it from another one that gets it."""
PartOf: TypeAlias = Callable[[psutil.Process, psutil.Process, str], str]
"""Tells the part of a process by itself, its parent, and the part of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What CPU a process has used so far, in seconds."""

    part: str
    parent: Key | None
    own: float
    buried: float
    """By children that have ended, and theirs."""


Tree: TypeAlias = Mapping[Key, Used]


def look(root: psutil.Process, part: str, part_of: PartOf) -> Tree:
    """What a process, whose part is named, and all below it have used so far."""
    return dict(_looked(root, part, part_of))


def _looked(root: psutil.Process, part: str, part_of: PartOf) -> Iterator[tuple[Key, Used]]:
    below: dict[int, list[psutil.Process]] = {}
    # Workers live in process groups of their own; only the tree tells whose they are.
    for each in root.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            below.setdefault(each.ppid(), []).append(each)
    waiting: list[tuple[psutil.Process, Key | None, str]] = [(root, None, part)]
    while waiting:
        process, parent, plays = waiting.pop()
        try:
            key = (process.pid, began(process))
        except psutil.NoSuchProcess:
            # Whoever was below it is below another one by now.
            continue
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            own, buried = times.user + times.system, times.children_user + times.children_system
            yield key, Used(part=plays, parent=parent, own=own, buried=buried)
        for child in below.get(process.pid, ()):
            with suppress(psutil.NoSuchProcess):
                waiting.append((child, key, part_of(child, process, plays)))


def spent_between(begun: Tree, ended: Tree) -> Mapping[str, float]:
    """Seconds by part between two looks at a tree.

    Of what was buried since, that was counted before which the dead had used at the first look. Of what nobody buried
    nothing more is known.
    """
    counted: defaultdict[Key, float] = defaultdict(float)
    for key in begun.keys() - ended.keys():
        above = begun[key].parent
        while above is not None and above not in ended:
            above = begun[above].parent if above in begun else None
        if above is not None:
            counted[above] += begun[key].own + begun[key].buried
    spent: defaultdict[str, float] = defaultdict(float)
    for key, used in ended.items():
        before = begun.get(key)
        own, buried = (0.0, 0.0) if before is None else (before.own, before.buried)
        spent[used.part] += used.own - own + max(0.0, used.buried - buried - counted[key])
    return spent
