"""RIoTBench's applications as documents, for each data set: ETL, STATS in two versions, TRAIN and PRED.

Each has the tasks and streams of the benchmark, with one difference: a task of the benchmark that takes results with
different fields is one task for each of them here, because events of several streams at one port keep only their common
fields. So STATS has a plot for each statistic, and PRED has one task that publishes classes and another for errors. A
row is an event with a text field `row`, such as

    1422748800000,{"e":[{"u":"string","n":"source","sv":"a1"},{"u":"","n":"dust","v":"20.5"}],"bt":1422748800000}

and a number `msg` of its own. TRAIN queries the table into which ETL inserts, and PRED uses the models that TRAIN
publishes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dags import Kind, Schema
from workloads.riotbench import common_tasks
from workloads.riotbench.common_tasks import EXPECTED, SINK, VALUE, TypeAndConfig
from workloads.riotbench.datasets import DataSet
from workloads.riotbench.document_builder import Document, document

SCHEMAS: Mapping[str, Schema] = {
    "rows": Schema.of(row=Kind.STRING, msg=Kind.INTEGER),
    "queries": Schema.of({"from": Kind.INTEGER, "to": Kind.INTEGER}),
    "models": Schema.of(receipt=Kind.STRING),
    "learned": Schema.of(model=Kind.STRING),
    "senml": Schema.of(senml=Kind.STRING),
    "statistics": Schema.of(msg=Kind.INTEGER, field=Kind.STRING),
    "predictions": Schema.of(msg=Kind.INTEGER),
}
"""The schemas of a set's sources.

They are rows of measurements, ranges of rows to learn from, receipts of models written by TRAIN, models themselves, and
the messages of ETL, STATS and PRED.
"""


def etl(data: DataSet, *, known: Sequence[str] | None = None, expected: int = EXPECTED) -> Document:
    """ETL: clean and complete the rows of known sensors, and write them to a table and a topic."""
    known = data.known if known is None else known
    return document(
        f"RIoTBench ETL {data.name}",
        {
            "source": common_tasks.source(data),
            "parse": common_tasks.parse(data, "field"),
            "range filter": common_tasks.range_filter(data),
            "bloom filter": common_tasks.bloom_filter(data, known, expected),
            "interpolate": common_tasks.interpolate(data),
            "join": common_tasks.join(data),
            "annotate": common_tasks.annotate(data, known),
            "insert": (
                "table_insert",
                {
                    **common_tasks.table(data, "readings"),
                    "fields": ["msg", data.key, data.annotation, *data.observed],
                },
            ),
            "write senml": common_tasks.write_senml(data),
            "publish": common_tasks.publish(data, "senml"),
            "sink": SINK,
        },
        "source > parse > range filter > bloom filter > interpolate > join > annotate",
        "annotate > insert > sink",
        "annotate > write senml > publish > sink",
    )


def stats(data: DataSet, *, window: int | None = None) -> Document:
    """STATS: statistics of each sensor's measurements, drawn as pictures with `window` points."""
    return document(
        f"RIoTBench STATS {data.name}",
        {
            "source": common_tasks.source(data),
            "parse": common_tasks.parse(data, "field"),
            "average": common_tasks.average(data, VALUE, common_tasks.by(data)),
            "kalman": common_tasks.kalman(data),
            "regression": common_tasks.regression(data),
            "distinct": common_tasks.distinct(data),
            "plot averages": common_tasks.plot(data, VALUE, window),
            "plot predictions": common_tasks.plot(data, "predicted", window),
            "plot counts": common_tasks.plot(data, "distinct", window),
            "upload": common_tasks.upload(data, "plots", "svg", ".svg"),
            "sink": SINK,
        },
        "source > parse > average > plot averages > upload > sink",
        "parse > kalman > regression > plot predictions > upload",
        "parse > distinct > plot counts > upload",
    )


def stats_first(data: DataSet) -> Document:
    """STATS v1: statistics of the measurements of known sensors, each published separately."""
    return document(
        f"RIoTBench STATS v1 {data.name}",
        {
            "source": common_tasks.source(data),
            "parse": common_tasks.parse(data, "field"),
            "bloom filter": common_tasks.bloom_filter(data, data.known, EXPECTED),
            "kalman": common_tasks.kalman(data),
            "regression": common_tasks.regression(data),
            "moment": common_tasks.moment(data),
            "distinct": common_tasks.distinct(data),
            "publish predictions": common_tasks.publish(data, "statistics"),
            "publish moments": common_tasks.publish(data, "statistics"),
            "publish counts": common_tasks.publish(data, "statistics"),
            "sink": SINK,
        },
        "source > parse > bloom filter > kalman > regression > publish predictions > sink",
        "bloom filter > moment > publish moments > sink",
        "bloom filter > distinct > publish counts > sink",
    )


