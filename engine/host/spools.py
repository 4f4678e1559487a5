"""The spools of a host: for each stream that enters one of its jobs, the spool and the supply that fills it.

A spool has one owner. If another host owns it, this host only reads it, and takes over once the other is gone. A spool
that this host fills notifies a listener when it has grown, and keeps an index up to date that all jobs share.

`Received` counts what came of a source. An event is rejected if it does not fit the schema of its source; it is
acknowledged all the same, and reaches no dataflow. The newest rejected ones are kept. A host counts from when it begins
to receive a source, and reports the counts with its status; managers read them as the same record.
"""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

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
    Unread,
    consumers,
    leave,
    topics,
)
from bridge.connectors.connector_run import ConnectorRun, LinkState, positions_in
from bridge.connectors.shared_feed import FEED_POSITION
from bridge.formats.decoders import decoder, topic_decoder
from bridge.formats.sparkplug_decoder import EdgeNode
from bridge.machine import BackOff
from bridge.raw_events import Unfit
from dags import Kind
from dags.message_formats import UnusableFormat, is_json
from dags.source_topics import source_topic
from engine.host.connectors import connect
from engine.host.feeds import Feeds, SharedFeed
from engine.host.notifying_spool import NotifyingSpool
from engine.host.reception import Reception, Receptions
from engine.outside import HostOutside
from engine.plan import Bridged, ConnectorSupply, Ingress, Plan, Subscribed, declaring
from engine.plan_messages import RefusedPlan
from engine.records.job_folder import spool_folder
from engine.replicas.copies import NO_COPIES, Copies

MOST_REJECTED_KEPT = 3
"""Rejected events that are kept of a source, so that a flood of them makes no status large."""
_LONGEST = 200
"""Characters that are kept of a rejected event, and of its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A rejected message, or an event in one; made by `Received.rejecting`."""

    at: float
    """When it came, in seconds since 1970."""
    event: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """The events of one source that a host has received."""

    since: float
    """When it began to receive the source, in seconds since 1970; it counts from then on."""
    accepted: int = 0
    rejected: int = 0
    newest: tuple[Rejected, ...] = ()
    """The newest rejected ones, newest first."""
    link: LinkState | None = None
    """The connection, if they come from outside Braid."""

    def rejecting(self, event: str, reason: str, *, count: int, at: float) -> "Received":
        """The record after more events were rejected, of which one is shown.

        >>> Received(since=1.0).rejecting('{"t":"hot"}', "t is no number", count=2, at=3.0).newest
        (Rejected(at=3.0, event='{"t":"hot"}', reason='t is no number'),)
        """
        shown = Rejected(at=at, event=_cut(event), reason=_cut(reason))
        newest = (shown, *self.newest)[:MOST_REJECTED_KEPT]
        return replace(self, rejected=self.rejected + count, newest=newest)

    def reported(self) -> dict[str, Any]:
        """The record as a status has it: without a connection where there is none, because sources may be many."""
        return {name: value for name, value in asdict(self).items() if name != "link" or value is not None}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


log = logging.getLogger("braid.host")

ELSEWHERE = "elsewhere"
"""The state of a stream that another host supplies."""
UNSUBSCRIBED = "unsubscribed"
"""The state of a stream that the broker has not confirmed over the present connection: what comes may be lost."""
_PRUNE_SECONDS = 5.0
"""Seconds between two looks at the positions of consumers, each of which is in a file of its own."""
_RETRY_SECONDS = 5.0
"""Seconds until a stream whose supply failed is supplied again, from where it was."""
_FEED_BACK_OFF = BackOff.doubling(0.1, longest=1.0)
"""The waits of a source for its feed, which has waits of its own for the broker."""


