"""The follower of a job: takes up its records one by one, and has what they hold published.

It is the only one that knows what has left for good, so it also says what may go: records that nobody can ask for any
more, and what the spools need not keep for this job.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol

from bridge.emitted import Emitted as Sent
from bridge.emitted import Stream
from bridge.machine.files import write_whole
from engine.delivery.publisher import JobPublisher, PlainSender
from engine.plan import Forward, Plan, Port
from engine.records.damage import damage_named
from engine.records.job_folder import JobFolder
from engine.records.kept_cuts import KeptCut
from engine.records.record import Dead, EmittedEvents, InstanceMeter
from engine.records.record_file import Header
from engine.records.record_store import RecordStore

REWIND = 3
"""How many batches Spark may go back at most, with room to spare."""
MOST_UNSENT = 64_000_000
"""Bytes of outputs and dead letters of a job for which the broker may owe an answer."""


class StreamSender(PlainSender, Protocol):
    """What publishes; a sender of the bridge."""

    def forward(self, stream: Stream, *, epoch: int, first: int, kept: Callable[[int], Iterator[Sent]]) -> None:
        """Begin to forward a stream from a number on."""

    def emit(self, stream: Stream, emitted: Sent) -> None:
        """Send what comes next in a stream."""

    def close(self, stream: Stream) -> None:
        """End a stream after all that was emitted."""

    def needed(self, stream: Stream) -> int:
        """The first number that the consumer's spool has not confirmed."""


class RecordedRange(NamedTuple):
    """Which numbers of a stream a record holds."""

    first: int
    end: int
    batch: int


@dataclass(slots=True)
class ForwardedStream:
    """A stream from when it is forwarded until it is closed."""

    forward: Forward
    first: int
    end: int | None = None
    """The number after its last, once it is closed."""


@dataclass(kw_only=True)
class Followed:
    """What the records said so far."""

    batch: int = -1
    """The last that was taken up."""
    entry: int = 0
    positions: Mapping[str, int] = field(default_factory=dict)
    meters: dict[int, InstanceMeter] = field(default_factory=dict)
    entered: dict[str, int] = field(default_factory=dict)
    """For each stream how many positions of it were worked off."""
    left: int = 0
    """How many events left the job, on whichever streams."""


