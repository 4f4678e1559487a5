"""A plain stateful query of Spark that is stopped and started from its checkpoint, as it is to change how it runs.

    python -m benchmarks.plain.restarts FOLDER USERS TIMES

Prints the seconds from each stop until the first row of the next start, as JSON, in one session.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # its stubs are not installed
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.plain.sections import SETTINGS, plain_session

_AT_ONCE = 20_000
_EVENTS = 20


class _Mean(StatefulProcessor):
    """The mean of the last amounts of a user."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._recent = handle.getValueState("recent", "recent string")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803 - Spark's names
        del timerValues
        kept = self._recent.get()
        recent: list[float] = json.loads(kept[0]) if kept else []
        for piece in rows:
            recent = [*recent, *piece["amount"]][-10:]
        self._recent.update((json.dumps(recent),))
        yield pd.DataFrame({"user": [key[0]], "score": [sum(recent) / len(recent)]})

    def close(self) -> None:
        pass


class _Restarted:
    """The query, and the files that it reads."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._raw = folder / "raw"
        self._raw.mkdir(parents=True)
        self._files = 0
        self.rows = 0

    def start(self) -> StreamingQuery:
        """Start it from its checkpoint."""
        return (
            self._session.readStream.schema("user long, amount double")
            .json(str(self._raw))
            .groupBy("user")
            .transformWithStateInPandas(_Mean(), "user long, score double", "append", "none")
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .start()
        )

    def send(self, users: range) -> None:
        """Write an event for each user into a file."""
        self._files += 1
        made = self._folder / f"{self._files}.json"
        made.write_text("".join(json.dumps({"user": user, "amount": user % 97}) + "\n" for user in users))
        made.rename(self._raw / made.name)

    def _take(self, outputs: DataFrame, _batch: int) -> None:
        self.rows += outputs.count()


def main(folder: Path, users: int, times: int) -> None:
    """Fill the state, then stop and start."""
    settings = {
        **SETTINGS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    session = plain_session("local[2]", settings)
    restarted = _Restarted(session, folder)
    query = restarted.start()
    for first in range(0, users, _AT_ONCE):
        restarted.send(range(first, min(first + _AT_ONCE, users)))
        query.processAllAvailable()
    took = []
    for _ in range(times):
        begun, before = time.perf_counter(), restarted.rows
        query.stop()
        restarted.send(range(_EVENTS))
        query = restarted.start()
        while restarted.rows == before:
            if (error := query.exception()) is not None:
                raise RuntimeError(str(error))
            time.sleep(0.01)
        took.append(time.perf_counter() - begun)
        query.processAllAvailable()
    query.stop()
    session.stop()
    print(json.dumps({"seconds": took}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
