"""A machine to back up: a root with a database, and jobs that run without Spark."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy import select

from bridge import Item, Spool, commit
from bridge.files import write_whole
from bridge.intake import Expected
from bridge.spools.log import packed
from dags import Kind
from engine.behaviour import installed_behaviours
from engine.kernel.batch_rows import arriving
from engine.kernel.entering_events import Portion
from engine.kernel.worker import Worker
from engine.offset import Span
from engine.plan import Delivery, Edge, Ingress, Plan, Slot, Subscribed
from engine.records.job_folder import job_folder, spool_folder
from engine.records.store import RecordStore
from manager.store.database import Store
from manager.store.tables import Leadership
from tests.twins.twin_job import TwinJob

STREAM = "source/1"
JOB = "1"
ADVANCED = {"leader", "until", "term", "next_instance", "next_job"}
"""What a restore changes of the leadership."""


class CountingJob:
    """A job that counts events."""

    def __init__(self, root: Path, *, shards: int = 1) -> None:
        self.root = root
        self.plan = replace(counting(), shards=shards)
        self.folder = job_folder(root, JOB)
        self.spool = Spool(spool_folder(root, STREAM), most_bytes=10_000_000)
        self.twin = TwinJob(root, JOB, installed_behaviours())
        if not self.folder.entries(1):
            commit(self.spool.folder, JOB, 0)
            self.twin.log(self.plan)

    def receive(self, *values: int) -> None:
        """Spool events, in one file."""
        events = pa.record_batch({"n": pa.array(values, pa.int64()), "_rest": pa.nulls(len(values), pa.string())})
        self.spool.append([Item(count=len(values), stamp=0, payload=packed(events))], {"p": Expected(next=len(values))})

    def plan_batch(self) -> bool:
        """Run the next batch; False if there is none."""
        return self.twin.step()

    def run_shard(self, shard: int) -> None:
        """Write the next batch's end, and run one shard of the batch alone."""
        entries = self.folder.entries(max(1, self.twin.offset.entry))
        entry, span = entries[-1], Span(self.twin.offset, self.twin._next(entries).end)
        self.twin.store.ends.keep(self.twin.batch, span.end)
        portion = Portion(division=entry.division, shard=shard)
        items = list(arriving(self.root, entry, span, portion=portion))
        assert not Worker(self.root, JOB).work_off(self.twin.batch, span, items, shard)

    def finish_batch(self) -> None:
        """Publish the last batch, and remove what is no longer needed."""
        done = self.twin.batch - 1
        published = {"batch": done + 1, "opened": [], "closing": []}
        write_whole(self.folder.path / "published", json.dumps(published).encode())
        # As far back as Spark may go.
        oldest = max(done - 3, 0)
        commit(self.spool.folder, JOB, self.twin.store.file(oldest).header.end.at.get(STREAM, 0))

    def work(self) -> None:
        """Run and finish batches until there is nothing to do."""
        while self.plan_batch():
            self.finish_batch()

    def prune(self) -> None:
        """Remove the records, plans and events that are no longer needed."""
        store = RecordStore(self.folder.records)
        batches = store.batches()
        store.prune(min(store.base(batches[-1]), max(0, batches[-1] - 5)))
        self.folder.forget_entries(store.file(store.batches()[0]).header.start.entry)
        self.spool.prune()

    def close(self) -> None:
        self.spool.close()


def kept(root: Path, before: int | None = None) -> Any:
    """Return the state of a root's job, as of its last record or before a batch."""
    store = RecordStore(job_folder(root, JOB).records)
    return store.state(store.batches().stop if before is None else before).kept


def counting() -> Plan:
    return Plan(
        job=JOB,
        host="local",
        version=1,
        ingress=(Ingress(stream=STREAM, instance=1, supply=Subscribed(topic="raw", fields={"n": Kind.INTEGER})),),
        slots=(
            Slot(instance=2, type="count", config='{"by": ["n"]}', inputs=(Edge(parent=1),)),
            Slot(instance=3, type="output", inputs=(Edge(parent=2),)),
        ),
        deliveries=(Delivery(instance=3, tenant="ann", dataflow="d-1", sink="out"),),
    )


def everything(url: str) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables, except for values that a restore changes."""
    store = Store(url)
    try:
        with store.read() as session:
            return {
                table.name: sorted(
                    (
                        {
                            name: value
                            for name, value in row.items()
                            if table.name != "leadership" or name not in ADVANCED
                        }
                        for row in session.execute(select(table)).mappings()
                        if row.get("kind") != "restore backup"
                    ),
                    key=str,
                )
                for table in Leadership.metadata.sorted_tables
            }
    finally:
        store.close()
