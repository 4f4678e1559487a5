"""A spool, a spool in memory and a plain list agree, whatever is done to them."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import mkdtemp

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridge.intake import Expected
from bridge.spools.log import Item, ItemKind, Placed, PositionsGone, SpoolDamaged, unpacked
from bridge.spools.reader import SpoolIndex, between, read
from bridge.spools.spool import Spool, SpoolFull, commit, consumers, leave
from tests.bridge.spools.test_log import data, marker
from tests.twins.memory_spool import MemorySpool

LIMIT = 16_000
EXPECTED = st.dictionaries(
    st.sampled_from("pq"), st.builds(Expected, epoch=st.integers(0, 3), next=st.none() | st.integers(0, 9)), max_size=2
)
CONSUMER = st.sampled_from(["a", "b/.."])
SHARE = st.floats(0, 1)


def entries(placed: Iterator[Placed]) -> list[tuple[int, int | str]]:
    """Events and markers with their positions."""
    found: list[tuple[int, int | str]] = []
    for first, item in placed:
        if item.kind is ItemKind.MARKER:
            found.append((first, item.payload.decode()))
        else:
            found += enumerate(unpacked(item.payload).column("n").to_pylist(), first)
    return found


def outcome(of: Callable[[], object]) -> object:
    """The result of a call, or the type of its error."""
    try:
        return of()
    except (PositionsGone, SpoolDamaged, SpoolFull) as refused:
        return type(refused)


class FolderReader(SpoolIndex):
    """The readers of a spool's folder, as its twin has them."""

    def read(self, start: int, most_bytes: int) -> Iterator[Placed]:
        return read(self.folder, start, most_bytes)

    def between(self, start: int, end: int) -> Iterator[Placed]:
        return between(self.folder, start, end)

    def commit(self, consumer: str, position: int) -> None:
        commit(self.folder, consumer, position)

    def leave(self, consumer: str) -> None:
        leave(self.folder, consumer)

    def consumers(self) -> dict[str, int]:
        return consumers(self.folder)


def _between(reader: FolderReader | MemorySpool, start: int, end: int) -> list[tuple[int, int | str]]:
    return entries(reader.between(start, end))


