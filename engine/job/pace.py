"""The pace of a job: where its next batch ends, and when that begins.

A batch ends at every marker, and where a plan takes effect. So it runs exactly one plan, and a cut falls between
batches. A stream that has come to a marker waits until the rest of its connected part has come to it too. If a plan
waits for the cut, every other part that the plan changes has to come there as well. All else runs on. At the marker of
a switch only the streams wait that a plan awaits; any other stream passes it.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple, Protocol

from engine.job.cut_groups import cut_together, streams_changed
from engine.job.part_bounds import StreamBounds
from engine.offset import Offset
from engine.plan import Entry, is_switch

SOON = 1.5
"""Seconds for which a marker among raw events waits for the batch that is due anyway."""


class StreamReach(Protocol):
    """The end of what a batch may read of a stream."""

    @property
    def end(self) -> int:
        """The position after the last item."""

    @property
    def size(self) -> int:
        """The bytes up to there."""

    @property
    def marker(self) -> str | None:
        """The marker, if the last item is one."""


class ReadableSpool(Protocol):
    """A spool, as far as the pace depends on it."""

    def reach(self, start: int, most_bytes: int) -> StreamReach:
        """The reach from a position: at most so many bytes, and no item after the first marker."""


class Haste(Enum):
    """The haste of a batch: whether it may wait for its time."""

    AT_ONCE = auto()
    """A plan takes effect in it, or it ends at a marker that came over a bridge: other jobs may wait for that."""
    SOON = auto()
    """It ends at a marker among raw events. If the marker leaves with the events that are due, no job of a row runs a
    batch just before the one for the marker; and the parts that are cut stand still only from then on."""
    IN_TIME = auto()
    """It has events."""
    AT_LEISURE = auto()
    """A plan takes effect in it that leaves nothing to read."""


class BatchBounds(NamedTuple):
    """The most that a batch, or one of its streams, may have."""

    size: int
    """Bytes of events."""
    events: int

    def share(self, streams: int) -> "BatchBounds":
        """The bounds of each of so many streams; one event at least."""
        return BatchBounds(self.size // max(1, streams), max(1, self.events // max(1, streams)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The end of the next batch, and its haste."""

    end: Offset
    haste: Haste = Haste.IN_TIME
    sizes: Mapping[str, int] = field(default_factory=dict, compare=False)
    """The bytes of the events that it reads, by stream."""

    def when(self, due: float, *, now: float, latest: float) -> float:
        """When it may begin, if events are due at `due` and a question has to be answered by `latest`.

        >>> [NextBatch(end=Offset(), haste=Haste.SOON).when(due, now=5.0, latest=9.0) for due in (4.0, 6.0, 60.0)]
        [4.0, 6.0, 5.0]
        """
        match self.haste:
            case Haste.AT_ONCE:
                return now
            case Haste.SOON:
                return due if due - now <= SOON else now
            case Haste.IN_TIME:
                return due
            case Haste.AT_LEISURE:
                return latest


def next_batch(  # noqa: PLR0913 - what a batch depends on, and what bounds it
    start: Offset,
    *,
    run: int,
    entries: Sequence[Entry],
    spools: Mapping[str, ReadableSpool],
    given_up: AbstractSet[str] = frozenset(),
    most_bytes: StreamBounds | None = None,
) -> NextBatch:
    """The batch after an offset: it ends at the same offset if there is nothing to do.

    `entries` are the log of plans from the entry of the offset on. Markers that are given up are passed like events. A
    batch has at most so many bytes as its plan allows, and as `most_bytes`, but an event of each stream at least.
    Streams of slow parts have bounds of their own.
    """
    released = {stream for streams in start.cuts.values() for stream in streams}
    held = {s: name for s, name in start.held.items() if s not in released and name not in given_up}
    here = replace(start, held=held, cuts={})
    current, waiting = _in_effect(here, start.cuts, entries)
    if current is None:
        return NextBatch(end=start)
    begins = {stream: start.begins(stream, current.starts) for stream in sorted(current.plan.streams)}
    held = {stream: name for stream, name in held.items() if stream in begins and _is_awaited(stream, name, waiting)}
    turned = Offset(run=run, entry=current.number, at=begins, held=held, shards=current.plan.shards)
    if start.run != run or start.entry != current.number:
        # Without events, so that none waits for a cold worker or a new plan. A job that a cut has left nothing to read
        # waits: others have the cut still before them, and once they are past it this one is stopped.
        left = start.run == run and bool(current.plan.at_cut) and not begins
        return NextBatch(end=turned, haste=Haste.AT_LEISURE if left else Haste.AT_ONCE)
    limits = current.plan.limits
    allowed = limits.batch_bytes
    common, slow = most_bytes or StreamBounds(allowed, {})
    bounds = BatchBounds(min(allowed, common), limits.batch_events * current.plan.shards)
    return _read(start, turned, [current, *waiting], spools, given_up, bounds, slow)


