"""The cores that a service uses, by part: from two readings of the CPU time of its process tree."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from engine.host.cpu_meter import DRIVER, JVM, WORKER, Tree, look, part_below, spent_between
from manager.savings.counters import BROKER

MANAGER = "manager"
PARTS = (BROKER, DRIVER, JVM, WORKER, MANAGER)
_KEEPER, _HOST = "manager.process.keeper_process", "engine.machines.process"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoresReading:
    """The CPU time used so far; made by `read_cores`."""

    at: float
    """The moment, by the clock of `time.monotonic`."""
    used: Tree


def read_cores(process: psutil.Process) -> CoresReading:
    """Read the CPU time of a service; `process` is its manager, with the broker and the host below it."""
    return CoresReading(at=time.monotonic(), used=look(process, MANAGER, _part))


def cores_between(begun: CoresReading, ended: CoresReading) -> Mapping[str, float]:
    """Mean cores by part between two readings."""
    spent = spent_between(begun.used, ended.used)
    return {part: spent.get(part, 0.0) / (ended.at - begun.at) for part in PARTS}


def _part(process: psutil.Process, parent: psutil.Process, above: str) -> str:
    """The part of a process, by its command and its parent."""
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
        # It has ended, but its parent has not noticed yet.
        return []
