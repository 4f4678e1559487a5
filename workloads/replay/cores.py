"""How many cores a service takes, by its parts: from the CPU that its process tree used between two looks."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from engine.host.cpu_meter import DRIVER, JVM, WORKER, part_below
from engine.host.process_tree import Tree, spent_between
from engine.host.process_tree import look as look_at
from manager.savings.counter_growth import BROKER

MANAGER = "manager"
PARTS = (BROKER, DRIVER, JVM, WORKER, MANAGER)
_KEEPER, _HOST = "manager.process.keeper_process", "engine.host.process"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoresReading:
    """What CPU was used until a moment; made by `look`."""

    at: float
    """By the clock of `time.monotonic`."""
    used: Tree


def look(process: psutil.Process) -> CoresReading:
    """What CPU a service's tree has used so far; `process` is its manager, which keeps broker and host below it."""
    return CoresReading(at=time.monotonic(), used=look_at(process, MANAGER, _part))


def cores_between(begun: CoresReading, ended: CoresReading) -> Mapping[str, float]:
    """Mean cores by part between two looks."""
    spent = spent_between(begun.used, ended.used)
    return {part: spent.get(part, 0.0) / (ended.at - begun.at) for part in PARTS}


def _part(process: psutil.Process, parent: psutil.Process, above: str) -> str:
    """What part a process plays, by what it is called and by who started it."""
    if above != MANAGER:
        return part_below(process, parent, above)
    command = _command(process)
    if _HOST in command:
        return DRIVER
    return BROKER if _KEEPER not in command and _KEEPER in _command(parent) else MANAGER


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        # It has ended, and is not buried yet.
        return []
