"""What a trial reads of a spool: its newest events, and nothing from before a time."""

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.raw_events import arrow_schema
from bridge.spools.log import Item, ItemKind, packed, unpacked
from bridge.spools.spool import Spool
from dags import Kind, Schema
from engine.dataflow_trial import newest_items

SCHEMA = arrow_schema(Schema.of(n=Kind.INTEGER))


def item(first: int, count: int, stamp: int) -> Item:
    rows = pa.RecordBatch.from_pylist([{"n": first + at} for at in range(count)], schema=SCHEMA)
    return Item(count=count, stamp=stamp, payload=packed(rows))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), max_size=4),
    most=st.integers(0, 12),
    since=st.integers(0, 12),
)
def test_the_newest_events_since_a_time_are_read(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], most: int, since: int
) -> None:
    """In order, whichever files they are in; a marker, written as a count of 0, is no event."""
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(folder, most_bytes=10_000_000)
    expected: list[int] = []
    position = stamp = 0
    for counts in files:
        items = []
        for count in counts:
            stamp += 1
            if count:
                items.append(item(position, count, stamp))
                expected += range(position, position + count) if stamp >= since else ()
            else:
                items.append(Item(kind=ItemKind.MARKER, count=1, stamp=stamp, payload=b"cut"))
            position += items[-1].count
        spool.append(items)
    spool.close()
    read = newest_items(folder, most, since)
    numbers = [event["n"] for placed in read for event in unpacked(placed.item.payload).to_pylist()]
    assert expected[len(expected) - min(most, len(expected)) :] == numbers
    assert [placed.first for placed in read if placed.item.count] == [
        unpacked(placed.item.payload).column("n")[0].as_py() for placed in read
    ]


def test_a_folder_that_is_no_spool_has_no_event(tmp_path: Path) -> None:
    """Nothing has read that source yet; or its files are damaged, which the trial is not to fail for."""
    assert [] == newest_items(tmp_path / "none", 5, 0)
    spool = Spool(tmp_path / "spool", most_bytes=10_000_000)
    spool.append([item(0, 3, 1)])
    spool.append([item(3, 3, 2)])
    spool.close()
    first = min((tmp_path / "spool" / "log").glob("0*"))
    first.write_bytes(b"damaged")
    assert [3] == [placed.first for placed in newest_items(tmp_path / "spool", 6, 0)]


def test_a_trial_ends_by_itself_where_nobody_ends_it() -> None:
    """Its manager may have died; here it waits for its order."""
    program = [sys.executable, "-m", "engine.dataflow_trial", "60", "1200000000", "1"]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as process:  # noqa: S603 - this Python, with Braid's program
        assert -signal.SIGALRM == process.wait(60)
