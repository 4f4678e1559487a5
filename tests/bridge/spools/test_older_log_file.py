"""Files of a log as they were written once are read as long as any may be left."""

import json
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from bridge import SpoolDamaged
from bridge.events.births import Birth, births_text
from bridge.intake import Expected
from bridge.spools.log import Item, ItemKind, LogFile, Placed, log_path, packed
from bridge.spools.log_file import expected_in, extents_in, extents_of, items_in
from bridge.spools.spool import Spool

EVENTS = packed(pa.record_batch({"n": [1, 2, 3]}))
ITEMS = (
    Item(count=3, stamp=99, payload=EVENTS, births=(Birth(2, 97), Birth(1, 98))),
    Item(kind=ItemKind.MARKER, count=1, stamp=100, payload="näch".encode()),
    Item(count=3, stamp=101, payload=EVENTS),
)
EXPECTED = {"braid/1/s/4": Expected(epoch=2, next=7, opened=True)}


def _older(folder: Path, *, births: bool) -> LogFile:
    """A file of these items, with the column of births or from before there was one."""
    columns = {
        "count": pa.array([item.count for item in ITEMS], pa.int64()),
        "kind": pa.array([item.kind for item in ITEMS], pa.string()),
        "stamp": pa.array([item.stamp for item in ITEMS], pa.int64()),
        "payload": pa.array([item.payload for item in ITEMS], pa.binary()),
    }
    if births:
        columns["births"] = pa.array([births_text(item.births) for item in ITEMS], pa.string())
    told = {producer: {"epoch": each.epoch, "next": each.next, "opened": True} for producer, each in EXPECTED.items()}
    batch = pa.record_batch(columns).replace_schema_metadata({"braid.expected": json.dumps(told)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content = sink.getvalue().to_pybytes()
    folder.mkdir(exist_ok=True)
    path = log_path(folder, 5, 12)
    path.write_bytes(content + zlib.crc32(content).to_bytes(4))
    return LogFile(5, 12, path)


@pytest.mark.parametrize("births", [True, False], ids=["with births", "without births"])
def test_what_it_holds_is_read(tmp_path: Path, *, births: bool) -> None:
    """Its items, where they end, and what was expected after them; without births they are unknown."""
    file = _older(tmp_path, births=births)
    items = (
        ITEMS if births else [Item(kind=it.kind, count=it.count, stamp=it.stamp, payload=it.payload) for it in ITEMS]
    )
    assert [Placed(5, items[0]), Placed(8, items[1]), Placed(9, items[2])] == list(items_in(file))
    assert extents_of(5, ITEMS) == extents_in(file)
    assert expected_in(file) == EXPECTED


def test_a_spool_goes_on_after_it(tmp_path: Path) -> None:
    """A spool whose last file is one of these appends where it ended, and expects what that says."""
    (tmp_path / "log").mkdir()
    _older(tmp_path / "log", births=True)
    spool = Spool(tmp_path, most_bytes=10_000)
    assert (12, EXPECTED) == (spool.append(ITEMS[:1]), spool.producers)
    spool.close()


@pytest.mark.parametrize("at", [0, 20, -1])
def test_a_damaged_one_is_told(tmp_path: Path, at: int) -> None:
    """Whoever reads one of which a byte is another is told the file's name."""
    file = _older(tmp_path, births=True)
    content = bytearray(file.path.read_bytes())
    content[at] ^= 1
    file.path.write_bytes(content)
    for reading in (items_in, expected_in, extents_in):
        with pytest.raises(SpoolDamaged, match=str(file.path)):
            list(reading(file))
