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
from typing import Any, Literal, TypeAlias

from dags import Kind, Schema
from workloads.riotbench.datasets import DataSet

Document: TypeAlias = dict[str, Any]
TypeAndConfig: TypeAlias = tuple[str, Mapping[str, Any]]
"""A task's type and config."""
_SEVERAL_IN = frozenset({"decision_tree_classify", "error_estimate", "linear_regression_predict"})
_SEVERAL_OUT = frozenset({"join_by_id", "tumbling_window"})


def document(name: str, tasks: Mapping[str, TypeAndConfig], *chains: str | Iterable[str]) -> Document:
    """A document of chains of tasks, such as `a > b > c`; an input port other than `in` follows a colon.

    >>> chain = "s > f", "m > f:average"
    >>> found = document("d", {"s": ("source", {}), "m": ("source", {}), "f": ("error_estimate", {})}, *chain)
    >>> found["streams"][1]
    {'from': 'm', 'to': 'f', 'to_port': 'average'}
    """
    streams: list[dict[str, str]] = []
    named = set[str]()
    for chain in chains:
        for origin, end in pairwise(chain.split(" > ") if isinstance(chain, str) else chain):
            to, _, port = end.partition(":")
            stream = {"from": origin.partition(":")[0], "to": to}
            if tasks[stream["from"]][0] in _SEVERAL_OUT:
                stream["from_port"] = "out"
            if tasks[to][0] in _SEVERAL_IN:
                stream["to_port"] = port or "in"
            named |= {stream["from"], to}
            if stream not in streams:
                streams.append(stream)
    return {
        "version": 1,
        "name": name,
        "tasks": [
            {"id": id_, "type": type_, "config": config} for id_, (type_, config) in tasks.items() if id_ in named
        ],
        "streams": streams,
    }


EXPECTED = 10_000
"""Default number of values that a Bloom filter is made for.

The benchmark has 20,000,000, which takes 24 MB in every worker that runs a copy; this many take 12 kB."""
VALUE, FIELD = "value", "field"
"""The fields of an event with one measurement."""
SINK: TypeAndConfig = ("output", {})


def _tasks(  # noqa: PLR0913 - what tests set, and what two applications differ in
    data: DataSet,
    *,
    known: Sequence[str] | None = None,
    expected: int = EXPECTED,
    plotted: int | None = None,
    learned: int | None = None,
    model: str = "content",
) -> dict[str, TypeAndConfig]:
    """The tasks of all applications, in the order in which their documents have them.

    `plotted` are the points of a picture, `learned` the rows of a model, and `model` is its field in events.
    """
    known = data.known if known is None else known
    learned = learned or data.learned
    key, keys, by = data.key, [data.key], [data.key, FIELD]
    observed, features = list(data.observed), list(data.features)
    units = {field.name: field.unit for field in data.fields}
    texts = [{"name": name, "unit": "string", "type": "sv"} for name in (key, data.annotation)]
    numbers = [{"name": name, "unit": units[name]} for name in observed]
    annotations = {sensor: {data.annotation: f"{data.annotation} of {sensor}"} for sensor in known}
    ranges = {name: {"min": low, "max": high} for name, (low, high) in data.ranges.items()}
    statistics: TypeAndConfig = ("mqtt_publish", {"topic": data.source("statistics")})
    predictions: TypeAndConfig = ("mqtt_publish", {"topic": data.source("predictions")})
    return {
        "source": ("source", {"source": data.source("rows")}),
        "parse": _parse(data, "field"),
        "models": ("source", {"source": data.source("models")}),
        "download": ("blob_download", {"of": _folder(data, "models")}),
        "classify": ("decision_tree_classify", {"fields": features, "model": model}),
        "predict": ("linear_regression_predict", {"fields": features, "model": model}),
        # Measurements out of range or of unknown sensors become null, and null becomes the mean of the last values.
        "range filter": ("multi_range_filter", {"ranges": ranges, "named_by": FIELD, "field": VALUE}),
        "bloom filter": ("bloom_filter", {"field": key, "known": list(known), "expected": expected, "nulls": VALUE}),
        "interpolate": ("interpolate", {"field": VALUE, "by": by}),
        "join": ("join_by_id", {"by": ["msg"], "expected": len(observed), "observed": observed}),
        "annotate": ("annotate", {"field": key, "fields": {data.annotation: "string"}, "known": annotations}),
        "insert": (
            "table_insert",
            {**_table(data, "readings"), "fields": ["msg", key, data.annotation, *observed]},
        ),
        "write senml": ("csv_to_senml", {"time": "time", "measurements": [*texts, *numbers]}),
        "window": ("tumbling_window", {"time": "time", "field": "msg", "size_ms": data.learned * data.step}),
        "query": _query(data, "readings", "from", "to"),
        "average": ("block_window_average", {"field": VALUE, "by": by, "window": data.average}),
        "kalman": ("kalman_filter", {"field": VALUE, "by": by}),
        "regression": ("sliding_linear_regression", {"field": VALUE, "by": by, "predict": data.predicted}),
        "moment": ("second_order_moment", {"field": VALUE, "by": by}),
        "distinct": ("distinct_approx_count", {"field": VALUE, "by": by, "buckets": data.buckets}),
        "error": ("error_estimate", {"observed": data.target, "average": data.target, "by": keys}),
        "learn line": ("linear_regression_train", {"fields": features, "target": data.target, "window": learned}),
        "annotate class": ("annotate_class", {"field": data.target, "window": learned}),
        "learn tree": ("decision_tree_train", {"fields": features, "window": learned}),
        "plot averages": _plot(data, VALUE, plotted),
        "plot predictions": _plot(data, "predicted", plotted),
        "plot counts": _plot(data, "distinct", plotted),
        "upload": ("blob_upload", {"to": _folder(data, "models"), "field": "model", "suffix": ".json"}),
        "publish": ("mqtt_publish", {"topic": data.source("models")}),
        "publish predictions": statistics,
        "publish moments": statistics,
        "publish counts": statistics,
        "publish class": predictions,
        "publish error": predictions,
        "sink": SINK,
        "classes": SINK,
        "errors": SINK,
    }


