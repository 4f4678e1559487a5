"""How the benchmark of the task library configures each type, over events of which fields."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from dags import Kind
from engine.code.store import digest_of

Config: TypeAlias = dict[str, Any]
OWNER = "bench"
MEASUREMENTS = ("temperature", "humidity", "light", "dust", "air")
EVENT_FIELDS: Mapping[str, Kind] = {
    **dict.fromkeys(MEASUREMENTS, Kind.FLOAT),
    "id": Kind.STRING,
    "message": Kind.INTEGER,
    "field": Kind.STRING,
    "value": Kind.FLOAT,
    "time": Kind.TIMESTAMP,
    "class": Kind.STRING,
    "prediction": Kind.FLOAT,
    "average": Kind.FLOAT,
    "low": Kind.INTEGER,
    "high": Kind.INTEGER,
    "senml": Kind.STRING,
    "csv": Kind.STRING,
    "json": Kind.STRING,
    "xml": Kind.STRING,
    "name": Kind.STRING,
    "blob": Kind.STRING,
    "model": Kind.STRING,
    "numbers": Kind.JSON,
}


def _place(name: str) -> Config:
    return {"place": name, "owner": OWNER}


FUNCTIONS = {
    "event": "def entry(event):\n    return {'felt': event['temperature'] + 0.05 * event['humidity']}\n",
    "keeping": "def entry(event, kept, config):\n"
    "    felt = event['temperature'] + 0.05 * event['humidity']\n"
    "    mean = felt if kept is None else kept + (felt - kept) / config['over']\n"
    "    return {'felt': mean}, mean\n",
    "batch": "import pyarrow as pa\nimport pyarrow.compute as pc\n\n\ndef entry(batch):\n"
    "    felt = pc.add(batch['temperature'], pc.multiply(0.05, batch['humidity']))\n"
    "    return pa.record_batch({'felt': felt})\n",
}
"""The same function of an event, of one and what is kept, and of a batch."""


def _stateful_code(*, vouched: bool) -> Config:
    needed = {"temperature": "float", "humidity": "float", "id": "string"}
    return _code("event", vouched=vouched) | {
        "digest": digest_of(FUNCTIONS["keeping"]),
        "input": {"in": needed},
        "module": "felt",
        "by": ["id"],
        "config": {"over": 10},
    }


def _code(per: str, *, vouched: bool) -> Config:
    return {
        "digest": digest_of(FUNCTIONS[per]),
        "entry": "entry",
        "per": per,
        "input": {"in": {"temperature": "float", "humidity": "float"}},
        "output": {"fields": {"felt": "float"}},
        # What an operator publishes is vouched for.
        "owner": "" if vouched else OWNER,
    }


UNNAMED_FIELDS = {"id", "value", "time"}
"""What a task takes that reads no field by name."""
KINDS = dict.fromkeys(MEASUREMENTS, "float")
BY = {"field": "value", "by": ["id", "field"]}
KNOWN = [f"sensor {at}" for at in range(0, 100, 2)]
VARIANTS = {
    **dict.fromkeys(("code, vouched", "code, per batch", "code, per batch, vouched"), "code"),
    "stateful_code, vouched": "stateful_code",
}
"""Further configs of a type, by what they are called."""
UNMEASURED = frozenset({"kafka_publish", "webhook"})
"""Types that do little but wait for others."""
CONFIGS: Mapping[str, Config] = {
    "accumulate": {"fields": ["value"], "by": ["id", "field"]},
    "annotate": {"field": "id", "fields": {"floor": "integer"}, "known": {sensor: {"floor": 1} for sensor in KNOWN}},
    "annotate_class": {"field": "value"},
    "blob_download": {"of": _place("blobs"), "field": "blob"},
    "blob_upload": {"to": _place("uploads"), "field": "json"},
    "block_window_average": BY,
    "bloom_filter": {"field": "id", "known": KNOWN},
    "bloom_filter_train": {"field": "id"},
    "code": _code("event", vouched=False),
    "code, vouched": _code("event", vouched=True),
    "code, per batch": _code("batch", vouched=False),
    "code, per batch, vouched": _code("batch", vouched=True),
    "connecting_code": _code("event", vouched=False) | {"connects": ["example.org:443"]},
    "count": {"by": ["id", "field"]},
    "csv_parse": {"field": "csv", "columns": [{"name": name, "kind": "float"} for name in MEASUREMENTS]},
    "csv_to_senml": {"time": "time", "measurements": [{"name": name} for name in MEASUREMENTS]},
    "decision_tree_classify": {"fields": list(MEASUREMENTS)},
    "decision_tree_train": {"fields": list(MEASUREMENTS)},
    "distinct_approx_count": {"field": "value", "by": ["field"]},
    "error_estimate": {"observed": "value", "average": "average"},
    "file_sink": {"to": _place("sink")},
    "interpolate": BY,
    "join_by_id": {"by": ["message"], "expected": len(MEASUREMENTS), "observed": list(MEASUREMENTS)},
    "json_parse": {"field": "json", "fields": KINDS},
    "kafka_publish": {"brokers": ["localhost:9092"], "topic": "bench", "key": "id"},
    "kalman_filter": BY,
    "line_plot": {"field": "value"},
    "linear_regression_predict": {"fields": list(MEASUREMENTS)},
    "linear_regression_train": {"fields": list(MEASUREMENTS), "target": "value"},
    "mqtt_publish": {"topic": "bench"},
    "multi_bloom_filter": {
        "filters": {"id": {"known": KNOWN}, "field": {"known": list(MEASUREMENTS), "expected": 100}}
    },
    "multi_line_plot": {"field": "value"},
    "multi_range_filter": {"ranges": {name: {"min": 10, "max": 30} for name in MEASUREMENTS}},
    "project": {"fields": ["id"], "computed": {"felt": "temperature + 0.05 * humidity"}},
    "range_filter": {"field": "value", "min": 10, "max": 30},
    "second_order_moment": {"field": "value", "by": ["field"]},
    "self_join": {"by": ["message"], "expected": len(MEASUREMENTS), "observed": list(MEASUREMENTS)},
    "senml_parse": {"field": "senml", "observed": list(MEASUREMENTS), "also": {"source": "string"}},
    "sliding_linear_regression": BY,
    "stateful_code": _stateful_code(vouched=False),
    "stateful_code, vouched": _stateful_code(vouched=True),
    "table_insert": {"database": _place("written"), "table": "rows", "fields": ["id", "value"]},
    "table_range_query": {
        "database": _place("readings"),
        "table": "rows",
        "column": "n",
        "low": "low",
        "high": "high",
        "columns": {"value": "float"},
    },
    "trained_bloom_filter": {"field": "id"},
    "tumbling_window": {"time": "time", "field": "value", "by": ["id", "field"], "size_ms": 1_000},
    "unnest": {"field": "numbers", "kind": "integer"},
    "webhook": {"url": "https://hooks.example/"},
    "where": {"expression": "temperature * 1.8 + 32 > 60 and (dust < 25 or humidity is null)"},
    "xml_parse": {"field": "xml", "fields": KINDS},
    "zip_files": {"field": "json", "name": "name"},
}
"""What is configured of each type; the rest is the default, and types that are not named have no need of any."""
