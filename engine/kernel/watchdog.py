"""Verdicts: a task that kills its worker, hangs or exhausts memory is found by name, and the job goes on without it.

Each attempt at a batch has a file of its own, of which it holds a lock while it lives. A page of it is mapped into
memory and says what is being run; the kernel writes it back however the process dies. An attempt that finds the file
of a dead one knows what that died of:

1. Who dies while an instance runs makes it suspect. From now on the instance runs event by event in this batch.
2. Who dies again at an event of it, and once more at the same one, convicts that event. A verdict is written, and the
   event is parked in every later attempt.
3. After three verdicts on one instance in one batch, the rest of its events are parked too.

An innocent task whose worker is killed for other reasons loses nothing, because it would have to be killed three times,
twice of these at one event. A task that hangs is ended by a timer in its own process, which leaves a traceback in the
file; there is no doubt who hung, so once at an event is enough.

Memory has a limit that the operating system sets on the process, so that who takes too much gets a MemoryError like any
other error. What dies beyond that dies like any other task that kills its worker.
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

from bridge.machine.files import link_whole, make_folder
from engine.kernel.task_watch import EventName
from engine.plan import Limits

DEATHS_OF_SUSPECT = 3
"""So many deaths at an instance, the last ones at one event, convict the event."""
DEATHS_AT_EVENT = 2
MOST_VERDICTS = 3
"""After so many on one instance, the rest of its events in the batch are parked."""
_KILLED, _HUNG = "killed its worker", "hung for over"
_AFTER = f"{MOST_VERDICTS} events of the batch before it were parked"

_IDLE, _WITH_MANY, _WITH_ONE = range(3)
_PROGRESS = struct.Struct("<qqqq")
"""What an attempt maps into memory: one of the three above, the instance, the event's cause and its place."""
_ATTEMPT = re.compile(r"(\d{20})-\d{20}-\w+")
_VERDICT = re.compile(r"(\d{20})\.\d+\.-?\d+\.\d+\.json")
"""Batch, instance, cause and place."""
_REARM = 0.1
"""The timer is set anew once this part of it has passed, because that costs more than most events."""


class Death(NamedTuple):
    """What ran when an attempt died; read from its file."""

    instance: int
    event: EventName | None
    """None where the instance ran with many events, or was just being made."""
    hung: bool
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An event, or a whole instance, that is to be parked; made by an attempt."""

    batch: int
    instance: int
    event: EventName | None
    """None for every event of the batch."""
    reason: str
    traceback: str = ""
    """Where a task hung."""


def is_verdict(reason: str) -> bool:
    """Whether events were parked for this reason because of a verdict, and not for what their task raised.

    >>> is_verdict("hung for over 60 s"), is_verdict("ValueError: hung for over 60 s")
    (True, False)
    """
    return reason.startswith((_KILLED, _HUNG, _AFTER))


def judge(batch: int, deaths: Sequence[Death], hang: float) -> list[Verdict]:
    """Who is to blame for how the attempts at a batch died.

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
        verdicts.append(
            Verdict(
                batch=batch,
                instance=instance,
                event=event,
                reason=reason,
                traceback=hung[-1].traceback if hung else "",
            )
        )
    return verdicts


