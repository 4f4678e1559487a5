"""Bounds of configs: no number that a tenant gives decides how much memory or time an event takes, without a bound."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from engine import installed_catalogue

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
        if not {"maximum", "exclusiveMaximum"} & integer.keys()
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
