"""Configs of the library: their bounds, the defaults of RIoTBench, and packages that only some tasks need."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from dags import Config, Kind, Schema
from engine import installed_catalogue
from engine.behaviour import NoBehaviour
from engine.tasks import TYPES
from engine.tasks.filters import Members
from engine.trial import try_out

UNBOUNDED = {
    ("block_window_average", "window"): "the state is a count and a sum, however long the window is",
}
"""The integers without an upper bound, each with the reason why none is needed."""
NAMED = ("opmw:step", "opmw-join:step")
"""One type of each namespace."""


def integers(schema: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each integer in a schema, by its place."""
    if schema.get("type") == "integer":
        yield at, schema
    for name, inner in schema.get("properties", {}).items():
        yield from integers(inner, f"{at}/{name}" if at else name)
    inside = [schema.get(each) for each in ("items", "additionalProperties")]
    several = [each for one in ("anyOf", "oneOf", "allOf", "prefixItems") for each in schema.get(one, ())]
    for each in (*inside, *several, *schema.get("$defs", {}).values()):
        if isinstance(each, dict):
            yield from integers(each, at)


def test_each_integer_of_a_config_has_an_upper_bound_or_a_reason() -> None:
    """This holds for all types of the library, and what is listed here exists and has none."""
    catalogue = installed_catalogue()
    types = [*catalogue.types.values(), *(catalogue.find(name) for name in NAMED)]
    unbounded = {
        (each.name, place)
        for each in types
        if each is not None
        for place, integer in integers(each.config.model_json_schema())
        # One of a few is bounded by these.
        if not {"maximum", "exclusiveMaximum", "enum"} & integer.keys()
    }
    assert UNBOUNDED.keys() == unbounded


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("pi_viete", {"iterations": 3_000_000}),
        ("accumulate", {"fields": ("a",), "window": 10_001}),
        ("bloom_filter", {"field": "k", "known": ("a",), "expected": 100_000_000}),
        ("bloom_filter", {"field": "k", "known": ("a",), "false_positives": 1e-300}),
        ("bloom_filter_train", {"field": "k", "expected": 3_000_000}),
        ("multi_bloom_filter", {"filters": {f"k{at}": {"known": ("a",)} for at in range(6)}}),
        ("distinct_approx_count", {"field": "k", "buckets": 2**22}),
        ("join_by_id", {"by": ("k",), "expected": 2, "most_waiting": 1_000_001}),
        ("self_join", {"by": ("k",), "expected": 2, "most_known": 1_000_001}),
    ],
)
def test_a_config_that_asks_for_too_much_is_refused(kind: str, config: Mapping[str, Any]) -> None:
    """At submission, where nobody runs it yet."""
    found = installed_catalogue().find(kind)
    assert found is not None
    with pytest.raises(ValidationError, match=r"less than or equal to|may take"):
        found.config.model_validate(config)


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


SCHEMA = Schema.of(v=Kind.FLOAT, w=Kind.INTEGER)


@pytest.mark.parametrize(
    ("type_", "config", "package", "remedy"),
    [
        ("decision_tree_train", {"fields": ["v"]}, "sklearn.tree", "install braid[predictive]"),
        (
            "linear_regression_train",
            {"fields": ["v"], "target": "w"},
            "sklearn.linear_model",
            "install braid[predictive]",
        ),
        ("distinct_approx_count", {"field": "v"}, "datasketches", "install braid[sketches]"),
        ("line_plot", {"field": "v"}, "matplotlib", "install it"),
        ("multi_line_plot", {"field": "v"}, "matplotlib", "install it"),
    ],
)
def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, type_: str, config: dict[str, Any], package: str, remedy: str
) -> None:
    """With a remedy. Only tasks that need it fail, and only when they are made."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NoBehaviour, match=re.escape(f"{remedy} on every worker")):
        try_out(type_, config, [], SCHEMA)


def test_no_package_is_loaded_before_it_is_needed() -> None:
    """Documents are checked, and other tasks run, without the extras."""
    code = (
        "import sys; import engine.tasks; from engine.behaviour import *; places = installed_behaviours(); "
        "[implementation_of(name, places) for name in places if 'outside' not in places[name]]; "
        "print([name for name in ('datasketches', 'matplotlib', 'sklearn', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert "[]\n" == done.stdout
