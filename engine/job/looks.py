"""The looks at instances of a job: who of them is looked at for now, and the newest events at their ports.

A look ends by itself unless it is renewed, and all that was kept for it goes with it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from engine.port_events import (
    MOST_INSTANCES,
    MOST_SHOWN_EVENTS,
    SampledPort,
    SeenEvent,
    SeenInstance,
    SeenPort,
    read_samples,
)

LONGEST_LOOK = 60.0
"""Seconds for which a look goes on at most if it is not renewed."""
MOST_SEEN_CHARACTERS = 200_000
"""Characters that the events of an instance have together at most; each port has its part of it."""


@dataclass(slots=True)
class _Port:
    count: int = 0
    newest: deque[SeenEvent] = field(default_factory=deque)


@dataclass(slots=True)
class _Look:
    until: float
    ports: dict[SampledPort, _Port] = field(default_factory=dict)
    is_news: bool = False
    """Whether a batch has run since the last report."""


class JobLooks:
    """The looks at one job; any thread may call it.

    >>> looks = JobLooks()
    >>> looks.renew(7, seconds=5)
    >>> looks.note([7], [[[7, "out", False], 12, ['{"t":1}']]])
    >>> [(port.port, port.count, port.newest[0].event) for seen in looks.news() for port in seen.ports]
    [('out', 12, '{"t":1}')]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._looks: dict[int, _Look] = {}

    def renew(self, instance: int, seconds: float) -> None:
        """Look at an instance from now on, for so long; not at too many at once."""
        with self._guard:
            self._end_old()
            until = self._clock() + min(seconds, LONGEST_LOOK)
            if (look := self._looks.get(instance)) is not None:
                look.until = until
            elif len(self._looks) < MOST_INSTANCES:
                self._looks[instance] = _Look(until)

    def instances(self) -> list[int]:
        """The instances that are looked at."""
        # Without the lock, as that is all that most batches ask.
        if not self._looks:
            return []
        with self._guard:
            self._end_old()
            return sorted(self._looks)

    def note(self, instances: Collection[int], sampled: object) -> None:
        """Note what was sampled of some instances in a batch: several `PortSample`, perhaps from another process."""
        if not self._looks:
            return
        now, samples = time.time_ns() // 1_000_000, read_samples(sampled)
        with self._guard:
            for instance in self._looks.keys() & instances:
                self._looks[instance].is_news = True
            for at, count, newest in samples:
                if (look := self._looks.get(at.instance)) is not None:
                    port = look.ports.setdefault(at, _Port())
                    port.count += count
                    port.newest += [SeenEvent(now, event) for event in newest[-MOST_SHOWN_EVENTS:]]
            for look in self._looks.values():
                _bound(look)

    def news(self) -> Iterator[SeenInstance]:
        """Yield all that is kept of each instance of which a batch has run since the last time."""
        if not self._looks:
            return
        with self._guard:
            self._end_old()
            fresh = [(instance, look) for instance, look in self._looks.items() if look.is_news]
            for _, look in fresh:
                look.is_news = False
            seen = [SeenInstance(instance=instance, ports=tuple(_seen(look))) for instance, look in fresh]
        yield from seen

    def _end_old(self) -> None:
        now = self._clock()
        for instance in [instance for instance, look in self._looks.items() if look.until <= now]:
            del self._looks[instance]


def _bound(look: _Look) -> None:
    room = MOST_SEEN_CHARACTERS // max(1, len(look.ports))
    for port in look.ports.values():
        while len(port.newest) > MOST_SHOWN_EVENTS or sum(len(seen.event) for seen in port.newest) > room:
            port.newest.popleft()


def _seen(look: _Look) -> Iterator[SeenPort]:
    for at, port in look.ports.items():
        yield SeenPort(port=at.port, is_input=at.is_input, count=port.count, newest=tuple(port.newest))
