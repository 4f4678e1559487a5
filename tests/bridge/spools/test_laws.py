"""Laws of spools: they agree with a twin and a list, and survive a kill at every step.

The owner is a process of its own. It appends numbered events, tells each position only after `append` returned, lets a
consumer follow and prunes, and kills itself at the n-th step of a name: no step is missed by chance.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridge.intake import Expected
from bridge.spools.log import Item, ItemKind, Placed, PositionsGone, SpoolDamaged, log_files, unpacked
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


WRITE = ["open", "write", "sync", "rename", "sync folder", "done"]
STEPS = [*WRITE, "remove", *(f"commit {name}" for name in WRITE)]
ROOMY = 10**9
OWNER = """
import json, os, signal, sys
from itertools import count
from pathlib import Path
import pyarrow as pa
from bridge.intake import Expected
from bridge.spools.log import Item, ItemKind, packed
from bridge.spools.spool import commit
from bridge.spools.spool import Spool

folder, (fatal, at, rounds) = Path(sys.argv[1]), json.loads(sys.argv[2])
calls = 0

def step(name):
    global calls
    calls += fatal in (name, "any")
    if calls == at:
        os.kill(os.getpid(), signal.SIGKILL)

spool = Spool(folder, most_bytes=10**9, step=step)
for turn in range(rounds):
    # The event at each position says its position, and the producer's next number is the spool's end.
    first = spool.end
    if first % 4 == 3:
        item = Item(kind=ItemKind.MARKER, count=1, stamp=0, payload=str(first).encode())
    else:
        events = pa.record_batch({"n": pa.array(range(first, first + 1 + first % 3), pa.int64())})
        item = Item(count=len(events), stamp=0, payload=packed(events))
    spool.append([item], {"p": Expected(epoch=0, next=first + item.count)})
    print(json.dumps(["appended", first, spool.end]), flush=True)
    if turn % 3 == 1:
        # Expectations alone; the epoch counts them.
        epoch = spool.producers["q"].epoch + 1 if "q" in spool.producers else 1
        spool.append([], {"q": Expected(epoch=epoch)})
        print(json.dumps(["expected", epoch]), flush=True)
    if turn % 4 == 2:
        # Now and then everything has been read, else a part.
        commit(folder, "job", spool.end if turn % 8 == 2 else first, lambda name: step("commit " + name))
        print(json.dumps(["committed", spool.end if turn % 8 == 2 else first]), flush=True)
        spool.prune()
print(json.dumps(["finished"]), flush=True)
"""


class Acknowledged(NamedTuple):
    """What an owner had acknowledged before it died."""

    end: int
    epoch: int
    committed: int
    finished: bool


NOTHING = Acknowledged(end=0, epoch=0, committed=0, finished=False)


def _run(folder: Path, fatal: str, at: int, rounds: int, before: Acknowledged) -> Acknowledged:
    owner = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", OWNER, str(folder), json.dumps([fatal, at, rounds])], stdout=subprocess.PIPE, check=False
    )
    lines = [json.loads(line) for line in owner.stdout.splitlines()]
    finished = ["finished"] in lines
    assert (0 if finished else -signal.SIGKILL) == owner.returncode
    appended = [line[1:] for line in lines if line[0] == "appended"]
    # Nothing is given twice and nothing left out while it runs.
    assert [first for first, _ in appended[1:]] == [end for _, end in appended[:-1]]
    return Acknowledged(
        end=max([before.end, *(end for _, end in appended)]),
        epoch=max([before.epoch, *(line[1] for line in lines if line[0] == "expected")]),
        committed=max([before.committed, *(line[1] for line in lines if line[0] == "committed")]),
        finished=finished,
    )


def _check(folder: Path, acknowledged: Acknowledged) -> Acknowledged:
    """Check a spool after its owner died; returns its progress."""
    spool = Spool(folder, most_bytes=ROOMY)
    first, end, producers = spool.first, spool.end, spool.producers
    spool.close()
    found: list[int] = []
    for position, item in read(folder, first, ROOMY):
        assert position == first + len(found)
        if item.kind is ItemKind.MARKER:
            found.append(int(item.payload))
        else:
            found += unpacked(item.payload).column("n").to_pylist()
    # Neither lost, nor doubled, nor a hole; what is not there any more was committed.
    assert list(range(first, end)) == found
    committed = consumers(folder).get("job", 0)
    assert first <= committed <= end
    assert acknowledged.committed <= committed
    # What was acknowledged is there; what was not is there as a whole or not at all, and never more than the last.
    assert acknowledged.end <= end <= acknowledged.end + 3
    assert (Expected(epoch=0, next=end) if end else None) == producers.get("p")
    epoch = producers["q"].epoch if "q" in producers else 0
    assert acknowledged.epoch <= epoch <= acknowledged.epoch + 1
    assert [] == list((folder / "log").glob("tmp/*"))
    assert [] == [file for file in log_files(folder / "log") if file.end <= first]
    return acknowledged._replace(end=end, epoch=epoch, committed=committed)


@pytest.mark.parametrize(
    ("fatal", "at"),
    [
        *((name, at) for name in STEPS for at in ([2] if "commit" in name else [1, 2])),
        *(pytest.param(name, at, marks=pytest.mark.slow) for name in STEPS if "commit" not in name for at in (5, 8)),
    ],
)
def test_an_owner_killed_at_a_step_loses_and_doubles_nothing(tmp_path: Path, fatal: str, at: int) -> None:
    """Killed at the n-th step of any name, a spool holds all acknowledged items, once, in order, and goes on."""
    acknowledged = _run(tmp_path, fatal, at, 12, NOTHING)
    assert not acknowledged.finished
    acknowledged = _check(tmp_path, acknowledged)
    spool = Spool(tmp_path, most_bytes=ROOMY)
    assert acknowledged.end == spool.append(
        [data(acknowledged.end)], {"p": Expected(epoch=0, next=acknowledged.end + 1)}
    )
    spool.close()
    _check(tmp_path, acknowledged._replace(end=acknowledged.end + 1))


def test_an_owner_that_is_not_killed_finishes(tmp_path: Path) -> None:
    """The owner of these tests ends only if it is killed."""
    acknowledged = _run(tmp_path, "none", 1, 12, NOTHING)
    assert (True, 4) == (acknowledged.finished, acknowledged.epoch)
    assert acknowledged == _check(tmp_path, acknowledged)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_owner_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    """One spool survives a series of kills at random steps, each owner beginning where the one before was killed."""
    chance = random.Random(seed)
    acknowledged = NOTHING
    for _ in range(10):
        acknowledged = _check(tmp_path, _run(tmp_path, "any", chance.randint(1, 60), 12, acknowledged))
    assert 0 < acknowledged.end
