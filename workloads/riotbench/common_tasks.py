"""Tasks that RIoTBench's applications have in common, configured for a data set.

The same task for the same data set has the same config everywhere, so that dataflows can share it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from workloads.riotbench.datasets import DataSet

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