def _in_effect(
    here: Offset, cuts: Mapping[str, tuple[str, ...]], entries: Sequence[Entry]
) -> tuple[Entry | None, list[Entry]]:
    """The entry that the next batch runs, and those that wait behind it."""
    current: Entry | None = None
    waiting: list[Entry] = []
    for entry in entries:
        if entry.number <= here.entry:
            current = entry
        elif _takes_effect(entry, here.at, cuts, current):
            # Its maker knew the plans before it: nothing that they wait for is awaited any more.
            current, waiting = entry, []
        else:
            waiting.append(entry)
    return current, waiting


def _takes_effect(
    entry: Entry, at: Mapping[str, int], cuts: Mapping[str, tuple[str, ...]], current: Entry | None
) -> bool:
    if (switch := entry.plan.switch) is not None and switch.awaits:
        return set(switch.awaits) <= set(cuts.get(switch.marker, ()))
    if entry.plan.at_cut in cuts:
        # Another part may have been cut first.
        return current is None or streams_changed(current.plan, entry.plan) <= set(cuts[entry.plan.at_cut])
    known = at if current is None else {**current.starts, **at}
    return not entry.plan.at_cut and all(known.get(each, end) >= end for each, end in entry.plan.at.items())


def _read(  # noqa: PLR0913, PLR0917 - two offsets, and all that bounds a batch
    start: Offset,
    turned: Offset,
    entries: Sequence[Entry],
    spools: Mapping[str, ReadableSpool],
    given_up: AbstractSet[str],
    most: BatchBounds,
    slow: Mapping[str, int],
) -> NextBatch:
    """The batch that runs the first of some entries; the others wait behind it."""
    current, *waiting = entries
    at, held = dict(turned.at), dict(turned.held)
    stops = waiting[0].plan.at if waiting else {}
    free = [stream for stream in at if stream not in held]
    common = most.share(sum(stream not in slow for stream in free))
    sizes: dict[str, int] = {}
    for stream in free:
        share = BatchBounds(min(slow[stream], most.size), common.events) if stream in slow else common
        reach = spools[stream].reach(at[stream], share.size)
        to = _within(at[stream], reach, share)
        if to > at[stream]:
            part = (to - at[stream], reach.end - at[stream])
            sizes[stream] = reach.size if to == reach.end else reach.size * part[0] // part[1]
        stop = stops.get(stream, to)
        if to > stop >= at[stream]:
            at[stream] = stop
            continue
        at[stream] = to
        if to < reach.end:
            continue
        if reach.marker is not None and reach.marker not in given_up and _is_awaited(stream, reach.marker, waiting):
            held[stream] = reach.marker
    marked = held.keys() - turned.held.keys()
    cuts: dict[str, tuple[str, ...]] = {}
    for name in sorted(set(held.values())):
        groups = _switched(waiting, name) if is_switch(name) else cut_together(current.plan, waiting, name)
        come = [streams for streams in groups if all(held.get(stream) == name for stream in streams)]
        if come:
            cuts[name] = tuple(sorted(frozenset().union(*come)))
    held = {s: name for s, name in held.items() if s not in cuts.get(name, ())}
    end = replace(turned, at=at, held=held, cuts=cuts)
    if end == replace(start, cuts={}) and not start.cuts:
        return NextBatch(end=start)
    moved = end.at != start.at
    # If nothing differs except that a cut is past, the next event is awaited.
    if not moved and not cuts and held == dict(start.held):
        return NextBatch(end=start)
    stopped = any(at[stream] == stop for stream, stop in stops.items() if stream in at)
    # A stream that waits at a marker already stands still.
    waited_for = bool(marked & current.plan.bridged or (marked and turned.held) or (cuts and not marked))
    haste = Haste.AT_ONCE if stopped or waited_for else Haste.SOON if marked else Haste.IN_TIME
    return NextBatch(end=end, haste=haste, sizes=sizes)


def _within(start: int, reach: StreamReach, most: BatchBounds) -> int:
    """The end of what is read of a reach: a part of an item, and one event at least, if the item alone is too large."""
    count = reach.end - start
    if count <= 1:
        return reach.end
    if reach.size > most.size:
        count = max(1, count * most.size // reach.size)
    return start + min(count, most.events)


def _is_awaited(stream: str, marker: str, waiting: Sequence[Entry]) -> bool:
    """Whether a stream waits at a marker. At one of a switch it does only if a plan waits for it there."""
    return not is_switch(marker) or any(stream in streams for streams in _switched(waiting, marker))


def _switched(waiting: Sequence[Entry], marker: str) -> list[frozenset[str]]:
    """The streams that the plan of a switch awaits."""
    switches = (entry.plan.switch for entry in waiting)
    return [frozenset(each.awaits) for each in switches if each is not None and each.marker == marker and each.awaits]
