"""The spools of a host: for each stream that enters one of its jobs, the spool and whoever fills it.

A spool has one owner. Where another host owns it already, this one only reads, and takes over once that one is gone.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from bridge import (
    Clock,
    Counts,
    GeneratorRun,
    Item,
    ItemKind,
    LeaseTaken,
    SpoolClosed,
    SpoolDamaged,
    SpoolFeed,
    consumers,
    topics,
)
from engine.host.notifying_spool import NotifyingSpool
from engine.host.reception import Reception, StreamReceiver
from engine.plan import Ingress, Plan
from engine.plan_messages import RefusedPlan
from engine.records.job_folder import spool_folder
from engine.supply import Bridged, Subscribed

log = logging.getLogger("braid.host")

ELSEWHERE = "elsewhere"
"""What is told of a stream that another host supplies."""
_PRUNE_SECONDS = 5.0
"""Seconds between two looks at what consumers have passed: how far each is stands in a file of its own."""
_RETRY_SECONDS = 5.0
"""Seconds after which a stream that is not supplied because something failed is tried anew, where it was."""


@dataclass(kw_only=True)
class _Supply:
    ingress: Ingress
    most_bytes: int
    spool: NotifyingSpool | None = None
    reception: Reception | None = None
    counted: Counts = field(default_factory=Counts)
    """What the receptions before this one met."""
    generating: GeneratorRun | None = None
    thread: threading.Thread | None = None
    paces: Mapping[str, float] = field(default_factory=dict)
    """The jobs that read it, each with the pace of its latest plan; never changed, but replaced."""
    trouble: str = ""
    """Why nothing more comes."""
    retry: float = 0.0
    """When it is tried again, as `time.monotonic` tells."""

    def pace(self) -> float:
        """The shortest pace of those who read it; from any thread."""
        return min(self.paces.values(), default=0.0)

    def fail(self, trouble: str) -> None:
        """Nothing more comes for a while; from any thread."""
        self.retry = time.monotonic() + _RETRY_SECONDS
        self.trouble = trouble


class HostSpools:
    """Which streams a host supplies; called from its main thread."""

    def __init__(
        self, root: Path, receiving: StreamReceiver, *, clock: Clock, grown: Callable[[str, bool], None]
    ) -> None:
        self._root = root
        self._receiving = receiving
        self._clock = clock
        self._grown = grown
        self._supplies: dict[str, _Supply] = {}
        self._pruned = -math.inf

    def need(self, plan: Plan, ingress: Ingress) -> None:
        """A job reads a stream by a plan: supply it, unless somebody does already."""
        supply = self._supplies.get(ingress.stream)
        if other := next((name for name, each in self._supplies.items() if _clash(each.ingress, ingress)), None):
            raise RefusedPlan(
                f"{ingress.stream!r} cannot be supplied beside {other!r}, which has the same name or topic and is not "
                "the same stream; use that one, or stop the jobs that read it"
            )
        if supply is None:
            supply = self._supplies[ingress.stream] = _Supply(ingress=ingress, most_bytes=plan.limits.spool_bytes)
        supply.paces = {**supply.paces, plan.job: plan.pace}
        if supply.spool is None and not supply.trouble:
            with _troubles(supply):
                self._own(supply)

    def drop(self, job: str, stream: str) -> None:
        """A job reads a stream no longer; without a reader nobody supplies it."""
        supply = self._supplies.get(stream)
        if supply is None:
            return
        supply.paces = {name: pace for name, pace in supply.paces.items() if name != job}
        self._end_unread(stream, supply)

    def look(self) -> None:
        """Take over what its owner left, end what nobody reads any more, and let spools go on that were full."""
        for stream, supply in list(self._supplies.items()):
            with _troubles(supply):
                self._end_unread(stream, supply)
        now = time.monotonic()
        prunes = now - self._pruned >= _PRUNE_SECONDS
        if prunes:
            self._pruned = now
        for supply in self._supplies.values():
            if supply.trouble and now < supply.retry:
                continue
            with _troubles(supply):
                if supply.trouble:
                    # A disk may have space again, a file may be there by now.
                    self._close(supply)
                    supply.trouble = ""
                if supply.spool is None:
                    self._own(supply)
                elif prunes:
                    supply.spool.prune()

    def mark(self, name: str, streams: Sequence[str]) -> None:
        """Put a marker at the end of the raw spools that it owns: of these, or of all where none is named.

        A spool that has the marker already gets it only once, however often the wish comes.
        """
        owned = {
            stream
            for stream, supply in self._supplies.items()
            if supply.spool is not None and not isinstance(supply.ingress.supply, Bridged)
        }
        if unknown := sorted(set(streams) - owned):
            raise RefusedPlan(
                f"the cut {name!r} is wished for in {unknown[0]!r}, which is no raw stream that this host supplies; "
                "ask the host that does, or leave it out"
            )
        for stream, supply in sorted(self._supplies.items()):
            if isinstance(supply.ingress.supply, Bridged) or (streams and stream not in streams):
                continue
            if supply.spool is not None and supply.spool.marker_position(name) is None:
                stamp = round(self._clock.now() * 1000)
                supply.spool.append([Item(kind=ItemKind.MARKER, count=1, stamp=stamp, payload=name.encode())])

    def states(self) -> dict[str, str]:
        """For each stream whether its spool takes more, why nothing comes, or that another host owns it."""
        return {
            stream: supply.trouble or (ELSEWHERE if supply.spool is None else str(supply.spool.state))
            for stream, supply in sorted(self._supplies.items())
        }

    def size(self) -> int:
        """How many bytes the spools that it owns hold."""
        return sum(supply.spool.size for supply in self._supplies.values() if supply.spool is not None)

    def owned(self, stream: str) -> NotifyingSpool | None:
        """The spool of a stream, where this host fills it; from any thread."""
        supply = self._supplies.get(stream)
        return None if supply is None else supply.spool

    def end(self, stream: str) -> int | None:
        """The position after the last of a stream; None where another host appends to it."""
        supply = self._supplies.get(stream)
        return None if supply is None or supply.spool is None else supply.spool.end

    def counts(self) -> dict[str, dict[str, int]]:
        """For each stream that is received what was doubled, early, missing for good, or refused."""
        return {
            stream: asdict(_sum(supply.counted, supply.reception.counts))
            for stream, supply in sorted(self._supplies.items())
            if supply.reception is not None
        }

    def close(self) -> None:
        """Let the spools go, once nobody receives any more: what comes now waits at the broker for the next process."""
        for supply in self._supplies.values():
            self._close(supply)
        self._supplies.clear()

    def _own(self, supply: _Supply) -> None:
        stream = supply.ingress.stream
        try:
            supply.spool = NotifyingSpool(
                spool_folder(self._root, stream), most_bytes=supply.most_bytes, grown=partial(self._grown, stream)
            )
        except LeaseTaken:
            return
        match supply.ingress.supply:
            case Subscribed(topic=topic) as subscribed:
                raw = SpoolFeed(spool=supply.spool, schema=subscribed.schema)
                numbered = SpoolFeed(spool=supply.spool, answers_at=topics.kept(stream))
                self._receive(supply, {topic: raw, topics.sent(stream): numbered})
            case Bridged():
                origin = supply.ingress.origin
                feed = SpoolFeed(spool=supply.spool, asks_at=topics.again(*origin), has_at=topics.have(*origin))
                self._receive(supply, {topics.stream(*origin): feed})
            case generated:
                supply.generating = GeneratorRun(generated.generator, supply.spool, clock=self._clock)
                supply.thread = threading.Thread(
                    target=_generate, args=(supply,), name=f"generates {stream}", daemon=True
                )
                supply.thread.start()

    def _receive(self, supply: _Supply, feeds: Mapping[str, SpoolFeed]) -> None:
        supply.reception = self._receiving.begin(supply.ingress.stream, feeds, pace=supply.pace, on_trouble=supply.fail)

    def _end_unread(self, stream: str, supply: _Supply) -> None:
        # A job of another host may read it: what came until that one supplies it would be lost.
        if supply.paces or (supply.spool is not None and consumers(supply.spool.folder)):
            return
        self._end(supply)
        del self._supplies[stream]

    def _end(self, supply: _Supply) -> None:
        if supply.reception is not None:
            supply.reception.leave()
            supply.reception = None
        self._close(supply)

    def _close(self, supply: _Supply) -> None:
        if supply.reception is not None:
            supply.reception.stop()
            supply.counted = _sum(supply.counted, supply.reception.counts)
        if supply.generating is not None and supply.thread is not None:
            supply.generating.stop()
            supply.thread.join()
        if supply.spool is not None:
            supply.spool.close()
        supply.reception, supply.generating, supply.thread, supply.spool = None, None, None, None


def _sum(one: Counts, other: Counts) -> Counts:
    return Counts(
        duplicates=one.duplicates + other.duplicates,
        held=one.held + other.held,
        gaps=one.gaps + other.gaps,
        refused=one.refused + other.refused,
    )


@contextmanager
def _troubles(supply: _Supply) -> Iterator[None]:
    """What is wrong with one stream is told where it stands, and hurts no other; it is tried again after a while."""
    try:
        yield
    except (SpoolDamaged, SpoolClosed, OSError) as error:
        log.error("stream %s: %s", supply.ingress.stream, error)  # noqa: TRY400 - it says where and what to do
        supply.fail(str(error))


def _clash(one: Ingress, other: Ingress) -> bool:
    """Whether two streams cannot both be supplied: one name for two, or one topic into two spools."""
    same = one.supply == other.supply and (one.origin == other.origin or not isinstance(one.supply, Bridged))
    if one.stream == other.stream:
        return not same
    if isinstance(one.supply, Subscribed) and isinstance(other.supply, Subscribed):
        return one.supply.topic == other.supply.topic
    return isinstance(one.supply, Bridged) and same


def _generate(supply: _Supply) -> None:
    """Run a generator; what ends it is told, and ends no other."""
    if supply.generating is None:
        return
    try:
        supply.generating.run()
    except Exception as error:  # a file that is replayed may hold anything
        log.exception("stream %s", supply.ingress.stream)
        supply.fail(f"{type(error).__name__}: {error}")
