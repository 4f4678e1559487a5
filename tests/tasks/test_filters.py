"""Filters checked against their definitions, and the models that they use."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Kind, Schema, StateFate, fate
from dags.dataflow import DividedBy, TaskKeeping, divisibility
from engine.behaviour import AnyImplementation, NoBehaviour
from engine.implementations.filters import (
    bloom_filter,
    bloom_filter_train,
    gate,
    multi_bloom_filter,
    multi_range_filter,
    range_filter,
    trained_bloom_filter,
)
from engine.tasks.filters import GATE
from engine.trial import At, Parked, try_out
from tests.tasks.agreeing import agrees, few

NUMBERS = st.none() | st.floats(-10, 10) | st.just(math.nan)
WIDE = Schema.of(a=Kind.FLOAT, b=Kind.INTEGER)
NARROW = Schema.of(name=Kind.STRING, value=Kind.FLOAT)
OUTSIDE = st.sampled_from(["drop", "null"])


def within(value: float | None, least: float, most: float) -> bool:
    return value is not None and least <= value <= most


@few
@given(values=st.lists(NUMBERS, max_size=10), outside=OUTSIDE)
def test_numbers_in_range_pass(values: list[float | None], outside: str) -> None:
    """Otherwise the event is dropped, or the field becomes null."""

    def reference(events: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in events:
            if within(event["a"], -1, 5):
                yield "out", event
            elif outside == "null":
                yield "out", event | {"a": None}

    config = {"field": "a", "min": -1, "max": 5, "outside": outside}
    agrees(range_filter, config, [{"a": value, "b": 1} for value in values], reference, WIDE, exact=True)


RANGES = {"a": {"min": -1, "max": 5}, "b": {"min": 0, "max": 0}}


@few
@given(
    events=st.lists(st.fixed_dictionaries({"a": NUMBERS, "b": st.none() | st.integers(-1, 1)}), max_size=10),
    outside=OUTSIDE,
)
def test_several_fields_have_their_ranges(events: list[dict[str, Any]], outside: str) -> None:
    """All have to be in range. Only the others become null."""

    def reference(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in seen:
            inside = {name: within(event[name], RANGES[name]["min"], RANGES[name]["max"]) for name in "ab"}
            if all(inside.values()) or outside == "null":
                yield "out", {name: value if inside[name] else None for name, value in event.items()}

    agrees(multi_range_filter, {"ranges": RANGES, "outside": outside}, events, reference, WIDE, exact=True)


@few
@given(
    events=st.lists(
        st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "c", None]), "value": NUMBERS}), max_size=10
    ),
    outside=OUTSIDE,
)
def test_each_kind_of_measurement_has_its_range(events: list[dict[str, Any]], outside: str) -> None:
    """A measurement without a range passes with any value."""

    def reference(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in seen:
            bounds = RANGES.get(event["name"])
            if bounds is None or within(event["value"], bounds["min"], bounds["max"]):
                yield "out", event
            elif outside == "null":
                yield "out", event | {"value": None}

    config = {"ranges": RANGES, "named_by": "name", "field": "value", "outside": outside}
    agrees(multi_range_filter, config, events, reference, NARROW, exact=True)


SENSORS = Schema.of(id=Kind.STRING, street=Kind.INTEGER, warmth=Kind.FLOAT)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["a", "b", "x", None]),
            "street": st.sampled_from([7, 8, None]),
            "warmth": st.none() | st.floats(-10, 10),
        }
    ),
    max_size=10,
)


@few
@given(events=EVENTS, outside=OUTSIDE, nulls=st.sampled_from([None, "warmth"]))
def test_known_values_pass(events: list[dict[str, Any]], outside: str, nulls: str | None) -> None:
    """With so few, no other value passes by mistake. Another field may become null."""
    nulls = nulls if outside == "null" else None

    def reference(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in seen:
            if event["id"] in {"a", "b"}:
                yield "out", event
            elif outside == "null":
                yield "out", event | {nulls or "id": None}

    config = {"field": "id", "known": ["b", "a", "a"], "expected": 1_000, "outside": outside, "nulls": nulls}
    agrees(bloom_filter, config, events, reference, SENSORS, exact=True)


@few
@given(events=EVENTS, outside=OUTSIDE)
def test_several_fields_have_to_be_known(events: list[dict[str, Any]], outside: str) -> None:
    """Each in its own set. Numbers are looked up as texts."""

    def reference(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in seen:
            inside = {"id": event["id"] in {"a", "b"}, "street": event["street"] == 7, "warmth": True}
            if all(inside.values()) or outside == "null":
                yield "out", {name: value if inside[name] else None for name, value in event.items()}

    filters = {"id": {"known": ["a", "b"], "expected": 500}, "street": {"known": ["7"], "expected": 500}}
    agrees(multi_bloom_filter, {"filters": filters, "outside": outside}, events, reference, SENSORS, exact=True)


def test_few_unknown_values_pass() -> None:
    """About as many as the config allows. Every member passes."""
    known = [f"member {at}" for at in range(2_000)]
    config = {"field": "id", "known": known, "expected": 2_000, "false_positives": 0.05, "outside": "drop"}
    assert 2_000 == len(try_out(bloom_filter, config, [{"id": each} for each in known])["out"])
    passed = len(try_out(bloom_filter, config, [{"id": f"stranger {at}"} for at in range(2_000)])["out"])
    assert 40 < passed < 200


TRAIN = {"field": "id", "every": 3, "expected": 50}
BOTH = {"in": Schema.of(id=Kind.STRING), "model": Schema.of(model=Kind.STRING)}


def models(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
    block: list[str] = []
    for event in seen:
        if event["id"] is not None:
            block.append(event["id"])
        if len(block) == 3:
            # A model of one block is that of its values in any order: a filter is a set.
            yield "out", try_out(bloom_filter_train, TRAIN, [{"id": each} for each in reversed(block)])["out"][0]
            block = []


@few
@given(ids=st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=12))
def test_a_model_is_made_of_every_block(ids: list[str | None]) -> None:
    """At the event that completes it. The order of members does not matter."""
    agrees(bloom_filter_train, TRAIN, [{"id": each} for each in ids], models, BOTH["in"], exact=True)


def test_a_model_is_the_same_on_every_machine() -> None:
    """And in every release: this one was written down."""
    (event,) = try_out(bloom_filter_train, {"field": "id", "every": 1, "expected": 5}, [{"id": "a"}])["out"]
    assert "bloom1:5:0.01:BgAAAAAAAAAAAAIQLgA=" == event["model"]


MODEL_A, MODEL_B = (
    try_out(bloom_filter_train, {"field": "id", "every": 1, "expected": 9}, [{"id": each}])["out"][0] for each in "ab"
)


@few
@given(
    events=st.lists(
        st.sampled_from([*(("in", {"id": each}) for each in ("a", "b", None)), ("model", MODEL_A), ("model", MODEL_B)]),
        max_size=12,
    ),
    outside=OUTSIDE,
)
def test_the_latest_model_counts(events: list[At], outside: str) -> None:
    """Before the first one everything passes. A text that is not a model is parked and changes nothing."""

    def reference(seen: Iterator[At]) -> Iterator[At]:
        known: str | None = None
        for port, event in seen:
            if port == "model":
                known = "a" if event == MODEL_A else "b"
            elif known is None or event["id"] == known:
                yield "out", event
            elif outside == "null":
                yield "out", {"id": None}

    poisonous: list[At] = [("model", {"model": "bloom1:9:0.01:AAAA"}), ("model", {"model": None})]
    agrees(
        trained_bloom_filter,
        {"field": "id", "outside": outside},
        events,
        reference,
        BOTH,
        poisonous=poisonous,
        exact=True,
    )


@pytest.mark.parametrize(
    "model",
    [
        "",
        "bloom1:9:0.01",
        "bloom2:" + MODEL_A["model"].removeprefix("bloom1:"),
        MODEL_A["model"].replace(":9:", ":90000000:"),
        MODEL_A["model"].replace(":0.01:", ":2.0:"),
        MODEL_A["model"].replace(":0.01:", ":0.5:"),
        MODEL_A["model"][:-4],
        MODEL_A["model"].replace("BgAA", "////"),
    ],
)
def test_a_text_that_is_not_a_model_is_refused(model: str) -> None:
    """Whatever its fault, without much memory or time."""
    with pytest.raises(Parked, match="is not a Bloom filter"):
        try_out(trained_bloom_filter, {"field": "id"}, [("model", {"model": model})], BOTH)


class Folder:
    """What a host knows of a tenant's files, for one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def secret(self, _owner: str, name: str) -> str:
        raise LookupError(name)

    def place(self, _owner: str, path: str) -> str:
        return str(self._root / path)

    def barred(self, host: str) -> str:
        raise LookupError(host)

    def addresses(self, host: str) -> Sequence[str]:
        raise LookupError(host)

    def code(self, digest: str) -> str:
        raise LookupError(digest)

    def wheel(self, digest: str) -> str:
        raise LookupError(digest)

    def vouched(self, owner: str, _digest: str, _entry: str, _per: str) -> bool:
        raise LookupError(owner)

    @property
    def deployment(self) -> str:
        raise LookupError


