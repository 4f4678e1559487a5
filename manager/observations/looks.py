"""Looks at the events of running tasks: callers begin and renew them, hosts report what there is to see.

A look ends by itself some seconds after it was renewed last. There are only so many at a time, and what hosts report
for each is bounded (`engine/job/looks.py`), so a manager keeps little of it, and nothing once nobody looks.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from bridge import topics
from engine.port_events import MOST_INSTANCES, LookRequest, SeenInstance, read_seen, written_look
from manager.problem import QuotaExceeded

LOOK_SECONDS = 10.0
"""Seconds for which a look goes on after it was renewed."""
MOST_LOOKED_AT = 8
"""Tasks that one tenant, or the operators, look at at once."""
_ASK_EVERY = 1.0
"""Seconds between two requests to a host for one instance, however many look at it."""


class LookedAt(NamedTuple):
    """An instance that somebody looks at, and the job that has its events."""

    job: str
    instance: int


class TaskLooks:
    """All looks of a manager; any thread may call it."""

    def __init__(self, publish: Callable[[str, bytes], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._publish = publish
        self._clock = clock
        # Guards the fields below.
        self._guard = threading.Lock()
        self._until: dict[tuple[str, LookedAt], float] = {}
        """When each caller's look ends."""
        self._asked: dict[LookedAt, float] = {}
        self._seen: dict[LookedAt, SeenInstance] = {}

    def renew(self, who: str, at: LookedAt, *, host: str | None) -> bool:
        """Look at an instance for some seconds more; whether that is new. Refused if a caller looks at too many.

        Without a host nobody is asked.
        """
        now = self._clock()
        with self._guard:
            self._end_old(now)
            begins = (who, at) not in self._until
            if begins:
                self._check(who, at)
            self._until[who, at] = now + LOOK_SECONDS
            is_asked = now - self._asked.get(at, -math.inf) < _ASK_EVERY
            if host is None or is_asked:
                return begins
            self._asked[at] = now
        request = LookRequest(job=at.job, instance=at.instance, seconds=LOOK_SECONDS)
        self._publish(topics.host(host, "look"), written_look(request))
        return begins

    def seen(self, at: LookedAt) -> SeenInstance | None:
        """What was reported of an instance since somebody has looked; None if nothing was."""
        with self._guard:
            return self._seen.get(at)

    def take(self, job: str, payload: bytes) -> None:
        """Take a host's report. Raises ValueError if it is none."""
        seen = read_seen(payload)
        with self._guard:
            # One that comes late is of nobody's look.
            if (at := LookedAt(job, seen.instance)) in self._asked:
                self._seen[at] = seen

    def end_old(self) -> None:
        """Forget the looks that were not renewed, and what was seen by them."""
        if self._until:
            with self._guard:
                self._end_old(self._clock())

    def _check(self, who: str, at: LookedAt) -> None:
        of_one = sum(1 for caller, _ in self._until if caller == who)
        in_job = {other for _, other in self._until if other.job == at.job}
        if of_one >= MOST_LOOKED_AT or (at not in in_job and len(in_job) >= MOST_INSTANCES):
            raise QuotaExceeded(
                f"{who} looks at {of_one} tasks, and {len(in_job)} tasks of this one's job are looked at; a look ends "
                f"{LOOK_SECONDS:g} seconds after the last request, so ask again then",
                retry_after=LOOK_SECONDS,
            )

    def _end_old(self, now: float) -> None:
        self._until = {look: until for look, until in self._until.items() if until > now}
        open_looks = {at for _, at in self._until}
        for at in self._asked.keys() - open_looks:
            del self._asked[at]
            self._seen.pop(at, None)