def train(data: DataSet, *, window: int | None = None) -> Document:
    """TRAIN: learn models from rows that ETL has written; a query selects the rows."""
    query = {
        **common_tasks.table(data, "readings"),
        "column": "msg",
        "low": "from",
        "high": "to",
        "columns": dict.fromkeys(_learned(data), "float"),
    }
    return document(
        f"RIoTBench TRAIN {data.name}",
        {
            "source": common_tasks.source(data, "queries"),
            "query": ("table_range_query", query),
            **_learning(data, window or data.learned),
        },
        "source > query > learn line > upload",
        "query > annotate class > learn tree > upload",
        "upload > publish > sink",
    )


def train_alone(data: DataSet) -> Document:
    """TRAIN with a table of its own: it writes the rows itself, and queries those of each time span after its end.

    So it needs no ETL, and a window instead of a timer. Rows with earlier times, as when a file is replayed again, are
    too late for their window.
    """
    kept = common_tasks.table(data, "learning")
    query = {
        **kept,
        "column": "msg",
        "low": "min",
        "high": "max",
        "columns": dict.fromkeys(_learned(data), "float"),
    }
    window = {"time": "time", "field": "msg", "size_ms": data.learned * data.step}
    return document(
        f"RIoTBench TRAIN {data.name}",
        {
            "source": common_tasks.source(data),
            "parse": common_tasks.parse(data, "row"),
            "insert": ("table_insert", {**kept, "fields": ["msg", *_learned(data)]}),
            "window": ("tumbling_window", window),
            "query": ("table_range_query", query),
            **_learning(data, data.learned),
        },
        "source > parse > insert > window > query > learn line > upload",
        "query > annotate class > learn tree > upload",
        "upload > publish > sink",
    )


def pred(data: DataSet) -> Document:
    """PRED: publish each row's class by the latest tree, and the error of the latest regression.

    Both models arrive in one stream, as in the benchmark; each task uses its own kind and ignores the other.
    """
    return document(
        f"RIoTBench PRED {data.name}",
        {
            "source": common_tasks.source(data),
            "parse": common_tasks.parse(data, "row"),
            "models": common_tasks.source(data, "models"),
            "download": ("blob_download", {"of": common_tasks.folder(data, "models")}),
            **prediction_tasks(data, "content"),
            "publish class": common_tasks.publish(data, "predictions"),
            "publish error": common_tasks.publish(data, "predictions"),
            "sink": SINK,
        },
        "source > parse > classify > publish class > sink",
        "parse > predict > error > publish error > sink",
        "parse > average > error:average",
        "models > download > classify:model",
        "download > predict:model",
    )


def prediction_tasks(data: DataSet, model: str) -> dict[str, TypeAndConfig]:
    """PRED's tasks that classify and predict; `model` is the field with the model."""
    fields = list(data.features)
    return {
        "classify": ("decision_tree_classify", {"fields": fields, "model": model}),
        "predict": ("linear_regression_predict", {"fields": fields, "model": model}),
        "average": common_tasks.average(data, data.target, [data.key]),
        "error": ("error_estimate", {"observed": data.target, "average": data.target, "by": [data.key]}),
    }


def _learned(data: DataSet) -> tuple[str, ...]:
    return (*data.features, data.target)


def _learning(data: DataSet, window: int) -> dict[str, tuple[str, dict[str, Any]]]:
    fields = list(data.features)
    return {
        "learn line": ("linear_regression_train", {"fields": fields, "target": data.target, "window": window}),
        "annotate class": ("annotate_class", {"field": data.target, "window": window}),
        "learn tree": ("decision_tree_train", {"fields": fields, "window": window}),
        "upload": (
            "blob_upload",
            {"to": common_tasks.folder(data, "models"), "field": "model", "suffix": ".json"},
        ),
        "publish": ("mqtt_publish", {"topic": data.source("models")}),
        "sink": ("output", {}),
    }