@dataclass(kw_only=True)
class _Supply:
    ingress: Ingress
    most_bytes: int
    received: Received
    """Without what its open spool has accepted."""
    kinds: dict[str, Kind] = field(default_factory=dict)
    """The kinds of fields that some job declares, the first one if they differ."""
    memory: dict[str, EdgeNode] = field(default_factory=dict)
    """What earlier messages said that later ones are read by."""
    spool: NotifyingSpool | None = None
    reception: Reception | None = None
    counted: Counts = field(default_factory=Counts)
    """The counts of earlier receptions."""
    generating: tuple[GeneratorRun | ConnectorRun, threading.Thread] | None = None
    feed: SharedFeed | None = None
    """What it takes from, if other sources may take from it too."""
    jobs: set[str] = field(default_factory=set)
    trouble: str = ""
    """The reason that nothing comes; empty while it is supplied."""
    retry: float = 0.0  # when it is supplied again, by `time.monotonic`

    @property
    def state(self) -> str:
        if self.trouble:
            return self.trouble
        if self.spool is None:
            return ELSEWHERE
        return str(self.spool.state) if self.is_subscribed else UNSUBSCRIBED

    @property
    def is_subscribed(self) -> bool:
        """Whether what comes from now on is not missed."""
        if self.connector is not None:
            return self.connector.has_begun
        return self.reception is None or self.reception.is_subscribed

    @property
    def connector(self) -> ConnectorRun | None:
        """Its run, if it comes from outside Braid."""
        run = self.generating and self.generating[0]
        return run if isinstance(run, ConnectorRun) else None

    def all_counts(self) -> Counts:
        now = self.reception.counts if self.reception is not None else Counts()
        return Counts(**(Counter(asdict(self.counted)) + Counter(asdict(now))))

    def all_received(self) -> Received:
        now = self.spool.accepted if self.spool is not None else 0
        link = None if self.connector is None else self.connector.link
        return replace(self.received, accepted=self.received.accepted + now, link=link)

    def fail(self, trouble: str) -> None:
        """Note that the supply failed; from any thread."""
        self.retry = time.monotonic() + _RETRY_SECONDS
        self.trouble = trouble


