"""What the engine's benchmark measures without a host: bare loops, plain Spark, spools and state."""

import json
import os
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.engine_plans import SENSOR_FIELDS, Twelve, bare, event, events
from benchmarks.instruments import Figures, scratch_folder
from bridge import Item, ItemKind, Spool, between
from bridge.raw_events import events_in
from bridge.spools.log import packed
from dags import Schema
from engine.host.cpu_meter import CpuMeter
from engine.offset import Offset
from engine.records.record import Record
from engine.records.state import InstanceStates, packed_key, packed_value
from engine.records.store import RecordStore
from engine.spark.programs import find_java

CHANGED = 1_000
"""Keys that change in each batch."""
_EVENTS_PER_BATCH = 100_000
"""Events in a batch of the bare loop."""
_PLAIN = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
"""With these settings a plain query's batch was once measured at just under 60 CPU-ms, which is the engine's goal."""


def arrow_loop(count: int) -> int:
    """Events per core and second of the twelve tasks alone."""
    tasks, batch = Twelve(), events(_EVENTS_PER_BATCH)
    tasks.run(batch)
    begun = time.process_time()
    for _ in range(max(1, count // _EVENTS_PER_BATCH)):
        tasks.run(batch)
    return round(max(1, count // _EVENTS_PER_BATCH) * _EVENTS_PER_BATCH / (time.process_time() - begun))


def json_loop(count: int) -> int:
    """Events per core and second of the twelve tasks, with each event read from JSON first, a thousand per batch."""
    tasks, schema = Twelve(), Schema.of(SENSOR_FIELDS)
    messages = [json.dumps(event(number, 0.0)).encode() for number in range(1_000)]
    tasks.run(events(1_000))
    begun = time.process_time()
    for _ in range(max(1, count // 1_000)):
        tasks.run(events_in(messages, schema)[0])
    return round(max(1, count // 1_000) * 1_000 / (time.process_time() - begun))


def plain_spark(per_second: int) -> int:
    """Events per core and second of the twelve tasks in a plain query with Spark's own source."""
    session = _plain_session()
    # Spark keeps one less than is asked of it.
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100")
    metering = CpuMeter()
    query = (
        session.readStream.format("rate")
        .option("rowsPerSecond", per_second)
        .option("numPartitions", 1)
        .load()
        .selectExpr(
            "concat('s', value % 50) AS sensor", "CAST(value % 100 AS double) AS t", "CAST(0 AS double) AS sent"
        )
        .mapInArrow(bare, "nothing long")
        .writeStream.format("noop")
        .trigger(processingTime="1 second")
        .start()
    )
    rows: dict[int, int] = {}

    def until(batches: int) -> None:
        deadline = time.monotonic() + 120
        while len(rows) < batches:
            if time.monotonic() > deadline or not query.isActive:
                raise TimeoutError(f"plain Spark ran {len(rows)} batches: {query.exception()}")
            for progress in query.recentProgress:
                if progress["numInputRows"]:
                    rows[progress["batchId"]] = progress["numInputRows"]
            time.sleep(0.02)

    until(4)
    before, cpu = len(rows), sum(metering.cpu().values())
    until(before + 8)
    used = sum(metering.cpu().values()) - cpu
    count = sum(sorted(rows.items())[at][1] for at in range(before, len(rows)))
    query.stop()
    session.stop()
    return round(count / used)


def plain_batch(seconds: int) -> float:
    """Milliseconds of CPU for a batch of a hundred rows in a plain query, a batch a second.

    The query does next to nothing: rows are made in the JVM, a function in Python lets all pass, nothing is kept of
    them, and no message is received, spooled or sent.
    """
    session = _plain_session()
    metering = CpuMeter()
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).option("numPartitions", 1).load()
    passed = rows.mapInArrow(lambda batches: batches, rows.schema).writeStream.format("noop")
    with scratch_folder() as folder:

        def used(at: str, unmeasured: float) -> tuple[float, int]:
            query = passed.option("checkpointLocation", str(folder / at)).trigger(processingTime=at).start()
            time.sleep(unmeasured)
            before, cpu = _batch_of(query), sum(metering.cpu().values())
            time.sleep(seconds)
            spent, batches = sum(metering.cpu().values()) - cpu, _batch_of(query) - before
            query.stop()
            return spent, batches

        # As the engine is measured: a JVM becomes faster over its first hundreds of batches.
        used("50 milliseconds", 3.0 * seconds)
        spent, batches = used("1 second", 3.0)
    session.stop()
    return round(1000 * spent / batches, 1)


def _plain_session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    find_java(os.environ)
    builder = SparkSession.builder.master("local[*]")
    for key, value in _PLAIN.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # Spark logs it as an error that a query is stopped amid a batch; what ends one by itself is raised.
    session.sparkContext.setLogLevel("OFF")
    return session


def _batch_of(query: StreamingQuery) -> int:
    progress = query.lastProgress
    if progress is None:
        raise RuntimeError(f"plain Spark ran no batch: {query.exception()}")
    number: int = progress["batchId"]
    return number


def spool(messages: int) -> Figures:
    """A spool filled with items of a thousand events, fifty at once, and read."""
    payload = packed(events(1_000))
    item = Item(kind=ItemKind.DATA, count=1_000, stamp=0, payload=payload)
    with scratch_folder() as folder:
        filled = Spool(folder / "spool", most_bytes=1 << 40)
        begun = time.monotonic()
        for _ in range(messages // 50):
            filled.append([item] * 50)
        wrote = time.monotonic() - begun
        begun = time.monotonic()
        count = sum(placed.item.count for placed in between(folder / "spool", 0, filled.end))
        took = time.monotonic() - begun
        filled.close()
    size = count // 1_000 * len(payload) / 1e6
    return {
        "write_events_per_s": round(count / wrote),
        "write_mb_per_s": round(size / wrote),
        "read_events_per_s": round(count / took),
        "read_mb_per_s": round(size / took),
    }


def state(keys: int) -> float:
    """Milliseconds of CPU for the state of one batch, at so many keys of which a thousand change."""
    names = [packed_key((f"key {number}",)) for number in range(keys)]
    with scratch_folder() as folder:
        store, kept = RecordStore(folder), InstanceStates()
        _batch(store, kept, names, 0)
        batches = 200
        begun = time.process_time()
        for batch in range(1, batches + 1):
            at = batch * CHANGED % keys
            _batch(store, kept, names[at : at + CHANGED], batch)
            store.prune(store.base(batch))
        return round((time.process_time() - begun) / batches * 1000, 2)


def _batch(store: RecordStore, kept: InstanceStates, names: list[bytes], batch: int) -> None:
    staged = kept.of(1)
    for name in names:
        staged.packed(name)
    staged.put_many(names, [packed_value([batch, 1.5])] * len(names))
    store.write(kept.settle(Record(batch=batch, start=Offset(), end=Offset(), changes=kept.changes())))
