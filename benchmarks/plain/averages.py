"""Averages by sensor as plain queries, one for each dataflow, fed by sockets.

    python -m benchmarks.plain.averages FOLDER QUERIES URL

QUERIES is a JSON file with the `port`, `lowest`, `window`, `lowest_mean` and `output` of each query. Prints a line once
all have been started, and runs until its input ends. Batches are a second apart at least, as Braid's are by default.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import paho.mqtt.client as paho
import pandas as pd  # type: ignore[import-untyped]  # its stubs are not installed
from paho.mqtt.enums import CallbackAPIVersion
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.plain.sections import plain_session

_SCHEMA = "n long, sensor string, value double, at double"
_HIGHEST = 100.0


def main(folder: Path, queries: Path, url: str) -> None:
    """Run all queries."""
    session = plain_session("local[*]")
    session.sparkContext.setLogLevel("ERROR")
    broker = urlsplit(url)
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set(broker.username, broker.password)
    client.connect(broker.hostname or "127.0.0.1", broker.port or 1883)
    client.loop_start()
    running = [
        _started(session, config, client, folder / str(number))
        for number, config in enumerate(json.loads(queries.read_text(encoding="utf-8")))
    ]
    print(len(running), flush=True)
    sys.stdin.read()
    client.loop_stop()


def _started(session: SparkSession, config: Mapping[str, Any], client: paho.Client, folder: Path) -> StreamingQuery:
    lines = session.readStream.format("socket").option("host", "127.0.0.1").option("port", config["port"]).load()
    events = lines.select(sql.from_json("value", _SCHEMA).alias("event")).select("event.*")
    means = (
        events.where(events["value"].between(config["lowest"], _HIGHEST))
        .groupBy("sensor")
        .applyInPandasWithState(
            _averaged(config["window"]),
            outputStructType="sensor string, value double",
            stateStructType="count long, sum double",
            outputMode="append",
            timeoutConf=GroupStateTimeout.NoTimeout,
        )
    )

    def publish(rows: DataFrame, _batch: int) -> None:
        for row in rows.collect():
            client.publish(config["output"], json.dumps(row.asDict()))

    return (
        means.where(means["value"].between(config["lowest_mean"], _HIGHEST))
        .writeStream.foreachBatch(publish)
        .trigger(processingTime="1 second")
        .option("checkpointLocation", str(folder))
        .start()
    )


def _averaged(window: int) -> Any:
    def averaged(key: tuple[str], pieces: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        count, total = state.get if state.exists else (0, 0.0)
        means = []
        for value in pd.concat(pieces).sort_values("n")["value"]:
            count, total = count + 1, total + value
            if count == window:
                means.append(total / count)
                count, total = 0, 0.0
        state.update((count, total))
        yield pd.DataFrame({"sensor": [key[0]] * len(means), "value": means})

    return averaged


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
