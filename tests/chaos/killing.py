"""The kills, at random or between two steps, and the arena: a host, its keeper, a mosquitto, a subscriber."""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from bridge import (
    ItemKind,
    Message,
    Receiver,
    ReceiverThread,
    Spool,
    SpoolFeed,
    SpoolIndex,
    Unread,
    commit,
    read,
    topics,
    unpacked,
)
from bridge.broker import start_broker
from bridge.machine import BackOff
from bridge.transport.mqtt_client import MqttClient
from engine.host import keeper
from engine.host.keeper import HostKeeper, MachineOptions
from engine.plan import Plan
from engine.plan_messages import CutRequest, written_cut, written_plan
from engine.records.job_folder import JobFolder, job_folder, spool_folder

HOST = "h"
USERS = {"braid": "a password of its own"}
BOUND = 180.0
"""Seconds that any step may take on a busy machine."""
_AWAITING = 0.02


class Subscriber:
    """A receiver of streams with its own spools, in the test's process."""

    def __init__(self, arena: "Arena", folder: Path) -> None:
        self._folder = folder
        self.spools: dict[int, Spool] = {}
        self.unread: list[Unread] = []
        self._client = MqttClient(
            arena.broker.address("braid"),
            "subscriber",
            on_message=self._heard,
            on_connection=self._reconnected,
            on_disconnection=self._reconnected,
        )
        self._receiver = Receiver({}, self._client, on_unread=self.unread.append)
        self._thread = ReceiverThread("subscriber")
        self._client.start()

    def subscribe(self, instance: int) -> None:
        """Begin to receive what leaves an instance."""
        spool = self.spools[instance] = Spool(self._folder / str(instance), most_bytes=1 << 40)
        asks_at, has_at = topics.again(instance, "out"), topics.have(instance, "out")
        self._receiver.add(topics.stream(instance, "out"), SpoolFeed(spool=spool, asks_at=asks_at, has_at=has_at))
        self._client.subscribe([topics.stream(instance, "out")], timeout=BOUND)

    def gaps(self) -> int:
        """The number of events that it gave up."""
        return sum(intake.counts.gaps for intake in self._receiver.intakes.values())

    def until_marker(self, instance: int, name: str) -> list[dict[str, Any]] | None:
        """All events before a marker; None if it has not come."""
        reader = SpoolIndex(self._folder / str(instance))
        reader.refresh()
        position = reader.marker_position(name)
        return None if position is None else events_in(self._folder / str(instance), position - 1)

    def stop(self) -> None:
        """End it; its spools stay."""
        self._client.stop()
        self._thread.stop()
        for spool in self.spools.values():
            spool.close()

    def _heard(self, message: Message) -> None:
        self._thread.deliver(self._receiver.work, [message])

    def _reconnected(self) -> None:
        self._thread.deliver(self._receiver.work, [None])


class Arena:
    """A broker, a host, a subscriber, and a client that sends plans."""

    def __init__(self, root: Path) -> None:
        self.root = root / "braid"
        self.broker = start_broker(root / "broker", USERS, kind="mosquitto")
        self.heard: dict[str, Any] = {}
        self.refused: list[Any] = []
        watched = [make("+", what) for make in (topics.job, topics.host) for what in ("status", "refused")]
        self._client = MqttClient(self.broker.address("braid"), "manager", topics=watched, on_message=self._take)
        self._client.start()
        self.subscriber = Subscriber(self, root / "subscriber")
        self.keeper = HostKeeper(HOST, self.root, self.broker.address("braid"), MachineOptions(master="local[2,8]"))

    def stop(self) -> None:
        """End everything."""
        self.keeper.stop()
        self.subscriber.stop()
        self._client.stop()
        self.broker.stop()

    def keep_whole(self, stream: str) -> None:
        """Have a spool keep everything: the judge is one of its consumers, and never moves on."""
        commit(spool_folder(self.root, stream), "judge", 0)

    def send(self, plan: Plan) -> None:
        """Publish a plan."""
        self._client.publish(topics.job(plan.job, "plan"), written_plan(plan), retain=True)

    def end(self, job: str) -> None:
        """Stop a job, and wait until it has stopped."""
        self._client.publish(topics.job(job, "plan"), b"", retain=True)
        self.until(lambda: self.status(job).get("state") == "stopped", f"job {job} stops")

    def cut(self, name: str, *streams: str) -> None:
        """Ask for a cut."""
        self._client.publish(topics.host(HOST, "cut"), written_cut(CutRequest(cut=name, streams=streams)))

    def status(self, job: str) -> dict[str, Any]:
        """The last status of a job."""
        return self.heard.get(topics.job(job, "status")) or {}

    def spool(self, stream: str) -> str:
        """The state of a spool in the host's last status."""
        status = self.heard.get(topics.host(HOST, "status")) or {}
        return str(status.get("spools", {}).get(stream, ""))

    def folder(self, job: str) -> JobFolder:
        """The folder of a job, with its records."""
        return job_folder(self.root, job)

    def until(self, condition: Callable[[], bool], what: str, bound: float = BOUND) -> None:
        """Wait for a condition, within a bound."""
        until = time.monotonic() + bound
        while time.monotonic() < until:
            if condition():
                return
            pause(_AWAITING)
        said = self.keeper.log_path.read_text(errors="replace")[-4_000:]
        pytest.fail(f"{what}: not within {bound:g} s. Heard: {self.heard}; refused: {self.refused}; the host: {said}")

    def _take(self, message: Message) -> None:
        value = json.loads(message.payload) if message.payload else None
        if message.topic.endswith("/refused"):
            self.refused.append(value)
        else:
            self.heard[message.topic] = value
        self._client.acknowledge([message.token])


def pause(seconds: float) -> None:
    """Let everything run for the given time, where the time itself matters."""
    threading.Event().wait(seconds)


def numbers(folder: Path) -> list[int]:
    """The batches that have a file in a folder."""
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())


def newest(folder: Path) -> int:
    """The last batch with a file in a folder."""
    return max(numbers(folder), default=-1)


def events_in(folder: Path, end: int) -> list[dict[str, Any]]:
    """The events of a spool before a position."""
    return list(_events(folder, end))


def _events(folder: Path, end: int) -> Iterator[dict[str, Any]]:
    for first, item in read(folder, 0, 1 << 40):
        if item.kind is ItemKind.DATA:
            yield from unpacked(item.payload).slice(0, max(0, end - first)).to_pylist()
        if first + item.count >= end:
            return


@contextmanager
def arena(root: Path, patch: pytest.MonkeyPatch) -> Iterator[Arena]:
    """A started arena, which is stopped at the end."""
    # The back-off for a host that keeps dying does not matter here.
    patch.setattr(keeper, "_BACK_OFF", BackOff((0.2,)))
    made = Arena(root)
    try:
        yield made
    finally:
        made.stop()


def subscribed(arena: Arena, instances: Iterable[int]) -> int:
    """The number of events that a subscriber has of some instances."""
    return sum(arena.subscriber.spools[instance].end for instance in instances)


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