class HostSpools:
    """The streams that a host supplies; called from its main thread."""

    def __init__(  # noqa: PLR0913 - its folder, its receiver, a clock, two listeners and its copies are six things
        self,
        root: Path,
        receiver: Receptions,
        *,
        clock: Clock,
        on_growth: Callable[[str, bool], None],
        due: Callable[[str, float], float],
        copies: Copies = NO_COPIES,
    ) -> None:
        """`on_growth` and `due` are those of a `PaceServer`."""
        self._root = root
        self._receiver = receiver
        self._clock = clock
        self._on_growth = on_growth
        self._due = due
        self._copies = copies
        self._supplies: dict[str, _Supply] = {}
        self._by_topic: dict[str, str] = {}
        self._feeds = Feeds(root, clock=clock, copies=copies)
        self._pruned = -math.inf

    def need(self, plan: Plan, ingress: Ingress) -> None:
        """Supply a stream to a job that reads it by a plan, unless it is supplied already."""
        supply = self._supplies.get(ingress.stream)
        topic = _topic(ingress)
        other = self._by_topic.get(topic, ingress.stream)
        if other != ingress.stream or (supply is not None and not _are_same(supply.ingress, ingress)):
            raise RefusedPlan(
                f"{ingress.stream!r} cannot be supplied beside {other!r}, which has the same name or topic and is not "
                "the same stream; use that one, or stop the jobs that read it"
            )
        if supply is None:
            supply = self._supplies[ingress.stream] = _Supply(
                ingress=ingress, most_bytes=plan.limits.spool_bytes, received=Received(since=self._clock.now())
            )
            if topic:
                self._by_topic[topic] = ingress.stream
        supply.jobs.add(plan.job)
        if supply.connector is not None and supply.connector.leaves:
            # It was to be forgotten, so it begins anew.
            self._close(supply)
        self._declare_common(supply, ingress)
        if supply.spool is None and not supply.trouble:
            with _troubles(supply):
                self._own(supply)

    def _declare_common(self, supply: _Supply, ingress: Ingress) -> None:
        """Have a stream declare only what all that read it do: all else is spooled as it came, and read by each."""
        present, other = supply.ingress.supply, ingress.supply
        if not isinstance(present, Subscribed | ConnectorSupply) or not isinstance(other, Subscribed | ConnectorSupply):
            return
        common = {name: kind for name, kind in present.fields.items() if other.fields.get(name) == kind}
        # Of a text nobody behind the spool could make a number.
        expects_more = present.format.has_texts and not other.fields.keys() <= supply.kinds.keys()
        supply.kinds = {**other.fields, **supply.kinds}
        if expects_more or len(common) < len(present.fields):
            supply.ingress = replace(supply.ingress, supply=declaring(present, common))
            # The broker keeps what comes until it is supplied again.
            self._close(supply)

    def drop(self, job: str, stream: str) -> None:
        """Supply a stream to a job no longer; without a reader its supply ends."""
        if (supply := self._supplies.get(stream)) is not None:
            supply.jobs.discard(job)
            self._end_unread(stream, supply)

    def look(self) -> None:
        """Take over spools whose owner is gone, end supplies without a reader, and prune the spools."""
        for stream, supply in list(self._supplies.items()):
            with _troubles(supply):
                self._end_unread(stream, supply)
        now = time.monotonic()
        if prunes := now - self._pruned >= _PRUNE_SECONDS:
            self._pruned = now
        for supply in self._supplies.values():
            if supply.trouble and now < supply.retry:
                continue
            with _troubles(supply):
                if supply.trouble:
                    # The disk may have space again, or a file may exist by now.
                    self._close(supply)
                    supply.trouble = ""
                if supply.spool is None:
                    self._own(supply)
                elif prunes:
                    supply.spool.prune()
        self._feeds.look({supply.feed for supply in self._supplies.values() if supply.feed is not None}, prunes=prunes)

    def mark(self, name: str, streams: Sequence[str]) -> None:
        """Append a marker, once, to its raw spools of the given streams, or to all if none is given."""
        owned = {
            stream: supply.spool
            for stream, supply in sorted(self._supplies.items())
            if supply.spool is not None and not isinstance(supply.ingress.supply, Bridged)
        }
        if unknown := sorted(set(streams) - owned.keys()):
            raise RefusedPlan(
                f"the cut {name!r} is requested in {unknown[0]!r}, which is no raw stream that this host supplies; "
                "ask the host that does, or leave it out"
            )
        for stream, spool in owned.items():
            if (not streams or stream in streams) and spool.marker_position(name) is None:
                stamp = round(self._clock.now() * 1000)
                spool.append([Item(kind=ItemKind.MARKER, count=1, stamp=stamp, payload=name.encode())])

    @property
    def streams(self) -> frozenset[str]:
        """The streams that its jobs read, and those that another host's jobs read from its spools."""
        return frozenset(self._supplies)

    def states(self) -> dict[str, str]:
        """For each stream the state of its spool, or the reason why this host puts nothing in there."""
        return {stream: supply.state for stream, supply in sorted(self._supplies.items())}

    def size(self) -> int:
        """The size of its own spools in bytes."""
        own = sum(supply.spool.size for supply in self._supplies.values() if supply.spool is not None)
        return own + self._feeds.size()

    def owned(self, stream: str) -> NotifyingSpool | None:
        """The spool of a stream that this host fills, else None; from any thread."""
        supply = self._supplies.get(stream)
        return None if supply is None else supply.spool

    def end(self, stream: str) -> int | None:
        """The position after the last item of a stream; None if another host fills its spool."""
        spool = self.owned(stream)
        return None if spool is None else spool.end

    def ends(self, streams: Iterable[str]) -> dict[str, int]:
        """The positions after the last items of those of some streams whose spools this host fills."""
        return {stream: spool.settled_end() for stream in streams if (spool := self.owned(stream)) is not None}

    def hurry(self, streams: Iterable[str], seconds: float) -> None:
        """Receive the messages of some streams as soon as they come for so long."""
        for stream in streams:
            if (supply := self._supplies.get(stream)) is not None and supply.reception is not None:
                supply.reception.hurry(seconds)

    def counts(self) -> dict[str, dict[str, int]]:
        """For each stream between jobs how many events were duplicates, early, missing for good, or refused."""
        return {
            stream: asdict(supply.all_counts())
            for stream, supply in sorted(self._supplies.items())
            if supply.reception is not None and isinstance(supply.ingress.supply, Bridged)
        }

    def received(self) -> dict[str, dict[str, Any]]:
        """For each source whose spool this host fills what it has received of it."""
        return {
            stream: supply.all_received().reported()
            for stream, supply in sorted(self._supplies.items())
            if supply.spool is not None and not isinstance(supply.ingress.supply, Bridged)
        }

    def close(self) -> None:
        """Stop all supplies and close the spools; what comes now waits at the broker for the next process."""
        for supply in self._supplies.values():
            # All at once, because each may take its time.
            if supply.connector is not None:
                supply.connector.stop()
        for supply in self._supplies.values():
            self._close(supply)
        self._feeds.close()
        self._supplies.clear()
        self._by_topic.clear()

    def _own(self, supply: _Supply) -> None:
        stream = supply.ingress.stream
        try:
            supply.spool = NotifyingSpool(
                spool_folder(self._root, stream),
                most_bytes=supply.most_bytes,
                on_growth=partial(self._on_growth, stream),
                copies=self._copies,
            )
        except LeaseTaken:
            return

        def reject(unread: Unread | Unfit) -> None:
            # From the one thread that fills the spool.
            supply.received = supply.received.rejecting(
                unread.event, unread.reason, count=unread.count, at=self._clock.now()
            )

        match supply.ingress.supply:
            case Subscribed(topic=topic) as subscribed:
                levels, own = source_topic(topic), source_topic(topic).own_fields(subscribed.schema)
                raw = SpoolFeed(
                    spool=supply.spool,
                    schema=subscribed.schema,
                    decode=None if is_json(subscribed.format) else decoder(subscribed.format, own, supply.kinds),
                    read=topic_decoder(subscribed.format, own, supply.memory),
                    levels=None if levels.is_plain else levels,
                    retained=subscribed.retained,
                )
                feeds = {
                    levels.filter: raw,
                    topics.sent(stream): SpoolFeed(spool=supply.spool, answers_at=topics.kept(stream)),
                }
            case Bridged():
                origin = supply.ingress.origin
                feed = SpoolFeed(spool=supply.spool, asks_at=topics.again(*origin), has_at=topics.have(*origin))
                feeds = {topics.stream(*origin): feed}
            case ConnectorSupply() as connected:
                # One that began with a connection of its own keeps it.
                if positions_in(supply.spool).keys() <= {FEED_POSITION}:
                    supply.feed = self._feeds.join(connected, supply.most_bytes)
                outside, folder = HostOutside(self._root), supply.spool.folder
                connecting = partial(
                    connect, stream, connected, dict(supply.kinds), outside, folder=folder, feed=supply.feed
                )
                back_off = None if supply.feed is None else _FEED_BACK_OFF
                run = ConnectorRun(connecting, supply.spool, clock=self._clock, on_unfit=reject, back_off=back_off)
                _start(supply, run)
                return
            case generated:
                _start(supply, GeneratorRun(generated.generator, supply.spool, clock=self._clock, on_unfit=reject))
                return
        supply.reception = self._receiver.begin(
            stream, feeds, due=partial(self._due, stream), on_unread=reject, on_trouble=supply.fail
        )

    def _end_unread(self, stream: str, supply: _Supply) -> None:
        # A job of another host may read it: events would be lost that come before that host supplies it.
        if supply.jobs or (supply.spool is not None and consumers(supply.spool.folder)):
            return
        if supply.reception is not None:
            supply.reception.leave()
            supply.reception = None
        if supply.generating is not None and supply.connector is not None:
            supply.connector.stop(for_good=True)
            if supply.generating[1].is_alive():
                # What it is connected to may take its time, and `look` comes again.
                return
        self._close(supply)
        del self._supplies[stream]
        self._by_topic.pop(_topic(supply.ingress), None)

    def _close(self, supply: _Supply) -> None:
        if supply.reception is not None:
            supply.reception.stop()
            supply.counted = supply.all_counts()
        if supply.generating is not None:
            run, thread = supply.generating
            run.stop()
            thread.join()
            if isinstance(run, ConnectorRun) and run.leaves:
                if supply.feed is not None:
                    leave(supply.feed.folder, supply.ingress.stream)
                run.forget()
        if supply.spool is not None:
            supply.spool.close()
            supply.received = supply.all_received()
        supply.reception, supply.generating, supply.spool = None, None, None


