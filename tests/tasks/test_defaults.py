"""Defaults are those of RIoTBench."""

from collections.abc import Mapping
from typing import Any

import pytest

from dags import Config
from engine.tasks import TYPES
from engine.tasks.filters import Members

BENCHMARK: Mapping[str, Mapping[str, Any]] = {
    "accumulate": {"window": 20},
    "block_window_average": {"window": 10},
    "bloom_filter": {"expected": 20_000_000, "false_positives": 0.01, "outside": "null"},
    "decision_tree_train": {"window": 300},
    "distinct_approx_count": {"buckets": 1024},
    "interpolate": {"window": 5},
    "kalman_filter": {"process_noise": 0.125, "sensor_noise": 0.32, "estimated_error": 30.0},
    "linear_regression_train": {"window": 300},
    "multi_bloom_filter": {"outside": "null"},
    "multi_range_filter": {"outside": "null"},
    "pi_viete": {"iterations": 1_600},
    "range_filter": {"outside": "null"},
    "second_order_moment": {"counters": 10},
    "sliding_linear_regression": {"train": 10, "predict": 10},
    "table_insert": {"batch": 100},
    "trained_bloom_filter": {"outside": "null"},
}


def defaults(config: type[Config], names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: config.model_fields[name].default for name in names}


@pytest.mark.parametrize("name", BENCHMARK)
def test_defaults_are_those_of_the_benchmark(name: str) -> None:
    """Sizes of windows and sketches, and filters that make values null."""
    (kind,) = (each for each in TYPES if each.name == name)
    assert BENCHMARK[name] == defaults(kind.config, BENCHMARK[name])


def test_each_of_several_sets_is_as_large_as_one() -> None:
    """If a filter looks up several fields."""
    wanted = {"expected": 20_000_000, "false_positives": 0.01}
    assert wanted == defaults(Members, wanted)