def _parse(data: DataSet, per: str) -> TypeAndConfig:
    """Parse a row, as an event for each measurement or as one event."""
    config = {
        "field": "row",
        "per": per,
        "observed": list(data.observed),
        "also": {data.key: "string"},
        "keep": ["msg"],
    }
    return "senml_parse", config


def _plot(data: DataSet, field: str, window: int | None = None) -> TypeAndConfig:
    """A picture of `window` values of a sensor, with a line for each measurement.

    By default each measurement has the benchmark's number of points. Averages are rarer: all measurements together have
    so many of them.
    """
    points = data.collected if field == VALUE else data.collected * len(data.observed)
    return "multi_line_plot", {"field": field, "by": [data.key], "window": window or points}


def _table(data: DataSet, name: str) -> dict[str, Any]:
    return {"database": {"place": f"riotbench/{data.name}"}, "table": name}


def _query(data: DataSet, table: str, low: str, high: str) -> TypeAndConfig:
    columns = dict.fromkeys((*data.features, data.target), "float")
    return "table_range_query", {**_table(data, table), "column": "msg", "low": low, "high": high, "columns": columns}


def _folder(data: DataSet, name: str) -> dict[str, str]:
    return {"place": f"riotbench/{data.name}-{name}"}


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
    return document(
        f"RIoTBench ETL {data.name}",
        {**_tasks(data, known=known, expected=expected), "publish": ("mqtt_publish", {"topic": data.source("senml")})},
        "source > parse > range filter > bloom filter > interpolate > join > annotate",
        "annotate > insert > sink",
        "annotate > write senml > publish > sink",
    )


def stats(data: DataSet, *, window: int | None = None) -> Document:
    """STATS: statistics of each sensor's measurements, drawn as pictures with `window` points."""
    upload = {"to": _folder(data, "plots"), "field": "svg", "suffix": ".svg"}
    return document(
        f"RIoTBench STATS {data.name}",
        {**_tasks(data, plotted=window), "upload": ("blob_upload", upload)},
        "source > parse > average > plot averages > upload > sink",
        "parse > kalman > regression > plot predictions > upload",
        "parse > distinct > plot counts > upload",
    )


def stats_first(data: DataSet) -> Document:
    """STATS v1: statistics of the measurements of known sensors, each published separately."""
    return document(
        f"RIoTBench STATS v1 {data.name}",
        _tasks(data),
        "source > parse > bloom filter > kalman > regression > publish predictions > sink",
        "bloom filter > moment > publish moments > sink",
        "bloom filter > distinct > publish counts > sink",
    )


