"""The kills: of which processes, and when, at random or just between two steps of a batch."""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from engine.records.job_folder import JobFolder
from tests.chaos.arena import BOUND, Arena, newest, pause

_LOOKING = 0.0005
_ALL = 0.3


class Victim(StrEnum):
    """The victims of `kill -9`."""

    DRIVER = "driver"
    JVM = "jvm"
    WORKER = "worker"
    BROKER = "broker"


class Moment(StrEnum):
    """The moments of a kill: at random, or just after a long batch, a batch, or a shard, came to a step."""

    ANY = "any"
    LONG_BATCH = "long batch"
    BEGUN = "begun"
    SHARD = "shard"
    RECORDED = "recorded"
    PUBLISHED = "published"


class Kill(NamedTuple):
    """One kill; drawn by `schedule`."""

    victim: Victim
    moment: Moment
    delay: float
    """Seconds to wait before a kill at random."""


def schedule(
    random_: random.Random, *, hosts: int, workers: int, brokers: int, moments: Sequence[Moment] = tuple(Moment)
) -> list[Kill]:
    """The given numbers of kills in random order; the moments take turns, so that even few kills cover many."""
    victims = [
        *(Victim.DRIVER if turn % 2 else Victim.JVM for turn in range(hosts)),
        *[Victim.WORKER] * workers,
        *[Victim.BROKER] * brokers,
    ]
    in_turn = [moments[turn % len(moments)] for turn in range(len(victims))]
    random_.shuffle(in_turn)
    kills = [Kill(*each, random_.random()) for each in zip(victims, in_turn, strict=True)]
    random_.shuffle(kills)
    return kills


def strike(arena: Arena, job: JobFolder, kill: Kill, begin: Callable[[], None] = lambda: None) -> None:
    """Kill, and wait until the victim is back; the broker is started again here, the others by their keepers.

    `begin` is called just before its moment is awaited.
    """
    _await(arena, job, kill, begin)
    deaths, records = arena.keeper.deaths, newest(job.records)
    match kill.victim:
        case Victim.BROKER:
            os.kill(arena.broker.pid, signal.SIGKILL)
            pause(kill.delay)
            arena.broker.restart()
        case Victim.WORKER:
            arena.until(lambda: _killed_worker(arena, kill.delay), "a worker is killed")
        case Victim.DRIVER:
            os.kill(arena.keeper.pid, signal.SIGKILL)
        case Victim.JVM:
            for process in processes(arena.keeper.pid, Victim.JVM):
                process.kill()
    if kill.victim in {Victim.DRIVER, Victim.JVM}:
        arena.until(lambda: arena.keeper.deaths > deaths, "the keeper sees that its host died")
        records = newest(job.records)
    arena.until(lambda: newest(job.records) > records + 1, f"batches are recorded after {kill}")


def _killed_worker(arena: Arena, chance: float) -> bool:
    """Kill one worker, or now and then all of them at once; whether any was there: with a long batch they end."""
    found = processes(arena.keeper.pid, Victim.WORKER)
    killed = False
    for process in found if chance < _ALL else found[int(chance * len(found)) :][:1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
            killed = True
    return killed


def _await(arena: Arena, job: JobFolder, kill: Kill, begin: Callable[[], None]) -> None:
    """Look as often as possible: the time between two steps is short."""
    if kill.moment is Moment.ANY:
        begin()
        pause(kill.delay)
        return
    seen = _seen(job, kill.moment)
    begin()
    until = time.monotonic() + BOUND
    while _seen(job, kill.moment) == seen:
        pause(_LOOKING)
        if time.monotonic() > until:
            pytest.fail(f"nothing was {kill.moment} within {BOUND:g} s; the job says {arena.heard}")


def _seen(job: JobFolder, moment: Moment) -> int:
    match moment:
        case Moment.LONG_BATCH:
            # Spark notes each before it begins.
            return max((int(path.name) for path in (job.spark / "offsets").glob("[0-9]*")), default=-1)
        case Moment.BEGUN:
            return max([newest(job.records), *(int(path.name[:20]) for path in job.attempts.rglob("*-*"))])
        case Moment.SHARD:
            shards = (path.name for path in (job.records / "shards").glob("*.*"))
            # A batch with one shard has no record but its own.
            return max([newest(job.records), *(int(name.partition(".")[0]) for name in shards)])
        case Moment.PUBLISHED:
            return _changed(job.path / "published")
        case _:
            return newest(job.records)


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def processes(host: int, victim: Victim) -> list[psutil.Process]:
    """The living processes of a kind of a host; of Python's only the forked ones, not the daemon that forks them."""
    driver = psutil.Process(host)
    if victim is Victim.DRIVER:
        return [driver]
    tree = [each for each in driver.children(recursive=True) if each.is_running()]
    if victim is Victim.JVM:
        return [each for each in tree if each.name() == "java"]
    python = [each for each in tree if "pyspark" in " ".join(_command(each)) and each.name() != "java"]
    known = {each.pid for each in python}
    return [each for each in python if each.ppid() in known] or python


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