def test_a_model_may_lie_in_a_file(tmp_path: Path) -> None:
    """With the digest in the config, so that another file is refused."""
    (tmp_path / "known").write_text(MODEL_A["model"] + "\n", encoding="ascii")
    digest = hashlib.sha256((tmp_path / "known").read_bytes()).hexdigest()
    config = {"field": "id", "file": {"place": "known"}, "sha256": digest}
    events, outside = [{"id": "a"}, {"id": "b"}], Folder(tmp_path)
    assert [{"id": "a"}, {"id": None}] == try_out(bloom_filter, config, events, outside=outside)["out"]
    with pytest.raises(NoBehaviour, match="has the digest"):
        try_out(bloom_filter, config | {"sha256": "0" * 64}, events, outside=outside)
    with pytest.raises(NoBehaviour, match="cannot be read"):
        try_out(bloom_filter, config | {"file": {"place": "elsewhere"}}, events, outside=outside)


@pytest.mark.parametrize(
    ("implementation", "config", "reason"),
    [
        (multi_range_filter, {"ranges": {"a": {"min": 2, "max": 1}}}, "min 2 is greater than max 1"),
        (multi_range_filter, {"ranges": RANGES, "named_by": "a"}, "named_by and field must be given together"),
        (multi_range_filter, {"ranges": RANGES, "named_by": "a", "field": "a"}, "are the same"),
        (bloom_filter, {"field": "a"}, "give either the values as known"),
        (bloom_filter, {"field": "a", "known": ["x"], "sha256": "0" * 64}, "file and sha256 must be given together"),
        (bloom_filter, {"field": "a", "known": ["x"], "outside": "drop", "nulls": "b"}, "nulls has no effect"),
        (trained_bloom_filter, {"field": "a", "outside": "drop", "nulls": "b"}, "nulls has no effect"),
    ],
)
def test_a_config_that_contradicts_itself_is_refused(
    implementation: AnyImplementation, config: dict[str, Any], reason: str
) -> None:
    """Before anything runs, with the place."""
    with pytest.raises(ValueError, match=reason):
        try_out(implementation, config, [])


@few
@given(values=st.lists(NUMBERS, max_size=10))
def test_a_gate_passes_everything_or_nothing(values: list[float | None]) -> None:
    """Unchanged, while it is open."""
    events = [{"a": value} for value in values]
    agrees(gate, {}, events, lambda seen: (("out", each) for each in seen), exact=True)
    agrees(gate, {"open": False}, events, lambda _seen: iter(()), exact=True)


def test_a_gate_keeps_nothing_and_is_divided_by_position() -> None:
    """So it is opened and closed whatever is under way, and works in any number of shards."""
    assert StateFate.KEPT == fate(GATE, {"open": True}, GATE, {"open": False})
    keeping = TaskKeeping.of(GATE, GATE.config(), [])
    assert DividedBy.POSITION == divisibility({0: keeping}).by