_LEARNING = (
    "query > learn line > upload",
    "query > annotate class > learn tree > upload",
    "upload > publish > sink",
)


def train(data: DataSet, *, window: int | None = None) -> Document:
    """TRAIN: learn models from rows that ETL has written; a query selects the rows."""
    queries = ("source", {"source": data.source("queries")})
    tasks = {**_tasks(data, learned=window), "source": queries}
    return document(f"RIoTBench TRAIN {data.name}", tasks, "source > query", *_LEARNING)


def train_alone(data: DataSet) -> Document:
    """TRAIN with a table of its own: it writes the rows itself, and queries those of each time span after its end.

    So it needs no ETL, and a window instead of a timer. Rows with earlier times, as when a file is replayed again, are
    too late for their window.
    """
    tasks = {
        **_tasks(data),
        "parse": _parse(data, "row"),
        "insert": ("table_insert", {**_table(data, "learning"), "fields": ["msg", *data.features, data.target]}),
        "query": _query(data, "learning", "min", "max"),
    }
    return document(f"RIoTBench TRAIN {data.name}", tasks, "source > parse > insert > window > query", *_LEARNING)


def pred(data: DataSet) -> Document:
    """PRED: publish each row's class by the latest tree, and the error of the latest regression.

    Both models arrive in one stream, as in the benchmark; each task uses its own kind and ignores the other.
    """
    return document(
        f"RIoTBench PRED {data.name}",
        {**_tasks(data), **_of_rows(data)},
        "source > parse > classify > publish class > sink",
        "parse > predict > error > publish error > sink",
        "parse > average > error:average",
        "models > download > classify:model",
        "download > predict:model",
    )


def predicted_rows(data: DataSet) -> Document:
    """PRED with models that arrive as events, and with outputs for its tenant."""
    return document(
        f"RIoTBench PRED by models {data.name}",
        {
            **_tasks(data, model="model"),
            **_of_rows(data),
            "models": ("source", {"source": data.source("learned")}),
        },
        "source > parse > classify > classes",
        "parse > predict > error > errors",
        "parse > average > error:average",
        "models > classify:model",
        "models > predict:model",
    )


def _of_rows(data: DataSet) -> dict[str, TypeAndConfig]:
    """The tasks of PRED that work on a row as one event."""
    mean = {"field": data.target, "by": [data.key], "window": data.average}
    return {"parse": _parse(data, "row"), "average": ("block_window_average", mean)}


_SIZES = range(9, 13)
"""Possible numbers of tasks: about as many as in an application."""
HEADS: Mapping[str, tuple[str, ...]] = {
    "raw": ("source", "parse"),
    "clean": ("source", "parse", "range filter", "bloom filter", "interpolate"),
}
"""The tasks before the statistics: those of STATS, and those of ETL."""
STATISTICS: Mapping[str, tuple[str, ...]] = {
    VALUE: ("average",),
    "predicted": ("kalman", "regression"),
    "second_order_moment": ("moment",),
    "distinct": ("distinct",),
}
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
    permutations = (
        Permutation(head, chosen, end)
        for head in HEADS
        for many in range(2, len(STATISTICS) + 1)
        for chosen in combinations(STATISTICS, many)
        for end in ends
    )
    return tuple(permutation for permutation in permutations if len(tuple(permutation.tasks())) in _SIZES)


def drawn(many: int, random: Random) -> tuple[Permutation, ...]:
    """Draw permutations; each differs from an earlier one by one choice, like dataflows that grow from one another."""
    pool = every()
    chosen = [random.choice(pool)]
    while len(chosen) < many:
        base = random.choice(chosen)
        near = [
            permutation for permutation in pool if permutation not in chosen and _choices_apart(permutation, base) == 1
        ]
        chosen += random.sample(near, 1) if near else []
    return tuple(chosen)


def _choices_apart(one: Permutation, other: Permutation) -> int:
    """The number of choices in which two permutations differ."""
    added_or_left_out = set(one.statistics) ^ set(other.statistics)
    return (one.head != other.head) + (one.end != other.end) + len(added_or_left_out)


def permuted(data: DataSet, permutation: Permutation) -> Document:
    """The document of a permutation."""
    made = {
        **_tasks(data),
        **{f"output {statistic}": SINK for statistic in STATISTICS},
        **{f"plot {statistic}": _plot(data, statistic) for statistic in STATISTICS},
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
