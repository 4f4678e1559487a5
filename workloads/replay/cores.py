"""How many cores a service takes, by its parts: from the CPU that its process tree used between two looks.

What a process used that ended meanwhile, its parent was told when it buried it; that counts for the parent's part.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

import psutil

Part: TypeAlias = Literal["broker", "driver", "jvm", "workers", "manager"]
PARTS: tuple[Part, ...] = ("broker", "driver", "jvm", "workers", "manager")
_KEEPER, _HOST = "manager.keeper_process", "engine.host_process"
Key: TypeAlias = tuple[int, float]
"""A process: its id, and when it began, because another one may get its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What CPU a process has used so far."""

    part: Part
    parent: Key | None
    own: float
    buried: float
    """By children that have ended, and theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What CPU was used until a moment; made by `look`."""

    at: float
    """By the clock of `time.monotonic`."""
    used: Mapping[Key, Used]


def look(process: psutil.Process) -> Look:
    """What CPU a service's tree has used so far; `process` is its manager, which keeps broker and host below it."""
    return Look(at=time.monotonic(), used=dict(_tree(process)))


def cores_between(begun: Look, ended: Look) -> Mapping[Part, float]:
    """Mean cores by part between two looks.

    Of what a parent has buried since, that was counted before which its children had used at the first look. Of what
    nobody buried nothing more is known.
    """
    counted: dict[Key, float] = {}
    for key, used in begun.used.items():
        if key not in ended.used and used.parent is not None:
            counted[used.parent] = counted.get(used.parent, 0.0) + used.own + used.buried
    seconds = dict.fromkeys(PARTS, 0.0)
    for key, used in ended.used.items():
        before = begun.used.get(key)
        own, buried = (0.0, 0.0) if before is None else (before.own, before.buried)
        seconds[used.part] += used.own - own + max(0.0, used.buried - buried - counted.get(key, 0.0))
    return {part: each / (ended.at - begun.at) for part, each in seconds.items()}


def _tree(process: psutil.Process) -> Iterator[tuple[Key, Used]]:
    waiting: list[tuple[psutil.Process, Key | None, Part]] = [(process, None, "manager")]
    below: dict[int, list[psutil.Process]] = {}
    for each in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            below.setdefault(each.ppid(), []).append(each)
    while waiting:
        each, parent, part = waiting.pop()
        key = (each.pid, each.create_time())
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            yield (
                key,
                Used(
                    part=part,
                    parent=parent,
                    own=times.user + times.system,
                    buried=times.children_user + times.children_system,
                ),
            )
        waiting += ((child, key, _part(child, each, part)) for child in below.get(each.pid, ()))


def _part(process: psutil.Process, parent: psutil.Process, above: Part) -> Part:
    """What part a process plays, by what it is called and by who started it."""
    command = _command(process)
    if above == "manager":
        if _KEEPER in command:
            return "manager"
        if _HOST in command:
            return "driver"
        return "broker" if _KEEPER in _command(parent) else "manager"
    if above == "driver":
        return "jvm" if command and command[0].endswith("java") else "driver"
    # What else a JVM starts are commands that end at once, such as chmod.
    return "workers" if above == "jvm" and any("python" in word for word in command[:1]) else above


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []
