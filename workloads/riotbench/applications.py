"""RIoTBench's applications as documents, for each data set: ETL, STATS in two versions, TRAIN and PRED.

Each has the tasks and streams of the benchmark, with one difference: a task of the benchmark that takes results with
different fields is one task for each of them here, because events of several streams at one port keep only their common
fields. So STATS has a plot for each statistic, and PRED has one task that publishes classes and another for errors. A
row is an event with a text field `row`, such as

    1422748800000,{"e":[{"u":"string","n":"source","sv":"a1"},{"u":"","n":"dust","v":"20.5"}],"bt":1422748800000}

and a number `msg` of its own. TRAIN queries the table into which ETL inserts, and PRED uses the models that TRAIN
publishes. The same task for the same data set has the same config everywhere, so that dataflows can share it.

Permutations are other dataflows with real logic over the same streams. Each begins with raw measurements like STATS, or
with clean ones like ETL, and continues with some of the statistics, each as a plot or as plain output. Nothing is
written to the outside, so everything can be shared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from random import Random
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from dags import Kind, Schema
from workloads.riotbench.datasets import DataSet

Document: TypeAlias = dict[str, Any]
Tasks: TypeAlias = Mapping[str, tuple[str, Mapping[str, Any]]]
"""The type and the config of each task."""
_SEVERAL_IN = frozenset({"decision_tree_classify", "error_estimate", "linear_regression_predict"})
_SEVERAL_OUT = frozenset({"join_by_id", "tumbling_window"})


def document(name: str, tasks: Tasks, *chains: str | Iterable[str]) -> Document:
    """A document of tasks and chains of them, such as `a > b > c`; an input port other than `in` follows a colon.

    >>> chain = "s > f", "m > f:average"
    >>> found = document("d", {"s": ("source", {}), "m": ("source", {}), "f": ("error_estimate", {})}, *chain)
    >>> found["streams"][1]
    {'from': 'm', 'to': 'f', 'to_port': 'average'}
    """
    streams: list[dict[str, str]] = []
    for chain in chains:
        for origin, end in pairwise(chain.split(" > ") if isinstance(chain, str) else chain):
            to, _, port = end.partition(":")
            stream = {"from": origin.partition(":")[0], "to": to}
            if tasks[stream["from"]][0] in _SEVERAL_OUT:
                stream["from_port"] = "out"
            if tasks[to][0] in _SEVERAL_IN:
                stream["to_port"] = port or "in"
            if stream not in streams:
                streams.append(stream)
    return {
        "version": 1,
        "name": name,
        "tasks": [{"id": id_, "type": type_, "config": config} for id_, (type_, config) in tasks.items()],
        "streams": streams,
    }


TypeAndConfig: TypeAlias = tuple[str, Mapping[str, Any]]
"""A task's type and config."""
EXPECTED = 10_000
"""Default number of values that a Bloom filter is made for.

The benchmark has 20,000,000, which takes 24 MB in every worker that runs a copy; this many take 12 kB."""
VALUE, FIELD = "value", "field"
"""The fields of an event with one measurement."""


def source(data: DataSet, of: str = "rows") -> TypeAndConfig:
    """Events of one of the set's sources."""
    return "source", {"source": data.source(of)}


def parse(data: DataSet, per: str) -> TypeAndConfig:
    """Parse a row, as an event for each measurement or as one event."""
    config = {
        "field": "row",
        "per": per,
        "observed": list(data.observed),
        "also": {data.key: "string"},
        "keep": ["msg"],
    }
    return "senml_parse", config


def range_filter(data: DataSet) -> TypeAndConfig:
    """Set measurements out of range to null."""
    ranges = {name: {"min": low, "max": high} for name, (low, high) in data.ranges.items()}
    return "multi_range_filter", {"ranges": ranges, "named_by": FIELD, "field": VALUE}


def bloom_filter(data: DataSet, known: Sequence[str], expected: int) -> TypeAndConfig:
    """Set measurements of unknown sensors to null."""
    return "bloom_filter", {"field": data.key, "known": list(known), "expected": expected, "nulls": VALUE}


def interpolate(data: DataSet) -> TypeAndConfig:
    """Replace null by the mean of the last values."""
    return "interpolate", {"field": VALUE, "by": by(data)}


def join(data: DataSet) -> TypeAndConfig:
    """Join the measurements of one row into one event again."""
    observed = list(data.observed)
    return "join_by_id", {"by": ["msg"], "expected": len(observed), "observed": observed}


def annotate(data: DataSet, known: Sequence[str]) -> TypeAndConfig:
    """Add the annotation of the sensor; drop unknown sensors."""
    annotations = {sensor: {data.annotation: f"{data.annotation} of {sensor}"} for sensor in known}
    return "annotate", {"field": data.key, "fields": {data.annotation: "string"}, "known": annotations}


