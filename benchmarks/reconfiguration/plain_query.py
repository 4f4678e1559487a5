"""A plain query of Spark that is stopped and started from its checkpoint for each change, as it is done without Braid.

    python -m benchmarks.reconfiguration.plain_query FOLDER FIRST END

Works off the sections of a data set from FIRST to END, each as another version of the query. It prints the seconds and
the outputs as JSON. It imports no more than such a program needs.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # its stubs are not installed
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

EVENTS_OF_SECTION = 100
RECENT = 10
"""The amounts that are kept of each user."""
_USERS = 10
_SCHEMA = "n long, user long, amount double"
_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def section(at: int) -> list[dict[str, Any]]:
    """The events of one section."""
    numbers = range(at * EVENTS_OF_SECTION, (at + 1) * EVENTS_OF_SECTION)
    return [{"n": number, "user": number % _USERS, "amount": float(number * 7 % 97)} for number in numbers]


def main(folder: Path, first: int, end: int) -> None:
    """Run the versions from the first one on."""
    builder = SparkSession.builder.master("local[2]")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    outputs: list[tuple[int, int, float]] = []

    def take(rows: DataFrame, _batch: int) -> None:
        outputs.extend((row["n"], row["generation"], row["score"]) for row in rows.collect())

    begun = time.perf_counter()
    for at in range(first, end):
        query = (
            session.readStream.schema(_SCHEMA)
            .json(str(raw))
            .groupBy("user")
            .applyInPandasWithState(
                _scored(at),
                outputStructType="n long, generation long, score double",
                # An array as state fails in this version of Spark.
                stateStructType="recent string",
                outputMode="append",
                timeoutConf=GroupStateTimeout.NoTimeout,
            )
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        # Made whole before it is seen.
        made = folder / f"{at}.json"
        made.write_text("".join(json.dumps(event) + "\n" for event in section(at)))
        made.rename(raw / made.name)
        while len(outputs) < (at + 1 - first) * EVENTS_OF_SECTION:
            _check(query)
        # A batch that is not committed would be run again.
        query.processAllAvailable()
        query.stop()
    took = time.perf_counter() - begun
    session.stop()
    print(json.dumps({"seconds": took, "outputs": outputs}))


def _check(query: StreamingQuery) -> None:
    if (error := query.exception()) is not None:
        raise RuntimeError(str(error))
    time.sleep(0.01)


def _scored(generation: int) -> Any:
    def scored(_key: object, pieces: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        recent: list[float] = json.loads(state.get[0]) if state.exists else []
        for piece in pieces:
            ordered = piece.sort_values("n")
            scores = []
            for amount in ordered["amount"]:
                recent = [*recent, amount][-RECENT:]
                scores.append(sum(recent) / len(recent))
            state.update((json.dumps(recent),))
            yield pd.DataFrame({"n": ordered["n"], "generation": generation, "score": scores})

    return scored


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
