"""RIoTBench's four applications as documents, for its city data set: ETL, STATS, TRAIN and PRED.

Each has the tasks and streams of the benchmark, with one difference: where a task of the benchmark takes results of
different fields, there is one task for each of them here, because events of several streams at one port keep only the
fields that all of them have. So STATS has a plot for each statistic, and PRED publishes classes by one task and errors
by another. A row is an event with a text field `row`, such as

    1422748800000,{"e":[{"u":"string","n":"source","sv":"a1"},{"u":"","n":"dust","v":"20.5"}],"bt":1422748800000}

and a number `msg` of its own. TRAIN queries the table into which ETL inserts, and PRED uses the models that TRAIN
publishes.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

from dags import Kind, Schema

Document: TypeAlias = dict[str, Any]

RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "temperature": (-12.5, 43.1),
        "humidity": (10.7, 95.2),
        "light": (1_345.0, 26_282.0),
        "dust": (186.61, 5_188.21),
        "airquality_raw": (17.0, 363.0),
    }
)
"""What is observed in the city, and between which bounds it is plausible."""
OBSERVED = tuple(RANGES)
ROWS, QUERIES, MODELS = "riotbench/rows", "riotbench/queries", "riotbench/models"
"""The sources: rows of measurements, ranges of time to learn from, and models that were learned."""
SENML = "riotbench/senml"
"""The topic on which ETL publishes what it has cleaned."""
PREDICTIONS = "riotbench/predictions"
"""The topic on which PRED publishes the class of each row, and the error of each prediction."""
SCHEMAS: Mapping[str, Schema] = MappingProxyType(
    {
        ROWS: Schema.of(row=Kind.STRING, msg=Kind.INTEGER),
        QUERIES: Schema.of({"from": Kind.INTEGER, "to": Kind.INTEGER}),
        MODELS: Schema.of(receipt=Kind.STRING),
    }
)
"""What the events of each source have."""
_BY = ["source", "field"]
_TABLE = {"database": {"place": "riotbench/readings"}, "table": "readings"}
_FEATURES = ["temperature", "humidity", "light", "dust"]
_TARGET = "airquality_raw"


def etl(sensors: Sequence[str], *, expected: int = 20_000_000) -> Document:
    """Extract, transform, load: rows of known sensors are cleaned, completed, and written to a table and a topic."""
    annotations = {sensor: {"city": f"city of {sensor}"} for sensor in sensors}
    return _document(
        "RIoTBench ETL",
        {
            "source": ("source", {"source": ROWS}),
            "parse": ("senml_parse", _parsed("field")),
            "range filter": (
                "multi_range_filter",
                {
                    "ranges": {name: {"min": low, "max": high} for name, (low, high) in RANGES.items()},
                    "named_by": "field",
                    "field": "value",
                },
            ),
            "bloom filter": (
                "bloom_filter",
                {
                    "field": "source",
                    "known": list(sensors),
                    "expected": expected,
                    "nulls": "value",
                },
            ),
            "interpolate": ("interpolate", {"field": "value", "by": _BY}),
            "join": ("join_by_id", {"by": ["msg"], "expected": len(OBSERVED), "observed": list(OBSERVED)}),
            "annotate": ("annotate", {"field": "source", "fields": {"city": "string"}, "known": annotations}),
            "insert": ("table_insert", {**_TABLE, "fields": ["msg", "source", "city", *OBSERVED]}),
            "write senml": (
                "csv_to_senml",
                {
                    "time": "time",
                    "measurements": [
                        {"name": "source", "unit": "string", "type": "sv"},
                        {"name": "city", "unit": "string", "type": "sv"},
                        *({"name": name} for name in OBSERVED),
                    ],
                },
            ),
            "publish": ("mqtt_publish", {"topic": SENML}),
            "sink": ("output", {}),
        },
        "source > parse > range filter > bloom filter > interpolate > join > annotate",
        "annotate > insert > sink",
        "annotate > write senml > publish > sink",
    )


def stats(*, window: int = 20) -> Document:
    """Statistics of each sensor's measurements, each drawn as pictures of so many points."""
    pictures = {"by": ["source"], "window": window}
    return _document(
        "RIoTBench STATS",
        {
            "source": ("source", {"source": ROWS}),
            "parse": ("senml_parse", _parsed("field")),
            "average": ("block_window_average", {"field": "value", "by": _BY, "window": 5}),
            "kalman": ("kalman_filter", {"field": "value", "by": _BY}),
            "regression": ("sliding_linear_regression", {"field": "value", "by": _BY}),
            "distinct": ("distinct_approx_count", {"field": "value", "by": _BY, "buckets": 32}),
            "plot averages": ("multi_line_plot", {"field": "value", **pictures}),
            "plot predictions": ("multi_line_plot", {"field": "predicted", **pictures}),
            "plot counts": ("multi_line_plot", {"field": "distinct", **pictures}),
            "upload": ("blob_upload", {"to": {"place": "riotbench/plots"}, "field": "svg", "suffix": ".svg"}),
            "sink": ("output", {}),
        },
        "source > parse > average > plot averages > upload > sink",
        "parse > kalman > regression > plot predictions > upload",
        "parse > distinct > plot counts > upload",
    )


