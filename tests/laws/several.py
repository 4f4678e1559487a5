"""Several jobs in one process: the real pacing, kernel, states and intakes over spools in memory.

What stands between them in a host is short here: a record counts as soon as its batch is run, and what drives the
jobs says when each runs a batch, and when which frame between two of them arrives.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from bridge.intake import Intake, offer
from bridge.spools.log import Item, ItemKind, packed
from bridge.wire import Emitted as Sent
from bridge.wire import Frame, FrameKind, Stream, frames
from engine.behaviour import Behaviour
from engine.job.pace import next_batch
from engine.job.plan_log import JobProgress, check_return, returning, start_positions
from engine.kernel.batch import Arrived, run_batch
from engine.kernel.plans import brought
from engine.offset import Offset
from engine.plan import Entry, Plan, Port, StateImport
from engine.records.job_folder import KeptCut
from engine.records.record import EmittedEvents, Record, Table
from engine.records.state import InstanceStates
from tests.engine.kernels import DrawnTime
from tests.twins.memory_spool import MemorySpool


@dataclass
class Crossing:
    """A stream between two jobs: one opening after the other, each with frames that arrive in any order."""

    epoch: int = 0
    openings: list[list[Frame]] = field(default_factory=list)
    """Of each opening what has not arrived; one begins to arrive when all of the one before it has."""
    intake: Intake = field(default_factory=Intake)
    end: int = 0
    """The number after the last that was sent."""

    def send(self, frame: Frame) -> None:
        """Send what belongs to the last opening."""
        self.openings[-1].append(frame)
        self.end = frame.end

    def take(self, chance: Random) -> list[Frame]:
        """Let a frame arrive, perhaps not for the last time; what can be spooled now."""
        while self.openings[0] == [] and len(self.openings) > 1:
            del self.openings[0]
        on_the_way = self.openings[0]
        if not on_the_way:
            return []
        at = chance.randrange(len(on_the_way))
        # It may arrive once more.
        frame = on_the_way[at] if chance.random() < 0.2 else on_the_way.pop(at)
        taken = offer(self.intake, frame, 0.0)
        self.intake = taken.intake
        return [each for each in taken.frames if each.count]


class Member:
    """One of the jobs."""

    def __init__(self, town: "Town", name: str) -> None:
        self.name = name
        self.entries: list[Entry] = []
        self.offset = Offset()
        self.run = 1
        self.state = InstanceStates()
        self.kept: dict[KeptCut, Table] = {}
        self.given_up = frozenset[str]()
        self._town = town
        self._made: tuple[int, Mapping[int, Behaviour]] = (0, {})
        self._ran: Plan | None = None

    @property
    def plan(self) -> Plan:
        """The plan of its last batch."""
        assert self._ran is not None
        return self._ran

    def log(self, plan: Plan) -> None:
        """Make a plan the next entry of its log."""
        back = returning(self.kept, plan)
        standing = JobProgress(self.offset.at, self._ran, self.offset if self._ran else None)
        check_return(plan, back, standing)
        positions = {stream: position for cut in back.values() for stream, position in cut.positions.items()}
        latest = self.entries[-1].starts if self.entries else {}
        starts = {}
        for each in plan.ingress:
            wanted = positions.get(each.stream) if each.start is None else each.start
            end = self._town.spools.setdefault(each.stream, MemorySpool()).end
            starts[each.stream] = latest.get(each.stream, end if wanted is None else wanted)
        number = len(self.entries) + 1
        starts = start_positions(plan, starts, standing, latest)
        self.entries.append(Entry(number=number, plan=replace(plan, version=number), starts=starts))

    def step(self) -> bool:
        """Run the next batch; False where there is nothing to do."""
        entries = [entry for entry in self.entries if entry.number >= max(1, self.offset.entry)]
        start, spools = self.offset, self._town.spools
        end = next_batch(start, run=self.run, entries=entries, spools=spools, given_up=self.given_up).end
        if end == start:
            return False
        entry = self.entries[end.entry - 1]
        begun = self.entries[start.entry : end.entry]
        record = run_batch(
            self.state.version + 1,
            entry,
            start,
            end,
            list(self._arriving(entry, end)),
            self.state,
            self._behaviours(entry),
            imports=[self._town.state(each) for each in brought(begun, self._ran)],
            time=DrawnTime(self._town.chance) if self._town.chance.random() < 0.5 else None,
        )
        self.state.settle(record)
        self.offset, before, self._ran = record.end, self._ran, entry.plan
        self._keep(record)
        self._town.publish(before, entry.plan, record)
        return True

    def _arriving(self, entry: Entry, end: Offset) -> Iterable[Arrived]:
        for stream, position in end.at.items():
            begin = self.offset.begins(stream, entry.starts)
            for first, item in self._town.spools[stream].between(begin, position):
                if item.kind is ItemKind.DATA:
                    yield Arrived(stream, first, item.count, item.stamp, item.payload)

    def _behaviours(self, entry: Entry) -> Mapping[int, Behaviour]:
        if self._made[0] != entry.number:
            self._made = entry.number, {each.instance: self._town.behaviours[each.type] for each in entry.plan.active}
        return self._made[1]

    def _keep(self, record: Record) -> None:
        for cut in record.cuts:
            table = {
                instance: {group: dict(items) for group, items in self.state.kept.get(instance, {}).items()}
                for instance in cut.instances
            }
            self.kept[_Kept(cut.name, record.batch, cut.instances, cut.positions)] = table


class _Kept(KeptCut):
    """Known by its name and batch, because positions cannot be hashed."""

    def __hash__(self) -> int:
        return hash((self.name, self.batch))


class Town:
    """The jobs and all that is between them."""

    def __init__(self, behaviours: Mapping[str, Behaviour], chance: Random) -> None:
        self.behaviours = behaviours
        self.spools: dict[str, MemorySpool] = {}
        self.members: dict[str, Member] = {}
        self.crossings: dict[Port, Crossing] = {}
        self.outputs: dict[int, dict[int, Any]] = {}
        """For each instance that is delivered its events by number."""
        self.chance = chance
        self._clock = 0

    def member(self, name: str) -> Member:
        """A job; begun where it is not there yet."""
        return self.members.setdefault(name, Member(self, name))

    def put(self, stream: str, events: Any = None, *, marker: str = "") -> None:
        """Spool raw events, or a marker."""
        self._clock += 1
        if marker:
            item = Item(kind=ItemKind.MARKER, count=1, stamp=self._clock, payload=marker.encode())
        else:
            item = Item(count=len(events), stamp=self._clock, payload=packed(events))
        self.spools.setdefault(stream, MemorySpool()).append([item])

    def arrive(self) -> bool:
        """Let a frame of some stream between jobs arrive; False where none is on its way."""
        waiting = [origin for origin, each in sorted(self.crossings.items()) if any(each.openings)]
        if not waiting:
            return False
        origin = self.chance.choice(waiting)
        for frame in self.crossings[origin].take(self.chance):
            stream = f"bridge/{origin.instance}:{origin.port}"
            self.put(stream, frame.events, marker=frame.marker)
        return True

    def state(self, wanted: StateImport) -> Table:
        """What an instance kept at a cut."""
        kept = self.members[wanted.job].kept
        [table] = [table for cut, table in kept.items() if cut.name == wanted.cut and wanted.instance in cut.instances]
        return {wanted.instance: table[wanted.instance]}

    def release(self, cut: str) -> None:
        """Let a cut go."""
        for each in self.members.values():
            each.kept = {kept: table for kept, table in each.kept.items() if kept.name != cut}
            each.given_up |= {cut}

    def wander(self, steps: int) -> None:
        """Let so many things happen, whichever they are."""
        for _ in range(steps):
            if self.chance.random() < 0.5:
                self.arrive()
                continue
            _, member = self.chance.choice(sorted(self.members.items()))
            # Now and then it is started anew.
            member.run += self.chance.random() < 0.05
            member.step()

    def settle(self) -> None:
        """Let everything happen that can."""
        for _ in range(10_000):
            arrived = self.arrive()
            if not (any([each.step() for each in self.members.values()]) or arrived):  # noqa: C419 - each has its turn
                return
        raise AssertionError("the jobs do not come to rest")

    def publish(self, before: Plan | None, plan: Plan, record: Record) -> None:
        """Take what left a job in a batch."""
        wanted = {each.origin: each for each in plan.forwards}
        known = {each.origin: each for each in before.forwards} if before else {}
        numbers = dict(record.opened)
        for origin in known.keys() - wanted.keys():
            crossing = self.crossings[origin]
            crossing.send(_bound(crossing, origin, FrameKind.CLOSE, crossing.end))
        for origin, forward in wanted.items():
            if known.get(origin) != forward:
                crossing = self.crossings.setdefault(origin, Crossing())
                crossing.epoch += 1
                crossing.openings.append([])
                crossing.send(_bound(crossing, origin, FrameKind.OPEN, numbers[origin]))
        delivered = {each.instance for each in plan.deliveries}
        for emitted in record.emitted:
            if emitted.origin in wanted:
                self._forward(emitted)
            if emitted.origin.instance in delivered and emitted.events is not None:
                of_one = self.outputs.setdefault(emitted.origin.instance, {})
                for number, event in enumerate(emitted.events.to_pylist(), emitted.first):
                    assert number not in of_one, f"number {number} of {emitted.origin} left twice"
                    of_one[number] = event

    def _forward(self, emitted: EmittedEvents) -> None:
        crossing = self.crossings[emitted.origin]
        sent = Sent(first=emitted.first, events=emitted.events, marker=emitted.marker)
        for frame in frames(Stream(*emitted.origin), crossing.epoch, [sent], emitted.first):
            crossing.send(frame)


def _bound(crossing: Crossing, origin: Port, kind: FrameKind, number: int) -> Frame:
    return Frame(instance=origin.instance, port=origin.port, epoch=crossing.epoch, first=number, kind=kind)