@contextmanager
def _troubles(supply: _Supply) -> Iterator[None]:
    """Note a failure as the trouble of one stream, so that it hurts no other; it is supplied again after a while."""
    try:
        yield
    except (SpoolDamaged, SpoolClosed, UnusableFormat, OSError) as error:
        log.error("stream %s: %s", supply.ingress.stream, error)  # noqa: TRY400 - it says where and what to do
        supply.fail(str(error))


def _topic(ingress: Ingress) -> str:
    match ingress.supply:
        case Subscribed(topic=topic):
            return topic
        case Bridged():
            return topics.stream(*ingress.origin)
        case _:
            return ""


def _are_same(one: Ingress, other: Ingress) -> bool:
    """Whether two streams of a name bring the same events, whatever fields of them each declares."""
    are_alike = declaring(one.supply, {}) == declaring(other.supply, {})
    return are_alike and (one.origin == other.origin or not isinstance(one.supply, Bridged))


def _start(supply: _Supply, run: GeneratorRun | ConnectorRun) -> None:
    """Have a thread of its own fill the spool of a stream."""
    name = f"fills {supply.ingress.stream}"
    thread = threading.Thread(target=_generate, args=(run, supply), name=name, daemon=True)
    supply.generating = run, thread
    thread.start()


def _generate(run: GeneratorRun | ConnectorRun, supply: _Supply) -> None:
    """Run what fills a spool; an error of its own ends no other."""
    try:
        run.run()
    except Exception as error:  # a replayed file may hold anything
        log.exception("stream %s", supply.ingress.stream)
        supply.fail(f"{type(error).__name__}: {error}")
