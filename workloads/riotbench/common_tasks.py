"""Tasks that RIoTBench's applications have in common, configured for a data set.

The same piece for the same data set has the same config wherever it stands, so that dataflows share what they have in
common.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from workloads.riotbench.datasets import DataSet

Piece: TypeAlias = tuple[str, Mapping[str, Any]]
"""A task's type and config."""
EXPECTED = 10_000
"""For how many values a Bloom filter is made where nobody says otherwise.

The benchmark has 20,000,000, which takes 24 MB in every worker that runs a copy; this many take 12 kB."""
VALUE, FIELD = "value", "field"
"""What an event of one measurement has."""


def source(data: DataSet, of: str = "rows") -> Piece:
    """Events of one of the set's sources."""
    return "source", {"source": data.source(of)}


def parse(data: DataSet, per: str) -> Piece:
    """What a row tells, as an event of each measurement or as one of the row."""
    config = {
        "field": "row",
        "per": per,
        "observed": list(data.observed),
        "also": {data.key: "string"},
        "keep": ["msg"],
    }
    return "senml_parse", config


def range_filter(data: DataSet) -> Piece:
    """Measurements out of range become null."""
    ranges = {name: {"min": low, "max": high} for name, (low, high) in data.ranges.items()}
    return "multi_range_filter", {"ranges": ranges, "named_by": FIELD, "field": VALUE}


def bloom_filter(data: DataSet, known: Sequence[str], expected: int) -> Piece:
    """Measurements of strangers become null."""
    return "bloom_filter", {"field": data.key, "known": list(known), "expected": expected, "nulls": VALUE}


def interpolate(data: DataSet) -> Piece:
    """What is null becomes the mean of the last values."""
    return "interpolate", {"field": VALUE, "by": by(data)}


def join(data: DataSet) -> Piece:
    """Measurements of one row become one event again."""
    observed = list(data.observed)
    return "join_by_id", {"by": ["msg"], "expected": len(observed), "observed": observed}


def annotate(data: DataSet, known: Sequence[str]) -> Piece:
    """What is known of a sensor beside; strangers are dropped."""
    told = {sensor: {data.annotation: f"{data.annotation} of {sensor}"} for sensor in known}
    return "annotate", {"field": data.key, "fields": {data.annotation: "string"}, "known": told}


def write_senml(data: DataSet) -> Piece:
    """A row of what has been cleaned and annotated."""
    texts = [{"name": name, "unit": "string", "type": "sv"} for name in (data.key, data.annotation)]
    units = {field.name: field.unit for field in data.fields}
    numbers = [{"name": name, "unit": units[name]} for name in data.observed]
    return "csv_to_senml", {"time": "time", "measurements": [*texts, *numbers]}


def average(data: DataSet, field: str, keys: Sequence[str], window: int | None = None) -> Piece:
    """The mean of each block of values."""
    return "block_window_average", {"field": field, "by": list(keys), "window": window or data.average}


def kalman(data: DataSet) -> Piece:
    """Smoothed measurements."""
    return "kalman_filter", {"field": VALUE, "by": by(data)}


def regression(data: DataSet) -> Piece:
    """The next values of each measurement."""
    return "sliding_linear_regression", {"field": VALUE, "by": by(data), "predict": data.predicted}


def moment(data: DataSet) -> Piece:
    """How much the values of a measurement repeat."""
    return "second_order_moment", {"field": VALUE, "by": by(data)}


def distinct(data: DataSet) -> Piece:
    """How many values a measurement has had."""
    return "distinct_approx_count", {"field": VALUE, "by": by(data), "buckets": data.buckets}


def collect(data: DataSet) -> Piece:
    """So many values of a measurement in one event."""
    return "accumulate", {"fields": [VALUE], "by": by(data), "window": data.collected}


def plot(data: DataSet, field: str, window: int | None = None) -> Piece:
    """A picture of so many values of a sensor, with a line for each measurement.

    Without a window each measurement has as many points as the benchmark collects; of averages, which are rarer, all
    measurements together have so many.
    """
    points = data.collected if field == VALUE else data.collected * len(data.observed)
    return "multi_line_plot", {"field": field, "by": [data.key], "window": window or points}


def table(data: DataSet, name: str) -> dict[str, Any]:
    """Where rows are written to and read from."""
    return {"database": {"place": f"riotbench/{data.name}"}, "table": name}


def folder(data: DataSet, name: str) -> dict[str, str]:
    """Where files are written to and read from."""
    return {"place": f"riotbench/{data.name}-{name}"}


def upload(data: DataSet, name: str, field: str, suffix: str) -> Piece:
    """A file of each event."""
    return "blob_upload", {"to": folder(data, name), "field": field, "suffix": suffix}


def publish(data: DataSet, of: str) -> Piece:
    """A message of each event, on the topic of one of the set's sources."""
    return "mqtt_publish", {"topic": data.source(of)}


def by(data: DataSet) -> list[str]:
    """What state is kept by: each measurement of each sensor."""
    return [data.key, FIELD]


SINK: Piece = ("output", {})
