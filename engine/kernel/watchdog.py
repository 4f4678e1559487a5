"""The watchdog of a worker: it identifies a task that kills the worker, hangs or exhausts memory.

Each attempt at a batch has its own file, which it locks while it lives. A page of the file is mapped into memory and
names the running task. The operating system writes the page back even if the process is killed. So a later attempt
reads from the file how the earlier one died, and acts on it:

1. After a death in an instance, the instance is a suspect. From now on it runs event by event in this batch.
2. After another death at one of its events, and one more at the same event, the event is convicted. A verdict is
   written, and the event is parked in every later attempt.
3. After three verdicts on one instance in one batch, the rest of its events are parked too.

An innocent task whose worker is killed for other reasons loses nothing: it would have to be killed three times, twice
of these at one event. A timer in the process ends a task that hangs, and leaves a traceback in the file. Then there is
no doubt, so that once at an event is enough.

The operating system limits the memory of the process, so that a task that takes too much gets a MemoryError. A task
that dies nevertheless is treated like any other that kills its worker.
"""

import faulthandler
import fcntl
import json
import math
import mmap
import os
import re
import resource
import struct
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from bridge.files import link_whole, make_folder
from engine.behaviour import EventName
from engine.plan import Limits

DEATHS_OF_SUSPECT = 3
"""The deaths in an instance after which the event of the last ones is convicted."""
DEATHS_AT_EVENT = 2
MOST_VERDICTS = 3
"""The verdicts on one instance after which the rest of its events in the batch are parked."""
_KILLED, _HUNG = "killed its worker", "hung for over"
_AFTER = f"{MOST_VERDICTS} earlier events of the batch were parked"

_IDLE, _WITH_MANY, _WITH_ONE = range(3)
_PROGRESS = struct.Struct("<qqqq")
"""The content of the mapped page: one of the three states above, the instance, the event's cause and its place."""
_ATTEMPT = re.compile(r"(\d{20})-\d{20}-\w+")
_VERDICT = re.compile(r"(\d{20})\.\d+\.-?\d+\.\d+\.json")
"""Batch, instance, cause and place."""
_REARM = 0.1
"""The timer is restarted after this fraction of its time, because a restart costs more than most events."""


class Death(NamedTuple):
    """The task that ran when an attempt died; read from its file."""

    instance: int
    event: EventName | None
    """None if the instance ran with many events, or was being made."""
    hung: bool
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVerdict:
    """The decision to park an event, or all events of an instance in a batch; made by an attempt."""

    batch: int
    instance: int
    event: EventName | None
    """None for every event of the batch."""
    reason: str
    traceback: str = ""
    """The place where a task hung."""


def is_verdict(reason: str) -> bool:
    """True if this is the reason of a verdict, not of an exception.

    >>> is_verdict("hung for over 60 s"), is_verdict("ValueError: hung for over 60 s")
    (True, False)
    """
    return reason.startswith((_KILLED, _HUNG, _AFTER))


def judge(batch: int, deaths: Sequence[Death], hang: float) -> list[TaskVerdict]:
    """The verdicts that follow from the deaths of attempts at a batch.

    >>> at_event = Death(instance=7, event=(0, 0), hung=False, traceback="")
    >>> anywhere = at_event._replace(event=None)
    >>> judge(4, [anywhere, at_event], 60), len(judge(4, [anywhere, at_event, at_event], 60))
    ([], 1)
    """
    verdicts = []
    of_instance = Counter(death.instance for death in deaths)
    for (instance, event), count in Counter((death.instance, death.event) for death in deaths).items():
        hung = [death for death in deaths if death.hung and (death.instance, death.event) == (instance, event)]
        if len(hung) >= (1 if event else DEATHS_AT_EVENT):
            reason = f"{_HUNG} {hang:g} s"
        elif count >= (DEATHS_AT_EVENT if event else DEATHS_OF_SUSPECT) and of_instance[instance] >= DEATHS_OF_SUSPECT:
            reason = _KILLED
        else:
            continue
        trace = hung[-1].traceback if hung else ""
        verdicts.append(TaskVerdict(batch=batch, instance=instance, event=event, reason=reason, traceback=trace))
    return verdicts


