"""Named workers: on real Spark, no process runs what was begun under two names."""

import os
from collections.abc import Iterator

import pyarrow as pa
import pytest

from engine.spark.session import start_session, workers_named


def _pids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"pid": pa.array([os.getpid()] * batch.num_rows, pa.int64())})


@pytest.mark.spark
def test_processes_are_shared_under_one_name_only() -> None:
    """Without a name, the second job gets the process of the first; with a name it gets another, and keeps it."""
    session = start_session("named workers", master="local[1]")
    try:

        def ran(name: str) -> set[int]:
            with workers_named(session, name):
                frame = session.range(3).mapInArrow(_pids, "pid long")
            return {row.pid for row in frame.collect()}

        common, own = ran(""), ran("eve")
        assert common == ran("")
        assert own == ran("eve")
        assert not common & own
        assert not ran("mallory") & (common | own)
    finally:
        session.stop()
