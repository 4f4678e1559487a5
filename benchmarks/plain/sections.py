"""Sections of a data set through a plain query of Spark, which is stopped and started from its checkpoint for each.

It imports no more than such a program needs, and knows nothing of Braid.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def plain_session(master: str, settings: Mapping[str, str] = SETTINGS) -> SparkSession:
    """A session of Spark that logs nothing."""
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


class Section(NamedTuple):
    """A part of a data set, and how many events leave for it."""

    events: Sequence[Mapping[str, Any]]
    leaving: int


Query = Callable[[SparkSession, str, int], DataFrame]
"""The query of a section, by its number; it reads a folder of JSON."""


def work_off(query: Query, sections: Iterable[tuple[int, Section]], folder: Path) -> None:
    """Run each section as another version of the query; print the seconds and the rows as JSON."""
    session = plain_session("local[2]")
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    rows: list[Sequence[Any]] = []

    def take(outputs: DataFrame, _batch: int) -> None:
        rows.extend(list(row) for row in outputs.collect())

    begun, expected = time.perf_counter(), 0
    for at, section in sections:
        running = (
            query(session, str(raw), at)
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        # Made whole before it is seen.
        made = folder / f"{at}.json"
        made.write_text("".join(json.dumps(event) + "\n" for event in section.events))
        made.rename(raw / made.name)
        expected += section.leaving
        while len(rows) < expected:
            _check(running)
        # A batch that is not committed would be run again.
        running.processAllAvailable()
        running.stop()
    took = time.perf_counter() - begun
    session.stop()
    print(json.dumps({"seconds": took, "rows": rows}))


def _check(query: StreamingQuery) -> None:
    if (error := query.exception()) is not None:
        raise RuntimeError(str(error))
    time.sleep(0.01)