def write_senml(data: DataSet) -> TypeAndConfig:
    """Write the cleaned and annotated measurements as a row."""
    texts = [{"name": name, "unit": "string", "type": "sv"} for name in (data.key, data.annotation)]
    units = {field.name: field.unit for field in data.fields}
    numbers = [{"name": name, "unit": units[name]} for name in data.observed]
    return "csv_to_senml", {"time": "time", "measurements": [*texts, *numbers]}


def average(data: DataSet, field: str, keys: Sequence[str]) -> TypeAndConfig:
    """The mean of each block of values."""
    return "block_window_average", {"field": field, "by": list(keys), "window": data.average}


def kalman(data: DataSet) -> TypeAndConfig:
    """Smoothed measurements."""
    return "kalman_filter", {"field": VALUE, "by": by(data)}


def regression(data: DataSet) -> TypeAndConfig:
    """The next values of each measurement."""
    return "sliding_linear_regression", {"field": VALUE, "by": by(data), "predict": data.predicted}


def moment(data: DataSet) -> TypeAndConfig:
    """The second-order moment of a measurement, a degree of repetition."""
    return "second_order_moment", {"field": VALUE, "by": by(data)}


def distinct(data: DataSet) -> TypeAndConfig:
    """The approximate number of distinct values of a measurement."""
    return "distinct_approx_count", {"field": VALUE, "by": by(data), "buckets": data.buckets}


def plot(data: DataSet, field: str, window: int | None = None) -> TypeAndConfig:
    """A picture of `window` values of a sensor, with a line for each measurement.

    By default each measurement has the benchmark's number of points. Averages are rarer: all measurements together have
    so many of them.
    """
    points = data.collected if field == VALUE else data.collected * len(data.observed)
    return "multi_line_plot", {"field": field, "by": [data.key], "window": window or points}


def table(data: DataSet, name: str) -> dict[str, Any]:
    """The table that rows are written to and read from."""
    return {"database": {"place": f"riotbench/{data.name}"}, "table": name}


def folder(data: DataSet, name: str) -> dict[str, str]:
    """The place that files are written to and read from."""
    return {"place": f"riotbench/{data.name}-{name}"}


def upload(data: DataSet, name: str, field: str, suffix: str) -> TypeAndConfig:
    """Write each event to a file."""
    return "blob_upload", {"to": folder(data, name), "field": field, "suffix": suffix}


def publish(data: DataSet, of: str) -> TypeAndConfig:
    """Publish each event on the topic of one of the set's sources."""
    return "mqtt_publish", {"topic": data.source(of)}


def by(data: DataSet) -> list[str]:
    """The keys of a task's state: each measurement of each sensor."""
    return [data.key, FIELD]


SINK: TypeAndConfig = ("output", {})


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
            "source": source(data),
            "parse": parse(data, "field"),
            "range filter": range_filter(data),
            "bloom filter": bloom_filter(data, known, expected),
            "interpolate": interpolate(data),
            "join": join(data),
            "annotate": annotate(data, known),
            "insert": (
                "table_insert",
                {
                    **table(data, "readings"),
                    "fields": ["msg", data.key, data.annotation, *data.observed],
                },
            ),
            "write senml": write_senml(data),
            "publish": publish(data, "senml"),
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
            "source": source(data),
            "parse": parse(data, "field"),
            "average": average(data, VALUE, by(data)),
            "kalman": kalman(data),
            "regression": regression(data),
            "distinct": distinct(data),
            "plot averages": plot(data, VALUE, window),
            "plot predictions": plot(data, "predicted", window),
            "plot counts": plot(data, "distinct", window),
            "upload": upload(data, "plots", "svg", ".svg"),
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
            "source": source(data),
            "parse": parse(data, "field"),
            "bloom filter": bloom_filter(data, data.known, EXPECTED),
            "kalman": kalman(data),
            "regression": regression(data),
            "moment": moment(data),
            "distinct": distinct(data),
            "publish predictions": publish(data, "statistics"),
            "publish moments": publish(data, "statistics"),
            "publish counts": publish(data, "statistics"),
            "sink": SINK,
        },
        "source > parse > bloom filter > kalman > regression > publish predictions > sink",
        "bloom filter > moment > publish moments > sink",
        "bloom filter > distinct > publish counts > sink",
    )