class Attempt:
    """One attempt at a batch, and what is known from those before; a `TaskWatch` for the kernel.

    While it lasts, memory is limited and a timer ends the process should a task hang.
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
        # Of the process, unlike `flock`: children that a task leaves behind do not keep it.
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        os.ftruncate(self._file, _PROGRESS.size)
        self._progress = mmap.mmap(self._file, _PROGRESS.size)
        # A traceback is written behind what is mapped.
        os.lseek(self._file, _PROGRESS.size, os.SEEK_SET)
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = self._limits.memory
        resource.setrlimit(
            resource.RLIMIT_DATA, (most if self._hard == resource.RLIM_INFINITY else min(most, self._hard), self._hard)
        )
        return self

    def __exit__(
        self, error: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.idle()
        resource.setrlimit(resource.RLIMIT_DATA, (self._soft, self._hard))
        self._progress.close()
        # It lives, so nobody is to blame.
        self._path.unlink(missing_ok=True)
        os.close(self._file)
        if error is None:
            self._forget()

    def alone(self, instance: int) -> bool:
        """Whether an instance must run event by event."""
        return instance in self._suspects

    def parked(self, instance: int, event: EventName | None = None) -> str:
        """Why an event, or the whole instance, must not be run; empty where it may."""
        convicted = self._convicted.get(instance, {})
        if event is None or not convicted:
            return convicted.get(event, "")
        last = max((each for each in convicted if each is not None), default=event)
        if len(convicted) >= MOST_VERDICTS and event > last:
            return f"{_AFTER}: {convicted[last]}"
        return convicted.get(event, "")

    def running(self, instance: int, event: EventName | None = None) -> None:
        """An instance begins to run, with one event or with many."""
        self._progress[:] = (
            _PROGRESS.pack(_WITH_MANY, instance, 0, 0) if event is None else _PROGRESS.pack(_WITH_ONE, instance, *event)
        )
        now = time.monotonic()
        if now - self._armed > _REARM * self._limits.hang:
            self._armed = now
            faulthandler.dump_traceback_later(self._limits.hang, exit=True, file=self._file)

    def idle(self) -> None:
        """No task runs any more."""
        # A disk may take its time to keep the record.
        faulthandler.cancel_dump_traceback_later()
        self._armed = -math.inf
        self._progress[:] = _PROGRESS.pack(_IDLE, 0, 0, 0)

    def _learn(self) -> None:
        """Take what the attempts before died of, and what was decided then."""
        deaths = [death for path in _files(self._folder, _ATTEMPT, self._batch) if (death := _death(path)) is not None]
        for verdict in judge(self._batch, deaths, self._limits.hang):
            _write(self._folder, verdict)
        self._convicted: dict[int, dict[EventName | None, str]] = {}
        for verdict in verdicts(self._folder, self._batch):
            self._convicted.setdefault(verdict.instance, {})[verdict.event] = verdict.reason
        self._suspects = {death.instance for death in deaths} | set(self._convicted)

    def _forget(self) -> None:
        """The batch is recorded: how attempts at it died, and verdicts on those before, say nothing any more."""
        for path in _files(self._folder, _ATTEMPT):
            if int(path.name[:20]) <= self._batch and _left(path) is not None:
                path.unlink(missing_ok=True)
        for path in _files(self._folder, _VERDICT):
            if int(path.name[:20]) < self._batch:
                path.unlink(missing_ok=True)


def verdicts(folder: Path, batch: int) -> list[Verdict]:
    """The verdicts on a batch; they are kept until the next one is recorded."""
    found = []
    for path in _files(folder, _VERDICT, batch):
        told = json.loads(path.read_bytes())
        found.append(Verdict(**{**told, "event": None if told["event"] is None else tuple(told["event"])}))
    return found


def _write(folder: Path, verdict: Verdict) -> None:
    cause, place = verdict.event or (-1, 0)
    name = f"{verdict.batch:020d}.{verdict.instance}.{cause}.{place}.json"
    link_whole(folder / name, json.dumps(asdict(verdict)).encode())


def _files(folder: Path, pattern: "re.Pattern[str]", batch: int | None = None) -> list[Path]:
    matches = ((pattern.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return [path for match, path in matches if match and batch in {None, int(match[1])}]


def _death(path: Path) -> Death | None:
    """What the attempt of a file died of; None while it lives, and where no task is to blame."""
    content = _left(path)
    if content is None or len(content) < _PROGRESS.size:
        return None
    state, instance, cause, place = _PROGRESS.unpack_from(content)
    if state == _IDLE:
        return None
    traceback = content[_PROGRESS.size :].decode(errors="replace")
    return Death(instance, (cause, place) if state == _WITH_ONE else None, bool(traceback), traceback)


def _left(path: Path) -> bytes | None:
    """What a dead attempt left; None while it lives."""
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file.read()
    except (BlockingIOError, PermissionError, FileNotFoundError):
        # Locked, or removed by another attempt just now.
        return None