class Attempt:
    """One attempt at a batch, with the lessons of earlier ones; a `TaskWatch` for the kernel.

    While it lasts, memory is limited, and a timer ends the process if a task hangs.
    """

    def __init__(self, folder: Path, batch: int, limits: Limits) -> None:
        self._folder = folder
        self._batch = batch
        self._limits = limits
        self._armed = -math.inf
        self._soft = self._hard = 0

    def __enter__(self) -> Self:
        make_folder(self._folder)
        self._learn()
        self._path = self._folder / f"{self._batch:020d}-{time.time_ns():020d}-{token_hex(4)}"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Unlike `flock`, it belongs to the process: children that a task leaves behind do not hold it.
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        os.ftruncate(self._file, _PROGRESS.size)
        self._progress = mmap.mmap(self._file, _PROGRESS.size)
        # A traceback is written after the mapped page.
        os.lseek(self._file, _PROGRESS.size, os.SEEK_SET)
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = self._limits.memory if self._hard == resource.RLIM_INFINITY else min(self._limits.memory, self._hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, self._hard))
        return self

    def __exit__(
        self, error: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.idle()
        resource.setrlimit(resource.RLIMIT_DATA, (self._soft, self._hard))
        self._progress.close()
        # The attempt survived, so no task is to blame.
        self._path.unlink(missing_ok=True)
        os.close(self._file)
        if error is None:
            self._forget()

    def alone(self, instance: int) -> bool:
        """True if an instance must run event by event."""
        return instance in self._suspects

    def parked(self, instance: int, event: EventName | None = None) -> str:
        """Why an event, or the whole instance, must not run; empty if it may."""
        convicted = self._convicted.get(instance, {})
        if event is None or not convicted:
            return convicted.get(event, "")
        last = max((known for known in convicted if known is not None), default=event)
        if len(convicted) >= MOST_VERDICTS and event > last:
            return f"{_AFTER}: {convicted[last]}"
        return convicted.get(event, "")

    def running(self, instance: int, event: EventName | None = None) -> None:
        """Note that an instance begins to run, with one event or with many."""
        self._progress[:] = _PROGRESS.pack(_WITH_ONE if event else _WITH_MANY, instance, *(event or (0, 0)))
        now = time.monotonic()
        if now - self._armed > _REARM * self._limits.hang:
            self._armed = now
            faulthandler.dump_traceback_later(self._limits.hang, exit=True, file=self._file)

    def idle(self) -> None:
        """Note that no task runs."""
        # The disk may be slow to write the record.
        faulthandler.cancel_dump_traceback_later()
        self._armed = -math.inf
        self._progress[:] = _PROGRESS.pack(_IDLE, 0, 0, 0)

    def _learn(self) -> None:
        """Judge the deaths of earlier attempts, and read all verdicts."""
        deaths = [death for path in _files(self._folder, _ATTEMPT, self._batch) if (death := _death(path)) is not None]
        for verdict in judge(self._batch, deaths, self._limits.hang):
            _write(self._folder, verdict)
        self._convicted: dict[int, dict[EventName | None, str]] = {}
        for verdict in verdicts(self._folder, self._batch):
            self._convicted.setdefault(verdict.instance, {})[verdict.event] = verdict.reason
        self._suspects = {death.instance for death in deaths} | set(self._convicted)

    def _forget(self) -> None:
        """Remove the files of dead attempts at recorded batches, and the verdicts on earlier batches."""
        for path in _files(self._folder, _ATTEMPT):
            if int(path.name[:20]) <= self._batch and _left(path) is not None:
                path.unlink(missing_ok=True)
        for path in _files(self._folder, _VERDICT):
            if int(path.name[:20]) < self._batch:
                path.unlink(missing_ok=True)


def verdicts(folder: Path, batch: int) -> list[TaskVerdict]:
    """The verdicts on a batch. They are kept until the next batch is recorded."""
    return [msgspec.json.decode(path.read_bytes(), type=TaskVerdict) for path in _files(folder, _VERDICT, batch)]


def _write(folder: Path, verdict: TaskVerdict) -> None:
    cause, place = verdict.event or (-1, 0)
    name = f"{verdict.batch:020d}.{verdict.instance}.{cause}.{place}.json"
    link_whole(folder / name, json.dumps(asdict(verdict)).encode())


def _files(folder: Path, pattern: "re.Pattern[str]", batch: int | None = None) -> list[Path]:
    matches = ((pattern.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return [path for match, path in matches if match and batch in {None, int(match[1])}]


def _death(path: Path) -> Death | None:
    """The death of the attempt of a file; None while it lives, or if no task ran."""
    content = _left(path)
    if content is None or len(content) < _PROGRESS.size:
        return None
    state, instance, cause, place = _PROGRESS.unpack_from(content)
    if state == _IDLE:
        return None
    traceback = content[_PROGRESS.size :].decode(errors="replace")
    return Death(instance, (cause, place) if state == _WITH_ONE else None, bool(traceback), traceback)


def _left(path: Path) -> bytes | None:
    """The content of a dead attempt's file; None while the attempt lives."""
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file.read()
    except (BlockingIOError, PermissionError, FileNotFoundError):
        # Locked, or just removed by another attempt.
        return None
