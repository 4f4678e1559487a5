"""A data set in sections, with a reconfiguration between each two: here, and as a plain query of Spark is changed.

Both keep the last amounts of each user and score each payment by them; every reconfiguration changes what is stamped on
the outputs. The plain query is stopped and started from its checkpoint in one session, which is the kindest way: who
submits an application anew waits for a JVM as well.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # the stubs are not installed
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.manager_test_bed import serving
from benchmarks.reconfiguration.behaviours import score
from benchmarks.reconfiguration.one_job import document
from benchmarks.reconfiguration.running_workflow import settled, wait_until_runs
from benchmarks.reconfiguration.steady_events import SteadyEvents
from engine.spark.java import find_java
from manager.answers import ReconfigurationForm
from manager.client import Client

Found = dict[str, Any]
Output = tuple[int, int, float]
"""The number of an event, the config that it met, and its score."""
_SECTIONS = 80
_EVENTS = 100
"""In each section."""
_USERS, _WINDOW = 10, 10
_SCHEMA = "n long, user long, amount double"
_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def _section(at: int) -> list[Found]:
    numbers = range(at * _EVENTS, (at + 1) * _EVENTS)
    return [{"n": number, "user": number % _USERS, "amount": float(number * 7 % 97)} for number in numbers]


def reconfigured(folder: Path, sections: int) -> tuple[Found, list[Output]]:
    """The seconds of all sections on a service, and the outputs."""
    with serving(folder, pace=0.2) as service:
        service.start()
        service.listen()
        service.events = {}
        with Client(service.url, service.admit("ann")) as ann:
            SteadyEvents(service, 1.0).register(ann)
            flow = ann.submit(document("sections", "bench:inference", {"window": _WINDOW, "generation": 0}))
            wait_until_runs(ann, flow.id)
            topic = flow.outputs[0].topic

            def left() -> list[Found]:
                return [event for _, events in (service.events or {}).get(topic, ()) for event in events]

            begun, changing = time.perf_counter(), 0.0
            for at in range(sections):
                if at:
                    asked = time.perf_counter()
                    patch = {"config": {"generation": at}}
                    settled(ann, flow.id, ann.reconfigure(flow.id, ReconfigurationForm(tasks={"task": patch})).id)
                    changing += time.perf_counter() - asked
                for event in _section(at):
                    service.publish(SteadyEvents.TOPIC, json.dumps({**event, "time": 0}).encode())
                service.wait(lambda at=at: len(left()) >= (at + 1) * _EVENTS or None, "a section")  # type: ignore[misc]
            found = {"total_s": round(time.perf_counter() - begun, 1), "changing_s": round(changing, 1)}
            return found, [(event["n"], event["generation"], event["score"]) for event in left()]


def restarted(folder: Path, sections: int) -> tuple[Found, list[Output]]:
    """The same with a plain query; to be run in a process of its own."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    find_java(os.environ)
    builder = SparkSession.builder.master("local[2]")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    raw, checkpoint = folder / "raw", folder / "checkpoint"
    raw.mkdir(parents=True)
    outputs: list[Output] = []

    def take(rows: DataFrame, _batch: int) -> None:
        outputs.extend((row["n"], row["generation"], row["score"]) for row in rows.collect())

    begun, changing = time.perf_counter(), 0.0
    query = None
    for at in range(sections):
        asked = time.perf_counter()
        if query is not None:
            query.stop()
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
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        while query.status["message"] != "Waiting for data to arrive":
            _check(query)
        changing += time.perf_counter() - asked if at else 0.0
        # Made whole before it is seen.
        made = folder / f"{at}.json"
        made.write_text("".join(json.dumps(event) + "\n" for event in _section(at)))
        made.rename(raw / made.name)
        while len(outputs) < (at + 1) * _EVENTS:
            _check(query)
        # A batch that is not committed would be run again.
        query.processAllAvailable()
    found = {"total_s": round(time.perf_counter() - begun, 1), "changing_s": round(changing, 1)}
    session.stop()
    return found, outputs


def _check(query: StreamingQuery) -> None:
    if (error := query.exception()) is not None:
        raise RuntimeError(str(error))
    time.sleep(0.01)


def _scored(generation: int) -> Any:
    def scored(_key: object, pieces: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        recent = json.loads(state.get[0]) if state.exists else []
        for piece in pieces:
            ordered = piece.sort_values("n")
            scores = []
            for amount in ordered["amount"]:
                recent = [*recent, amount][-_WINDOW:]
                scores.append(score(recent))
            state.update((json.dumps(recent),))
            yield pd.DataFrame({"n": ordered["n"], "generation": generation, "score": scores})

    return scored


def side_by_side(folder: Path, *, quick: bool) -> Found:
    """Both, the ratio of their times, and whether their outputs are equal, event for event."""
    sections = 10 if quick else _SECTIONS
    here, outputs = reconfigured(folder / "braid", sections)
    with get_context("spawn").Pool(1) as process:
        plain, others = process.apply(restarted, (folder / "plain", sections))
    return {
        "sections": sections,
        "reconfigured": here,
        "restarted": plain,
        "total_ratio": round(here["total_s"] / plain["total_s"], 3),
        "changing_ratio": round(here["changing_s"] / plain["changing_s"], 3),
        "equal": sorted(outputs) == sorted(others),
    }