class Twins(RuleBasedStateMachine):
    """A spool, its twin, and a list of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="spool"))
        self.entries: list[int | str] = []
        self.edges = [0]
        """Where files begin and end."""
        self.items: list[Placed] = []
        self.first = 0
        self.committed: dict[str, int] = {}
        self.expected: dict[str, Expected] = {}

    @initialize()
    def open(self) -> None:
        self.spool = Spool(self.folder, most_bytes=LIMIT)
        self.memory = MemorySpool(most_bytes=LIMIT)
        self.reader = FolderReader(self.folder)
        self.owners: tuple[Spool, Spool] = (self.spool, self.memory)
        self.readers = (self.reader, self.memory)

    def agreed(self, on_disk: object, in_memory: object) -> object:
        assert on_disk == in_memory
        return on_disk

    @rule(groups=st.lists(st.integers(0, 3), max_size=3), producers=EXPECTED)
    def append(self, groups: list[int], producers: Mapping[str, Expected]) -> None:
        position = len(self.entries)
        items: list[Item] = []
        news: list[int | str] = []
        for size in groups:
            at = position + len(news)
            # Some markers bear the same name.
            items.append(data(*range(at, at + size)) if size else marker(f"m{at % 5}"))
            news += list(range(at, at + size)) if size else [f"m{at % 5}"]
        first = self.agreed(*(outcome(partial(owner.append, items, producers)) for owner in self.owners))
        if first is SpoolFull:
            return
        assert position == first
        ends = accumulate((item.count for item in items), initial=position)
        self.items += map(Placed, ends, items)
        self.entries += news
        self.expected |= producers
        self.edges.append(len(self.entries))

    @rule(consumer=CONSUMER, share=SHARE)
    def commit(self, consumer: str, share: float) -> None:
        self.committed[consumer] = self._somewhere(share)
        for reader in self.readers:
            reader.commit(consumer, self.committed[consumer])

    @rule(consumer=CONSUMER)
    def leave(self, consumer: str) -> None:
        self.committed.pop(consumer, None)
        for reader in self.readers:
            reader.leave(consumer)

    @rule()
    def prune(self) -> None:
        for owner in self.owners:
            owner.prune()
        passed = min(self.committed.values(), default=len(self.entries))
        self.first = max(self.first, *(edge for edge in self.edges if edge <= passed))

    @rule()
    def reopen(self) -> None:
        self.spool.close()
        self.spool = Spool(self.folder, most_bytes=LIMIT)
        self.owners = (self.spool, self.memory)

    @rule(share=SHARE, most_bytes=st.integers(0, 2_000))
    def read(self, share: float, most_bytes: int) -> None:
        start = self._somewhere(share)
        got, twin = (list(reader.read(start, most_bytes)) for reader in self.readers)
        assert twin == got
        whole = self._whole()[start:]
        assert whole[: sum(item.count for _, item in got)] == entries(iter(got))
        assert bool(whole) == bool(got)
        assert len(got) == 1 or most_bytes >= sum(len(item.payload) for _, item in got)

    @rule(share=st.floats(-0.2, 1.2), count=st.integers(-1, 10))
    def between(self, share: float, count: int) -> None:
        start = self._somewhere(share)
        end = start + count
        found = self.agreed(*(outcome(partial(_between, reader, start, end)) for reader in self.readers))
        if count <= 0:
            assert [] == found
        elif start < self.first:
            assert PositionsGone is found
        elif end > len(self.entries):
            assert SpoolDamaged is found
        else:
            assert self._whole()[start:end] == found

    @rule(share=st.floats(-0.2, 1.2), most_bytes=st.integers(0, 2_000))
    def reach(self, share: float, most_bytes: int) -> None:
        start = self._somewhere(share)
        # What happened since the last time is taken up at once, however much it is.
        self.reader.refresh()
        assert (self.first, len(self.entries)) == (self.reader.first, self.reader.end)
        found = self.agreed(*(outcome(partial(reader.reach, start, most_bytes)) for reader in self.readers))
        if start < self.first:
            assert PositionsGone is found
            return
        end, size, name = start, 0, None
        for placed in self.items:
            if placed.end <= start:
                continue
            # Of an item that is read from its middle on only its part counts.
            whole, skipped = len(placed.item.payload), max(0, start - placed.first)
            part = whole - whole * skipped // placed.item.count
            if name is not None or (end > start and size + part > most_bytes):
                break
            end, size = placed.end, size + part
            name = placed.item.payload.decode() if placed.item.kind is ItemKind.MARKER else None
        reached = self.reader.reach(start, most_bytes)
        assert (end, size, name) == (reached.end, reached.size, reached.marker)

    @rule(name=st.sampled_from(["m0", "m3", "none"]))
    def marker_position(self, name: str) -> None:
        self.reader.refresh()
        found = self.agreed(*(reader.marker_position(name) for reader in self.readers))
        there = [position + 1 for position, entry in self._whole() if entry == name and position >= self.first]
        assert (there[0] if there else None) == found

    @invariant()
    def all_agree(self) -> None:
        for owner in self.owners:
            assert (self.first, len(self.entries)) == (owner.first, owner.end)
            assert self.expected == owner.producers
        self.agreed(*((owner.size, owner.state) for owner in self.owners))
        for reader in self.readers:
            assert self.committed == reader.consumers()
            assert self._whole()[self.first :] == entries(reader.read(self.first, 10**9))

    def _whole(self) -> list[tuple[int, int | str]]:
        return list(enumerate(self.entries))

    def _somewhere(self, share: float) -> int:
        return round(self.first + share * (len(self.entries) - self.first))

    def teardown(self) -> None:
        if hasattr(self, "spool"):
            self.spool.close()
        shutil.rmtree(self.folder)


Twins.TestCase.__doc__ = (
    "However they are used and reopened, a spool and its twin hold what a list of everything would."
)
Twins.TestCase.settings = settings(max_examples=20, stateful_step_count=25)  # each step waits for the disk
test_twins = Twins.TestCase
