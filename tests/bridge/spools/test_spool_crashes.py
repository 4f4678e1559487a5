"""The owner of a spool is killed at every step, and again and again.

The owner is a process of its own. It appends numbered events, tells each position only after `append` returned, lets a
consumer follow and prunes, and kills itself at the n-th step of a name: no step is missed by chance.
"""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from bridge.intake import Expected
from bridge.spools.log import ItemKind, log_files, unpacked
from bridge.spools.reader import read
from bridge.spools.spool import Spool, consumers
from tests.bridge.spools.test_log import data

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