def train(data: DataSet, *, window: int | None = None) -> Document:
    """TRAIN: learn models from rows that ETL has written; a query selects the rows."""
    query = {
        **table(data, "readings"),
        "column": "msg",
        "low": "from",
        "high": "to",
        "columns": dict.fromkeys(_learned(data), "float"),
    }
    return document(
        f"RIoTBench TRAIN {data.name}",
        {
            "source": source(data, "queries"),
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
    kept = table(data, "learning")
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
            "source": source(data),
            "parse": parse(data, "row"),
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
            "source": source(data),
            "parse": parse(data, "row"),
            "models": source(data, "models"),
            "download": ("blob_download", {"of": folder(data, "models")}),
            **prediction_tasks(data, "content"),
            "publish class": publish(data, "predictions"),
            "publish error": publish(data, "predictions"),
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
        "average": average(data, data.target, [data.key]),
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
            {"to": folder(data, "models"), "field": "model", "suffix": ".json"},
        ),
        "publish": ("mqtt_publish", {"topic": data.source("models")}),
        "sink": ("output", {}),
    }


_SIZES = range(9, 13)
"""Possible numbers of tasks: about as many as in an application."""
HEADS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "raw": ("source", "parse"),
        "clean": ("source", "parse", "range filter", "bloom filter", "interpolate"),
    }
)
"""The tasks before the statistics: those of STATS, and those of ETL."""
STATISTICS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        VALUE: ("average",),
        "predicted": ("kalman", "regression"),
        "second_order_moment": ("moment",),
        "distinct": ("distinct",),
    }
)
"""The possible branches, by the field of their results."""


@dataclass(frozen=True, slots=True, order=True)
class Permutation:
    """One combination of tasks."""

    head: str
    statistics: tuple[str, ...]
    end: Literal["outputs", "plots"]

    def tasks(self) -> Iterator[str]:
        """The tasks' ids, in order."""
        yield from HEADS[self.head]
        for statistic in self.statistics:
            yield from STATISTICS[statistic]
            yield f"{self.end[:-1]} {statistic}"
        if self.end == "plots":
            yield "sink"


def every() -> tuple[Permutation, ...]:
    """All permutations of the right size."""
    ends: tuple[Literal["outputs", "plots"], ...] = ("outputs", "plots")
    found = (
        Permutation(head, chosen, end)
        for head in HEADS
        for many in range(2, len(STATISTICS) + 1)
        for chosen in combinations(STATISTICS, many)
        for end in ends
    )
    return tuple(each for each in found if len(tuple(each.tasks())) in _SIZES)


def drawn(many: int, random: Random) -> tuple[Permutation, ...]:
    """Draw permutations; each differs from an earlier one by one choice, like dataflows that grow from one another."""
    pool = every()
    found = [random.choice(pool)]
    while len(found) < many:
        base = random.choice(found)
        near = [each for each in pool if each not in found and _choices_apart(each, base) == 1]
        found += random.sample(near, 1) if near else []
    return tuple(found)


def _choices_apart(one: Permutation, other: Permutation) -> int:
    """The number of choices in which two permutations differ."""
    added_or_left_out = set(one.statistics) ^ set(other.statistics)
    return (one.head != other.head) + (one.end != other.end) + len(added_or_left_out)


def permuted(data: DataSet, permutation: Permutation) -> Document:
    """The document of a permutation."""
    made: dict[str, TypeAndConfig] = {
        "source": source(data),
        "parse": parse(data, "field"),
        "range filter": range_filter(data),
        "bloom filter": bloom_filter(data, data.known, EXPECTED),
        "interpolate": interpolate(data),
        "average": average(data, VALUE, by(data)),
        "kalman": kalman(data),
        "regression": regression(data),
        "moment": moment(data),
        "distinct": distinct(data),
        "sink": SINK,
        **{f"output {statistic}": SINK for statistic in STATISTICS},
        **{f"plot {statistic}": plot(data, statistic) for statistic in STATISTICS},
    }
    head = HEADS[permutation.head]
    chains = [head]
    for statistic in permutation.statistics:
        end = (f"plot {statistic}", "sink") if permutation.end == "plots" else (f"output {statistic}",)
        chains.append((head[-1], *STATISTICS[statistic], *end))
    return document(
        f"RIoTBench {permutation.head} {' and '.join(permutation.statistics)} as {permutation.end} {data.name}",
        {id_: made[id_] for id_ in permutation.tasks()},
        *chains,
    )


def predicted_rows(data: DataSet) -> Document:
    """PRED with models that arrive as events, and with outputs for its tenant."""
    return document(
        f"RIoTBench PRED by models {data.name}",
        {
            "source": source(data),
            "parse": parse(data, "row"),
            "models": source(data, "learned"),
            **prediction_tasks(data, "model"),
            "classes": SINK,
            "errors": SINK,
        },
        "source > parse > classify > classes",
        "parse > predict > error > errors",
        "parse > average > error:average",
        "models > classify:model",
        "models > predict:model",
    )
