"""What the Spark source reads again of a batch whose events are gone."""

from pathlib import Path

import pyarrow as pa
import pytest

from bridge import Item, PositionsGone, Spool, commit, packed
from engine.job_folder import spool_folder
from engine.rows import read_rows
from engine.source import Batch, SpoolReading
from engine.twin import TwinJob
from tests.chaos.chain import BEHAVIOURS, JOB, PLAN, STREAM


def spooled(root: Path) -> Spool:
    spool = Spool(spool_folder(root, STREAM), most_bytes=1 << 30)
    spool.append([Item(count=3, stamp=1, payload=packed(pa.record_batch({"k": ["a"] * 3, "v": [1.0, 2.0, 3.0]})))])
    return spool


def ran(root: Path) -> Batch:
    """A batch that a job ran, whose events were removed when the job had left the spool."""
    spool = spooled(root)
    job = TwinJob(root, JOB, BEHAVIOURS)
    job.log(PLAN)
    job.settle()
    commit(spool.folder, "another", 3)
    spool.prune()
    latest = job.store.file(job.batch - 1).header
    return Batch(latest.start.as_json(), latest.end.as_json())


def reading(root: Path) -> SpoolReading:
    return SpoolReading({"job": JOB, "root": str(root), "pace": ""})


def test_a_batch_that_is_recorded_needs_its_events_no_more(tmp_path: Path) -> None:
    """Spark may run it again, when the job was stopped before Spark had committed it."""
    batch = ran(tmp_path)
    span, items = read_rows(reading(tmp_path).read(batch))
    assert (batch.start, batch.end, []) == (span.start.as_json(), span.end.as_json(), items)


def test_a_batch_that_is_not_recorded_does_not_go_on_without_its_events(tmp_path: Path) -> None:
    """Nothing is lost in silence."""
    batch = ran(tmp_path)
    for path in (tmp_path / "jobs").rglob("records/0*"):
        path.unlink()
    with pytest.raises(PositionsGone):
        list(reading(tmp_path).read(batch))
