"""The latest events of an output, read from the records of its job."""

import json
from pathlib import Path

import pyarrow as pa

from bridge import Item, Spool
from bridge.spools.log import packed
from engine.behaviour import installed_behaviours
from engine.delivery.publisher import RUNS, recent_output
from engine.records.job_folder import job_folder, spool_folder
from tests.integration.hosting import delivery, job, raw, slot
from tests.twins.twin_job import TwinJob

PLAN = job("1", slot(2, "output", 1), slot(3, "count", 1, by=[]), slot(4, "output", 3), reads=(raw("t", 1),))


def test_batches_are_read_backwards_until_there_are_enough_events(tmp_path: Path) -> None:
    """The oldest event comes first, with its number; other outputs and markers are passed over."""
    spool = Spool(spool_folder(tmp_path, "raw/t"), most_bytes=1 << 30)
    twin = TwinJob(tmp_path, "1", installed_behaviours())
    twin.log(PLAN)
    for first in (0, 2, 4):
        events = pa.record_batch({"n": pa.array([first, first + 1], pa.int64())})
        spool.append([Item(count=2, stamp=1, payload=packed(events))])
        twin.settle()
    spool.close()
    folder, output = job_folder(tmp_path, "1"), delivery(2)

    def found(most: int) -> list[tuple[int, int, list[int]]]:
        messages = [json.loads(each) for each in recent_output(folder, output.dataflow, output.sink, most)]
        return [(each["epoch"], each["first"], [event["n"] for event in each["events"]]) for each in messages]

    whole = [(RUNS + 1, first, [first, first + 1]) for first in (0, 2, 4)]
    assert [whole, whole[1:], whole[2:]] == [found(100), found(3), found(1)]
    (folder.records / f"{twin.batch - 2:020d}").unlink()
    assert whole[2:] == found(100)
    assert not [*recent_output(folder, output.dataflow, "none", 5)]
