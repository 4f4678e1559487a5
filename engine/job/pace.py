"""The pace of a job: where its next batch ends, when that begins, and how much it may read.

A batch ends at every marker, and where a plan takes effect. So it runs exactly one plan, and a cut falls between
batches. A stream that has come to a marker waits until the rest of its connected part has come to it too. All else runs
on. At the marker of a switch only the streams wait that a plan awaits; any other stream passes it.

**Cuts.** A part is cut when all its streams have come to the marker. A plan that waits for a cut takes effect in the
whole job at once. So it waits until every part that it changes has come to the marker: otherwise one of them would
change before its cut, and the state that it had there would be lost.

**Bounds.** A switch to another plan happens between two batches, so no batch may take long, even while a backlog is
worked off. A `BatchBound` says how many bytes a job works off within a while, by how long its recent batches took. But
a part of their time goes to every batch, however small. Where that part alone takes longer than the while, as on a busy
cluster, smaller batches would help nobody, and each would be smaller than the last. So batches of different sizes are
compared: what the larger one took longer is the time of its bytes.

A batch ends for all of a job's tasks at once. Where one part of its plan takes long for few events, a bound for all
would let the others read as few, and fall behind. So `PartBounds` divide the batch: what a slow part has read, and the
CPU that its tasks took, count for that part alone.

None of this does input or output, or knows Spark.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple, Protocol, TypeAlias

from bridge import SpoolReach
from engine.kernel.task_bounds import is_overspent
from engine.offset import Offset
from engine.plan import SHORTEST_BOUND, Delivery, Entry, Forward, Plan, PlanPart, SlotState, is_switch
from engine.records.files import Header

_FIRST_BYTES = 64_000
"""The bytes of the first batch, of which nothing is known."""
_LEAST_BYTES = 2_000
"""The bytes that any batch may have, so that batches of one event do not hide what more of them would take."""
_BATCHES_COMPARED = 8
"""The batches that are compared."""
_LATEST = 3
"""The batches that count alone. The quickest of them decides, so one that was held up does not."""
_COMPARABLE = 2
"""The least ratio of two sizes that are compared, and the most by which a bound found so grows at once."""


class BatchBound:
    """The bound of one job's batches; called by its pace keeper, in one thread at a time.

    >>> bound = BatchBound()
    >>> bound.note(size=1_000, seconds=1.0)
    >>> bound.most_bytes(pace=1.0)
    2000
    >>> bound.note(size=2_000, seconds=1.1)
    >>> bound.most_bytes(pace=1.0)
    4000
    """

    def __init__(self) -> None:
        self._recent = deque[tuple[int, float]](maxlen=_BATCHES_COMPARED)

    def note(self, *, size: int, seconds: float) -> None:
        """Note how long a batch of so many bytes took, all that Spark does included."""
        if size > 0 and seconds > 0:
            self._recent.append((size, seconds))

    def most_bytes(self, *, pace: float) -> int:
        """The bytes that take no longer than a pace, or than half a second if that is more."""
        if not self._recent:
            return _FIRST_BYTES
        seconds = max(pace, SHORTEST_BOUND)
        quickest = max(size / took for size, took in list(self._recent)[-_LATEST:])
        return max(_LEAST_BYTES, int(seconds * quickest), self._by_comparison(seconds))

    def _by_comparison(self, seconds: float) -> int:
        """The bytes that take so long beside what any batch takes; 0 if no two sizes can be compared."""
        small, large = min(self._recent), max(self._recent)
        if large[0] < _COMPARABLE * small[0]:
            return 0
        most = _COMPARABLE * large[0]
        longer = large[1] - small[1]
        return most if longer <= 0 else min(most, int(seconds * (large[0] - small[0]) / longer))


Streams: TypeAlias = frozenset[str]
"""The streams of one part."""
_HEAVY = 0.5
"""A part is slow if its tasks take so much of the time that a batch may have."""
_BATCHES_SLOW = 8
"""Batches with events after which a part that took less is like the others again."""
_BESIDE = 500_000
"""The bytes that all others may have at least beside a slow part: more comes while its batches last than before."""


class PartWork(NamedTuple):
    """The CPU seconds of one part in a batch; made by `works_of`."""

    seconds: float
    tried: float = 1.0
    """The part of its events that was tried before a task had used its CPU; the rest became dead letters at once."""


class StreamBounds(NamedTuple):
    """The bytes that a batch may have: of the streams of each slow part, and of all others together."""

    common: int
    slow: Mapping[str, int]
    """Of each stream of a slow part, its own."""


class PartBounds:
    """The bounds of one job's batches; called by its pace keeper, in one thread at a time."""

    def __init__(self) -> None:
        self._common = BatchBound()
        self._slow: dict[Streams, BatchBound] = {}
        self._since: dict[Streams, int] = {}
        """For each slow part the batches since it was slow."""

    def note(self, sizes: Mapping[str, int], seconds: float, works: Mapping[Streams, PartWork], *, pace: float) -> None:
        """Note the bytes that a batch had of each stream, how long it took, and the work of each part in that."""
        most = max(pace, SHORTEST_BOUND)
        size = sum(sizes.values())
        for part, (took, tried) in works.items():
            own = sum(sizes.get(stream, 0) for stream in part)
            if not own:
                continue
            # Alone it holds up nobody, and its batches are bounded as a whole.
            is_slow = len(works) > 1 and took >= _HEAVY * most
            since = 0 if is_slow else self._since.get(part, _BATCHES_SLOW) + 1
            if since < _BATCHES_SLOW:
                self._since[part] = since
                self._slow.setdefault(part, BatchBound()).note(size=max(1, int(own * tried)), seconds=took)
                size, seconds = size - own, seconds - took
            else:
                self._since.pop(part, None)
        self._since = {part: since for part, since in self._since.items() if part in works}
        self._slow = {part: self._slow[part] for part in self._since}
        # CPU of several shards may be more than the time.
        self._common.note(size=size, seconds=max(seconds, 0.001))

    def most_bytes(self, *, pace: float) -> StreamBounds:
        """The bytes of the next batch; slow parts share the time that a batch may take."""
        seconds = max(pace, SHORTEST_BOUND) / max(1, len(self._slow))
        slow = {
            stream: max(1, bound.most_bytes(pace=seconds) // len(part))
            for part, bound in self._slow.items()
            for stream in part
        }
        common = self._common.most_bytes(pace=pace)
        return StreamBounds(max(common, _BESIDE) if slow else common, slow)


def works_of(parts: Iterable[PlanPart], header: Header, shards: int) -> Mapping[Streams, PartWork]:
    """The work of each part of a plan in a recorded batch, on average in each of its shards."""
    overspent = {dead.instance for dead in header.dead if is_overspent(dead.reason)}
    works: dict[Streams, PartWork] = {}
    for part in (part for part in parts if part.streams):
        meters = {instance: header.meters[instance] for instance in part.instances & header.meters.keys()}
        tried = (1 - meters[instance].dead / meters[instance].taken for instance in overspent & part.instances)
        cpu_ns = sum(meter.cpu_ns for meter in meters.values())
        works[part.streams] = PartWork(cpu_ns / 1e9 / shards, min(tried, default=1.0))
    return works


def streams_changed(current: Plan, following: Plan) -> frozenset[str]:
    """The streams of those parts of a plan that differ in the plan that follows it."""
    return frozenset(
        stream for part in current.parts() if _is_changed(part, current, following) for stream in part.streams
    )


def cut_together(current: Plan, waiting: Iterable[Entry], cut: str) -> Iterator[frozenset[str]]:
    """The groups of streams that are cut at one moment; `waiting` are the entries of the log behind the plan."""
    changed = frozenset[str]().union(
        *(streams_changed(current, entry.plan) for entry in waiting if entry.plan.at_cut == cut)
    )
    if changed:
        yield changed
    for part in current.parts():
        if part.streams and not part.streams & changed:
            yield part.streams


def _is_changed(part: PlanPart, current: Plan, following: Plan) -> bool:
    """Whether an instance leaves a part or joins it, or events leave the part for another place."""
    if not part.instances <= _active_instances(following):
        return True
    new = _active_instances(following) - _active_instances(current)
    joining = (edge.parent for slot in following.slots if slot.instance in new for edge in slot.inputs)
    return not part.instances.isdisjoint(joining) or _streams_out(part, current) != _streams_out(part, following)


def _active_instances(plan: Plan) -> frozenset[int]:
    """The instances that take events or bring them in."""
    slots = {slot.instance for slot in plan.slots if slot.state is not SlotState.PAUSED}
    return frozenset(slots | {ingress.instance for ingress in plan.ingress})


def _streams_out(part: PlanPart, plan: Plan) -> frozenset[object]:
    """The streams that leave a part, and their receivers; epochs do not matter."""
    leaving: tuple[Forward | Delivery, ...] = (*plan.forwards, *plan.deliveries)
    return frozenset(replace(output, epoch=0) for output in leaving if output.instance in part.instances)


_COUNTED_SECONDS = 60.0
"""Seconds for which a batch counts."""
_MOST_COUNTED = 600
"""The most batches that count, the latest."""


class BatchTimes:
    """How long the latest batches of a job took, each from when its end was known until Spark asked for the next.

    So a time covers the work of Spark around a batch, and that of the kernel.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: float | None = None
        # Any thread may read it: a copy of a deque is consistent.
        self._taken: deque[tuple[float, float]] = deque(maxlen=_MOST_COUNTED)
        """For each batch when it ended, and the seconds that it took."""

    def begin(self) -> None:
        """Note that a batch begins."""
        self._begun = self._clock()

    def end(self) -> None:
        """Note that the batch is done, if there was one."""
        if self._begun is not None:
            now = self._clock()
            self._taken.append((now, now - self._begun))
            self._begun = None

    def percentiles(self) -> dict[str, float]:
        """The median and the 99th percentile in seconds; empty if there was no batch."""
        since = self._clock() - _COUNTED_SECONDS
        taken = sorted(seconds for ended, seconds in self._taken.copy() if ended >= since)
        return {name: round(percentile(taken, part), 4) for name, part in (("p50", 0.5), ("p99", 0.99)) if taken}


def percentile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that the given part of all does not exceed.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.99)
    (2.0, 4.0)
    """
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


SOON = 1.5
"""Seconds for which a marker among raw events waits for the batch that is due anyway."""


class ReadableSpool(Protocol):
    """A spool, as far as the pace depends on it."""

    def reach(self, start: int, most_bytes: int) -> SpoolReach:
        """The reach from a position: at most so many bytes, and no item after the first marker."""


class Haste(Enum):
    """The haste of a batch: whether it may wait for its time."""

    AT_ONCE = auto()
    """A plan takes effect in it, or it ends at a marker that came over a bridge: other jobs may wait for that."""
    SOON = auto()
    """It ends at a marker among raw events. If the marker leaves with the events that are due, no job of a row runs a
    batch just before the one for the marker; and the parts that are cut stand still only from then on."""
    IN_TIME = auto()
    AT_LEISURE = auto()
    """A plan takes effect in it that leaves nothing to read."""


class BatchLimits(NamedTuple):
    """The most that a batch, or one of its streams, may have: bytes of events, and events."""

    size: int
    events: int

    def share(self, streams: int) -> "BatchLimits":
        """The limits of each of so many streams; one event at least."""
        return BatchLimits(self.size // max(1, streams), max(1, self.events // max(1, streams)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The next batch."""

    end: Offset
    haste: Haste = Haste.IN_TIME
    sizes: Mapping[str, int] = field(default_factory=dict, compare=False)

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
    bounds = BatchLimits(min(allowed, common), limits.batch_events * current.plan.shards)
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
    return not entry.plan.at_cut and all(known.get(stream, end) >= end for stream, end in entry.plan.at.items())


def _read(  # noqa: PLR0913, PLR0917 - two offsets, and all that bounds a batch
    start: Offset,
    turned: Offset,
    entries: Sequence[Entry],
    spools: Mapping[str, ReadableSpool],
    given_up: AbstractSet[str],
    most: BatchLimits,
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
        share = BatchLimits(min(slow[stream], most.size), common.events) if stream in slow else common
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


def _within(start: int, reach: SpoolReach, most: BatchLimits) -> int:
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
    return [
        frozenset(switch.awaits)
        for switch in switches
        if switch is not None and switch.marker == marker and switch.awaits
    ]