class Follower:
    """Follows one job's records; called from one thread of the host."""

    def __init__(
        self,
        folder: JobFolder,
        store: RecordStore,
        sender: StreamSender,
        *,
        run: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._store = store
        self._sender = sender
        self.run = run
        """Which start of the job it is, counted from 1."""
        self.told = Followed()
        self._headers: deque[Header] = deque()
        self._places: dict[Port, deque[RecordedRange]] = {}
        # The sender's thread reads what the host's thread notes.
        self._guard = threading.Lock()
        self._opened: dict[Port, int] = {}
        self._forwards: dict[Port, ForwardedStream] = {}
        self._closing: dict[Port, list[ForwardedStream]] = {}
        """What is not forwarded any more, until its consumer has all of it."""
        self.trouble = ""
        """Why something is not forwarded that should be."""
        self._publishing = JobPublisher(sender, run=run, clock=clock)
        self.latencies = self._publishing.latencies
        """How old outputs were when they left, as far as the broker has them."""
        self._progress: dict[str, Any] = {}
        self._gone = folder.gone()
        self._resume()

    def follow(self) -> list[Header]:
        """Take up the records that are new, but no more while the broker is behind: what waits is held in memory."""
        found: list[Header] = []
        self._publishing.settle()
        while self._has_room() and (file := self._store.find(self.told.batch + 1)) is not None:
            header = file.header
            plan, emitted, dead = self._folder.entry(header.end.entry).plan, file.emitted(), file.dead()
            for cut in header.cuts:
                self._folder.cuts.keep(KeptCut(cut.name, header.batch, cut.instances, cut.positions))
            # Whatever can fail has not by now: a record is taken up whole.
            self._note(header)
            self._take(header, plan, emitted, dead)
            found.append(header)
        return found

    def _has_room(self) -> bool:
        return self._publishing.waiting_bytes < MOST_UNSENT

    @property
    def published(self) -> int:
        """The first batch of which something may still have to be sent."""
        return self._publishing.first_unsent(self.told.batch + 1)

    def is_done(self) -> bool:
        """Whether all that is recorded was taken up, and what goes to tenants has left."""
        return self.published > self.told.batch and self._store.batches().stop <= self.told.batch + 1

    def leaving(self) -> dict[str, int]:
        """For each stream that is forwarded the first number that its consumer is not known to have."""
        return {
            f"{origin.instance}:{origin.port}": self._sender.needed(Stream(*origin))
            for origin in (*self._forwards, *self._closing)
        }

    def tidy(self) -> None:
        """Write down how far it is, and let go what nobody needs any more."""
        for origin, openings in list(self._closing.items()):
            needed = self._sender.needed(Stream(*origin))
            # Not before the consumer is beyond the end: it has to know that there was one.
            if left := [each for each in openings if each.end is None or needed <= each.end]:
                self._closing[origin] = left
            else:
                del self._closing[origin]
        progress = {
            "batch": self.published,
            "opened": [[*origin, first] for origin, first in sorted(self._opened.items())],
            "closing": [
                [*origin, each.forward.epoch, each.first, each.end]
                for origin, openings in sorted(self._closing.items())
                for each in openings
            ],
        }
        if progress != self._progress:
            write_whole(self._folder.path / "published", json.dumps(progress).encode())
            self._progress = progress
        self._store.prune(self._needed())

    def passed(self) -> dict[str, int]:
        """For each stream the position before which this job needs nothing more."""
        kept = [header for header in self._headers if header.batch > self.told.batch - REWIND]
        if not kept:
            return {}
        oldest = kept[0]
        passed = dict(oldest.start.at)
        for cut in self._folder.cuts.all():
            for stream, position in cut.positions.items():
                passed[stream] = min(passed.get(stream, position), position)
        return passed

    def oldest_entry(self) -> int:
        """The oldest entry of the log of plans that Spark may still run."""
        return next((each.start.entry for each in self._headers if each.batch > self.told.batch - REWIND), 0)

    def first_entry(self) -> int:
        """The oldest entry of the log of plans that any record begins with; 0 where there is none yet."""
        return self._headers[0].start.entry if self._headers else 0

    def _needed(self) -> int:
        """The oldest batch whose record has to stay."""
        batches = [self.published, self.told.batch - REWIND]
        bases = {header.batch: header.base for header in self._headers}
        batches += [base for batch, base in bases.items() if batch >= self.told.batch - REWIND]
        batches += [bases.get(cut.batch, cut.batch) for cut in self._folder.cuts.all()]
        for origin in {*self._forwards, *self._closing}:
            needed = self._sender.needed(Stream(*origin))
            with self._guard:
                places = self._places.get(origin, deque())
                while places and places[0].end <= needed:
                    places.popleft()
                batches += [place.batch for place in islice(places, 1)]
        oldest = max(0, min(batches))
        while self._headers and self._headers[0].batch < oldest:
            self._headers.popleft()
        return oldest

    def _resume(self) -> None:
        """Go on where the last run was: what may not have left leaves again, with the same numbers."""
        path = self._folder.path / "published"
        self._progress = {"batch": 0, "opened": [], "closing": []}
        with damage_named(path):
            if path.exists():
                self._progress = json.loads(path.read_bytes())
            begin = int(self._progress["batch"])
            self._opened = {Port(instance, port): first for instance, port, first in self._progress["opened"]}
        self.told.batch = begin - 1
        for batch in self._store.batches():
            # Also of those that `follow` takes up: at one that is missing it would wait for ever.
            header = self._store.file(batch).header
            if batch < begin:
                self._note(header)
        for instance, port, epoch, first, end in self._progress["closing"]:
            opening = ForwardedStream(Forward(instance=instance, port=port, epoch=epoch), first, end)
            self._open(opening)
            self._close(opening)
        if self._headers:
            last = self._headers[-1]
            self.told.entry, self.told.positions = last.end.entry, last.end.at
            self._forward(self._folder.entry(last.end.entry).plan)

    def _note(self, header: Header) -> None:
        self._headers.append(header)
        for each in header.emitted:
            place = RecordedRange(each.first, each.first + each.count, header.batch)
            with self._guard:
                self._places.setdefault(each.origin, deque()).append(place)

    def _take(self, header: Header, plan: Plan, emitted: Sequence[EmittedEvents], dead: Sequence[Dead]) -> None:
        self.told.batch, self.told.entry, self.told.positions = header.batch, header.end.entry, header.end.at
        for origin, number in header.opened:
            if origin not in self._forwards:
                self._opened[origin] = number
        self._forward(plan)
        for each in emitted:
            if each.origin in self._forwards:
                self._sender.emit(Stream(*each.origin), _sent(each))
        self._publishing.publish(header.batch, plan, emitted)
        self._publishing.park(header.batch, dead)
        for instance, meter in header.meters.items():
            self.told.meters[instance] = _sum(self.told.meters.get(instance, InstanceMeter()), meter)
        self._count(header)

    def _count(self, header: Header) -> None:
        """Count what came in and what left. Where a run or a plan begins, a batch has no events and may jump ahead."""
        if (header.start.run, header.start.entry) == (header.end.run, header.end.entry):
            for stream, end in header.end.at.items():
                # A batch that was planned before some of its events went has only the others.
                begin = max(header.start.at.get(stream, end), self._gone.get(stream, 0))
                self.told.entered[stream] = self.told.entered.get(stream, 0) + max(0, end - begin)
        self.told.left += sum(each.count for each in header.emitted if not each.marker)

    def _forward(self, plan: Plan) -> None:
        wanted = {forward.origin: forward for forward in plan.forwards}
        for origin, opening in list(self._forwards.items()):
            if origin not in wanted:
                del self._forwards[origin]
                self._close(opening)
        for origin, forward in wanted.items():
            known = self._forwards.get(origin)
            if known is None or known.forward != forward:
                self._forwards[origin] = ForwardedStream(forward, self._opened.get(origin, 0))
                self._open(self._forwards[origin])

    def _open(self, opening: ForwardedStream) -> None:
        try:
            self._sender.forward(
                Stream(*opening.forward.origin),
                epoch=self._publishing.epoch(opening.forward.epoch),
                first=opening.first,
                kept=partial(self._kept, opening),
            )
        except ValueError as error:
            # Whoever made the plan has to raise the epoch; everything else goes on.
            self.trouble = str(error)

    def _close(self, opening: ForwardedStream) -> None:
        origin = opening.forward.origin
        if opening.end is None:
            # The record that is being taken up begins the plan that closes it.
            before = (each.end for each in reversed(self._places.get(origin, ())) if each.batch < self.told.batch)
            opening.end = next(before, opening.first)
        self._closing.setdefault(origin, []).append(opening)
        self._sender.close(Stream(*origin))

    def _kept(self, opening: ForwardedStream, number: int) -> Iterator[Sent]:
        """What the records hold of a stream from a number on, until it was closed."""
        origin = opening.forward.origin
        with self._guard:
            places = list(self._places.get(origin, ()))
        for place in places:
            # What is taken up later is emitted then, and what left after the end leaves for others only.
            if place.end <= number or place.batch > self.told.batch:
                continue
            if opening.end is not None and place.first >= opening.end:
                return
            for emitted in self._store.file(place.batch).emitted(origin):
                yield _sent(emitted)


def _sent(emitted: EmittedEvents) -> Sent:
    return Sent(first=emitted.first, events=emitted.events, marker=emitted.marker, births=emitted.births)


def _sum(one: InstanceMeter, other: InstanceMeter) -> InstanceMeter:
    return InstanceMeter(
        cpu_ns=one.cpu_ns + other.cpu_ns,
        taken=one.taken + other.taken,
        emitted=one.emitted + other.emitted,
        dead=one.dead + other.dead,
    )