def train(*, window: int = 300) -> Document:
    """Models, learned from every so many rows that ETL has written; a query says which."""
    return _document(
        "RIoTBench TRAIN",
        {
            "source": ("source", {"source": QUERIES}),
            "query": (
                "table_range_query",
                {
                    **_TABLE,
                    "column": "msg",
                    "low": "from",
                    "high": "to",
                    "columns": dict.fromkeys(OBSERVED, "float"),
                },
            ),
            "learn line": (
                "linear_regression_train",
                {"fields": _FEATURES, "target": _TARGET, "window": window},
            ),
            "annotate class": ("annotate_class", {"field": _TARGET, "window": window}),
            "learn tree": ("decision_tree_train", {"fields": _FEATURES, "window": window}),
            "upload": ("blob_upload", {"to": {"place": "riotbench/models"}, "field": "model", "suffix": ".json"}),
            "publish": ("mqtt_publish", {"topic": MODELS}),
            "sink": ("output", {}),
        },
        "source > query > learn line > upload",
        "query > annotate class > learn tree > upload",
        "upload > publish > sink",
    )


def pred() -> Document:
    """For each row its class by the latest tree, and how wrong the latest regression is; each is published by itself.

    Both models come by one stream, as in the benchmark; each task takes its own kind and passes over the other.
    """
    topic = {"topic": PREDICTIONS}
    return _document(
        "RIoTBench PRED",
        {
            "source": ("source", {"source": ROWS}),
            "parse": ("senml_parse", _parsed("row")),
            "models": ("source", {"source": MODELS}),
            "download": ("blob_download", {"of": {"place": "riotbench/models"}}),
            "classify": ("decision_tree_classify", {"fields": _FEATURES, "model": "content"}),
            "predict": ("linear_regression_predict", {"fields": _FEATURES, "model": "content"}),
            "average": ("block_window_average", {"field": _TARGET, "by": ["source"], "window": 5}),
            "error": ("error_estimate", {"observed": _TARGET, "average": _TARGET, "by": ["source"]}),
            "publish class": ("mqtt_publish", topic),
            "publish error": ("mqtt_publish", topic),
            "sink": ("output", {}),
        },
        "source > parse > classify > publish class > sink",
        "parse > predict > error > publish error > sink",
        "parse > average > error:average",
        "models > download > classify:model",
        "download > predict:model",
    )


def row(time: int, source: str, values: Mapping[str, float]) -> str:
    """A row as the benchmark has it: all values are texts."""
    entries = [{"u": "string", "n": "source", "sv": source}]
    entries += [{"u": "", "n": name, "v": repr(value)} for name, value in values.items()]
    return f"{time}," + json.dumps({"e": entries, "bt": time}, separators=(",", ":"))


def _parsed(per: str) -> dict[str, Any]:
    return {"field": "row", "per": per, "observed": list(OBSERVED), "also": {"source": "string"}, "keep": ["msg"]}


def _document(name: str, tasks: Mapping[str, tuple[str, dict[str, Any]]], *chains: str) -> Document:
    """A document of tasks and chains of them; an input port that is not the only one follows a colon."""
    streams = []
    for chain in chains:
        ids = chain.split(" > ")
        for origin, to in pairwise(ids):
            task, _, port = to.partition(":")
            inputs = {"error": "in", "classify": "in", "predict": "in"}
            named = {"to_port": port or inputs[task]} if port or task in inputs else {}
            parted = {"from_port": "out"} if tasks[origin][0] == "join_by_id" else {}
            streams.append({"from": origin, **parted, "to": task, **named})
    return {
        "version": 1,
        "name": name,
        "tasks": [{"id": id_, "type": type_, "config": config} for id_, (type_, config) in tasks.items()],
        "streams": streams,
    }
