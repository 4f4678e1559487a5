"""The figures of shards in records: the events of each key group, and the CPU of each shard."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from bridge import Item, Spool
from bridge.spools.log import packed
from dags.dataflow import evenly
from engine.behaviour import installed_behaviours
from engine.catalogue import installed_catalogue
from engine.kernel.entering_events import groups_of
from engine.plan import Plan
from engine.records.job_folder import spool_folder
from tests.engine.kernels import enters, slot
from tests.engine.kernels import events as arrow_events
from tests.twins.twin_job import TwinJob

EVENTS = [{"k": key, "n": number} for number, key in enumerate("aabacadaaabbe")]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_record_counts_the_events_of_each_key_group(tmp_path: Path, shards: int) -> None:
    """With one shard nothing is counted, because nothing could move."""
    twin = TwinJob(tmp_path, "j", installed_behaviours(), installed_catalogue())
    spool = Spool(spool_folder(tmp_path, "s"), most_bytes=1_000_000)
    twin.log(
        Plan(
            job="j",
            host="h",
            version=1,
            ingress=(enters("s", 1),),
            slots=(slot(2, "count", 1, by=["k"]),),
            shards=shards,
        )
    )
    rows: pa.RecordBatch = arrow_events(EVENTS)
    spool.append([Item(count=len(rows), stamp=0, payload=packed(rows))])
    twin.settle()
    headers = [twin.store.file(batch).header for batch in twin.store.batches()]
    counted = sum((Counter(header.grouped) for header in headers), Counter[int]())
    assert counted == (Counter(groups_of(rows, ("k",)).tolist()) if shards > 1 else Counter())
    if shards > 1:
        # Each shard has counted its own; all of their CPU is in the meters of the batch.
        assert {evenly(shards)[group] for group in counted} <= set(range(shards))
        for header in headers:
            assert sum(part.cpu_ns for part in header.shards) == sum(each.cpu_ns for each in header.meters.values())
    spool.close()
