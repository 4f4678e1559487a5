"""The Spark source: which events it reads again of a batch whose events are partly gone."""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from bridge import Item, PositionsGone, Spool, SpoolIndex, commit
from bridge.spools.log import packed
from engine.host.consumers import HostConsumers
from engine.job.pace import next_batch
from engine.job.pace_keeper import LongBatch, PaceKeeper, PaceServer, PlannedBatch, ReaderOrder
from engine.job.plan_log import past_gone
from engine.job.query import HostParts, SparkJob
from engine.kernel.batch_rows import ShardRows, read_rows
from engine.kernel.worker import Worker
from engine.offset import Span
from engine.records.job_folder import job_folder, spool_folder
from engine.spark.source import LongBatchShard, SpoolStreamReader
from tests.chaos.chain import BEHAVIOURS, JOB, PLAN, STREAM
from tests.twins.memory_clock import MemoryClock
from tests.twins.twin_job import TwinJob

NO_SPARK = cast("Any", None)
NO_HOST = cast("Any", SimpleNamespace(need=lambda *_ingress: None))


def events(many: int) -> Item:
    return Item(count=many, stamp=1, payload=packed(pa.record_batch({"k": ["a"] * many, "v": [30.0] * many})))


@contextmanager
def ran(root: Path, *, gone: int = 5) -> Iterator[tuple[Span, Spool]]:
    """A batch of three and two events that a job ran; some were removed after the job had left the spool."""
    spool = Spool(spool_folder(root, STREAM), most_bytes=1 << 30)
    for many in (3, 2):
        spool.append([events(many)])
    job = TwinJob(root, JOB, BEHAVIOURS)
    job.log(PLAN)
    job.settle()
    spool.append([events(4)])
    commit(spool.folder, "another", gone)
    spool.prune()
    latest = job.store.file(job.batch - 1).header
    assert 5 == latest.end.at[STREAM]
    yield Span(latest.start, latest.end), spool
    spool.close()


def unrecorded(root: Path) -> None:
    """Undo the record of the last batch, as if the job was stopped before it."""
    max((job_folder(root, JOB).records).glob("0*")).unlink()


def come_back(root: Path) -> None:
    """Do what the job's host does first when it starts the job again."""
    job = SparkJob(
        JOB,
        HostParts(
            root=root,
            session=NO_SPARK,
            pace=NO_SPARK,
            sender=NO_SPARK,
            clock=MemoryClock(),
            on_record=lambda _job: None,
            owned_spool=lambda _stream: None,
        ),
    )
    HostConsumers(root, NO_HOST).rejoin(job)
    job.release()


class Given(PaceKeeper):
    """A keeper that gives the reader of a long batch one batch."""

    def __init__(self, batch: PlannedBatch) -> None:
        self._batch = batch

    def batch_after(
        self, within: LongBatch, shard: int, reader: str, last: tuple[int, int] | None
    ) -> PlannedBatch | ReaderOrder:
        assert (LongBatch(1, 1), 0) == (within, shard)
        assert reader
        return self._batch if last is None else ReaderOrder.END

    def stop(self) -> None:
        """There is nothing to stop."""


def read(root: Path, span: Span) -> ShardRows:
    """What the worker gets of a batch that the reader of a long batch was given."""
    folder = Path(tempfile.mkdtemp(dir=root))
    with closing(PaceServer(folder / "pace")) as server:
        server.add(JOB, Given(PlannedBatch(1, span)))
        reader = SpoolStreamReader({"job": JOB, "root": str(root), "pace": server.address})
        with closing(reader):
            (rows,) = read_rows(reader.read(LongBatchShard(long_batch=1, shards=1, shard=0)))
    return rows


@pytest.mark.parametrize("shards", [1, 3])
def test_a_long_batch_is_one_task_of_spark_for_each_shard(tmp_path: Path, shards: int) -> None:
    """A long batch that does not begin has no task."""
    reading = SpoolStreamReader({"job": JOB, "root": str(tmp_path), "pace": ""})
    start, end = {"long_batch": 3, "shards": 1}, {"long_batch": 4, "shards": shards}
    assert [LongBatchShard(4, shards, shard) for shard in range(shards)] == reading.partitions(start, end)
    assert not reading.partitions(start, start)


def test_an_unrecorded_batch_does_not_run_without_its_events(tmp_path: Path) -> None:
    """No event is lost in silence."""
    with ran(tmp_path) as (span, _):
        unrecorded(tmp_path)
        with pytest.raises(PositionsGone):
            read(tmp_path, span)


@pytest.mark.parametrize(("gone", "left"), [(3, [(3, 2)]), (5, []), (9, [])])
def test_a_job_that_was_stopped_in_a_batch_runs_it_with_the_events_that_are_left(
    tmp_path: Path, gone: int, left: list[tuple[int, int]]
) -> None:
    """It runs with the same events each time until it is recorded, and none of them comes in the next batch again."""
    with ran(tmp_path, gone=gone) as (span, spool):
        unrecorded(tmp_path)
        come_back(tmp_path)
        items = read(tmp_path, span).items
        assert left == [(item.first, item.count) for item in items]
        # Other jobs read on.
        commit(spool.folder, "another", 9)
        spool.prune()
        come_back(tmp_path)
        assert (1, span, items, 0) == read(tmp_path, span)
        assert [True, True] == [Worker(tmp_path, JOB).work_off(1, span, items) for _ in range(2)]


@pytest.mark.parametrize("gone", [3, 9])
def test_the_batch_after_the_one_a_job_was_stopped_in_reads_what_is_left(tmp_path: Path, gone: int) -> None:
    """More events may be gone than the first batch was to hold."""
    with ran(tmp_path, gone=gone) as (span, spool):
        unrecorded(tmp_path)
        come_back(tmp_path)
        folder, end = job_folder(tmp_path, JOB), span.end
        entries = [past_gone(entry, folder.gone()) for entry in folder.entries(1)]
        warming = next_batch(end, run=2, entries=entries, spools={STREAM: SpoolIndex(spool.folder)})
        assert max(5, gone) == warming.end.at[STREAM]
        following = next_batch(warming.end, run=2, entries=entries, spools={STREAM: SpoolIndex(spool.folder)})
        assert 9 == following.end.at[STREAM]
        items = read(tmp_path, Span(warming.end, following.end)).items
        assert [(5, 4)] * (gone < 9) == [(item.first, item.count) for item in items]
