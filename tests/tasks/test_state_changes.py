"""Laws of the task library's state in a reconfiguration: for all its types, and for each transformation."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dags import AnyTaskType, Config, FieldFates, Kind, Schema, State, StateFate, fate
from engine.behaviour import AnyImplementation, Implementation, implementation_of, installed_behaviours
from engine.code.store import CodeStore, digest_of
from engine.outside import HostOutside
from engine.records.state import NUMBERS
from engine.tasks import TYPES
from engine.tasks.compute import join_step_type
from engine.tasks.predictive import DecisionTree, LinearRegression, written
from engine.trial import At, Trial
from tests.tasks.agreeing import few

TOTALS = """
def process(event, kept, config):
    total = (kept or 0) + (event["v"] or 0) / config["unit"]
    return {"v": total}, total

def migrate(old_config, new_config, key, kept):
    return kept * old_config["unit"] / new_config["unit"]
"""
ROOT = TemporaryDirectory()
CodeStore(Path(ROOT.name)).put(digest_of(TOTALS), TOTALS)
OUTSIDE = HostOutside(Path(ROOT.name))
STATEFUL = [*(kind for kind in TYPES if kind.state is not State.NONE), join_step_type("opmw-join:*")]
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "accumulate": {"fields": ["v"], "by": ["k"], "window": 4},
    "annotate_class": {"field": "v", "window": 4},
    "block_window_average": {"field": "v", "by": ["k"], "window": 4},
    "bloom_filter_train": {"field": "k", "every": 4, "expected": 10},
    "count": {"by": ["k"]},
    "decision_tree_classify": {"fields": ["v", "w"]},
    "decision_tree_train": {"fields": ["v"], "label": "k", "window": 4},
    "distinct_approx_count": {"field": "v", "by": ["k"], "buckets": 64},
    "error_estimate": {"observed": "v", "prediction": "w", "average": "v", "by": ["k"]},
    "interpolate": {"field": "v", "by": ["k"], "window": 4},
    "join_by_id": {"by": ["k"], "expected": 3, "time": "time"},
    "kalman_filter": {"field": "v", "by": ["k"]},
    "line_plot": {"field": "v", "by": ["k"], "window": 4},
    "linear_regression_predict": {"fields": ["v", "w"]},
    "linear_regression_train": {"fields": ["v"], "target": "w", "window": 4},
    "multi_line_plot": {"field": "v", "line": "k", "window": 4},
    "opmw-join:*": {"inputs": 2, "iterations": 2},
    "second_order_moment": {"field": "v", "by": ["k"], "counters": 8},
    "self_join": {"by": ["k"], "expected": 3, "time": "time"},
    "sliding_linear_regression": {"field": "v", "by": ["k"], "train": 4, "predict": 2},
    "stateful_code": {
        "digest": digest_of(TOTALS),
        "entry": "process",
        "input": {"in": {"k": "string", "v": "float"}},
        "output": {"fields": {"v": "float"}},
        "owner": "",
        "module": "totals",
        "by": ["k"],
        "migrate": "migrate",
        "config": {"unit": 1},
    },
    "trained_bloom_filter": {"field": "k"},
    "tumbling_window": {"time": "time", "field": "v", "by": ["k"], "size_ms": 1_000},
    "zip_files": {"field": "k", "name": "k", "files": 4},
}
"""A valid config of every type that keeps state."""
SCHEMA = Schema.of(k=Kind.STRING, v=Kind.FLOAT, w=Kind.FLOAT, time=Kind.TIMESTAMP)
MODELS = Schema.of(model=Kind.STRING)
TREE = DecisionTree(fields=("v",), classes=("cold",), left=(-1,), right=(-1,), field=(0,), threshold=(0.0,), leaf=(0,))
LINE = LinearRegression(fields=("v",), intercept=1.0, coefficients=(2.0,))
VALUES = (
    written(TREE),
    written(LINE),
    1,
    2,
    3,
    16,
    128,
    0.5,
    0.25,
    7.5,
    "v",
    "u",
    ["v"],
    ["u", "v"],
    ["a", "b", "c"],
    None,
    # For published code.
    "f" * 64,
    ["f" * 64],
    {"unit": 2},
    {"in": {"k": "string"}},
    {"fields": {"w": "float"}},
)
"""Values for any field; each takes some of them."""
START = datetime(2026, 5, 4, 12, tzinfo=UTC)


def made(kind: str) -> AnyImplementation:
    return implementation_of(kind, installed_behaviours())


def trial(kind: str, config: Mapping[str, Any], schema: Schema = SCHEMA) -> Trial:
    ports = {"in": schema, "model": MODELS} if kind == "linear_regression_predict" else {"in": schema}
    return Trial(kind, config, ports, OUTSIDE)


def reconfigured(before: Trial, kind: str, config: Mapping[str, Any], schema: Schema = SCHEMA) -> Trial:
    """A trial with another config or schema and what becomes of the state, as in a job."""
    implementation = made(kind)
    after = trial(kind, config, schema)
    becomes = implementation.type.state_change(before.config, after.config)
    assert becomes in {StateFate.KEPT, StateFate.TRANSFORMED}
    kept = list(remembered(before))
    values: Sequence[Any] = [value for _, value in kept]
    if becomes is StateFate.TRANSFORMED:
        values = implementation.transformed(before.config, after.config, kept)
    for (key, _), value in zip(kept, values, strict=True):
        if value is not None:
            after.state.put(key, value)
    return after


def remembered(trial: Trial) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The keys of a state with their values."""
    for packed, content in chain.from_iterable(
        items.items() for group, items in trial.state.changes().items() if group != NUMBERS
    ):
        if content is not None:
            yield tuple(msgspec.msgpack.decode(packed)), msgspec.msgpack.decode(content)


def continued(before: Trial, old: str, new: str) -> Trial:
    """A trial with another type and what that makes of the state, as in a job."""
    implementation = made(new)
    was, now = dict(CONFIGS[old]), dict(CONFIGS[new])
    assert StateFate.TRANSFORMED is fate(made(old).type, was, implementation.type, now)
    after = trial(new, now)
    for key, value in remembered(before):
        taken_up = implementation.continues[old](was, after.config, key, value)
        if taken_up is not None:
            after.state.put(key, taken_up)
    return after


def taken(trial: Trial, events: Sequence[Mapping[str, Any]], port: str = "in") -> dict[str, list[dict[str, Any]]]:
    at: list[At] = [(port, {"k": None, "v": None, "w": None, "time": START, **each}) for each in events]
    outcome = trial.take(at)
    assert not outcome.dead
    return {name: stream.rows.to_pylist() for name, stream in outcome.emitted.items()}


def changed(
    kind: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    events: tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]],
) -> dict[str, list[dict[str, Any]]]:
    """The emissions after a change of config between two batches."""
    before = trial(kind, old)
    taken(before, events[0])
    return taken(reconfigured(before, kind, new), events[1])


def straight(
    kind: str,
    config: Mapping[str, Any],
    events: tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]],
) -> dict[str, list[dict[str, Any]]]:
    """The emissions for the second batch, without a change."""
    found = trial(kind, config)
    taken(found, events[0])
    return taken(found, events[1])


WIDER = SCHEMA.plus("more", Kind.STRING)
FIRST = [{"k": "ab"[at % 2], "v": float(at)} for at in range(5)]
THEN = [{"k": "ba"[at % 2], "v": float(-at), "more": "m"} for at in range(9)]


@pytest.mark.parametrize(
    "kind", [kind for kind in STATEFUL if not kind.keeps_events and kind.ports is None], ids=lambda kind: kind.name
)
def test_state_that_holds_no_whole_events_goes_with_other_fields(kind: AnyTaskType) -> None:
    """A field that a task does not read may come in, and the task emits what it emits if it was always there."""
    config = CONFIGS[kind.name]
    before = trial(kind.name, config)
    taken(before, FIRST)
    always = trial(kind.name, config, WIDER)
    taken(always, [{**each, "more": "m"} for each in FIRST])
    assert taken(always, THEN) == taken(reconfigured(before, kind.name, config, WIDER), THEN)


NUMBERS_OR_NULL = st.none() | st.integers(-20, 20).map(float)
EVENTS = st.lists(st.fixed_dictionaries({"k": st.sampled_from("ab"), "v": NUMBERS_OR_NULL}), max_size=25)
SIZES = st.integers(2, 8)


def neighbours(kind: AnyTaskType, name: str) -> list[Config]:
    """Configs that differ from the one above in one field."""
    base = CONFIGS[kind.name]
    same = kind.config.model_validate_json(json.dumps(base))
    found: list[Config] = []
    for value in (*VALUES, *get_args(kind.config.model_fields[name].annotation)):
        try:
            config = kind.config.model_validate_json(json.dumps({**base, name: value}, default=str))
        except ValidationError:
            continue
        if config != same:
            found.append(config)
    return found


def test_every_type_with_state_is_here() -> None:
    """The laws below are about all of them."""
    assert sorted(CONFIGS) == sorted(kind.name for kind in STATEFUL)


@pytest.mark.parametrize("kind", STATEFUL, ids=lambda kind: kind.name)
def test_a_type_declares_fates_for_its_own_fields(kind: AnyTaskType) -> None:
    """A fate for a field that does not exist would never apply."""
    assert isinstance(kind.state_change, FieldFates)
    assert kind.state_change.fields.keys() <= kind.config.model_fields.keys()


@pytest.mark.parametrize("kind", STATEFUL, ids=lambda kind: kind.name)
def test_every_change_of_a_field_has_an_answer(kind: AnyTaskType) -> None:
    """The same config keeps the state, and what is transformed has a transform."""
    base = kind.config.model_validate_json(json.dumps(CONFIGS[kind.name]))
    assert kind.state_change(base, base) is StateFate.KEPT
    implementation = made(kind.name)
    for name in kind.config.model_fields:
        configs = neighbours(kind, name)
        # Code that keeps something takes events only.
        assert configs or (kind.name, name) == ("stateful_code", "per"), name
        for config in configs:
            assert kind.state_change(config, config) is StateFate.KEPT
            assert kind.state_change(base, config) in {None, *StateFate}
            if kind.state_change(base, config) is StateFate.TRANSFORMED:
                assert implementation.transform is not None or implementation.transform_all is not None


@pytest.mark.parametrize("kind", STATEFUL, ids=lambda kind: kind.name)
def test_another_key_or_a_field_whose_values_are_kept_needs_the_consent_of_the_tenant(kind: AnyTaskType) -> None:
    """State by other fields would silently mean something else."""
    base = kind.config.model_validate_json(json.dumps(CONFIGS[kind.name]))
    kept = {"by", "field", "time", "target", "label", "x", "line", "size_ms"} & kind.config.model_fields.keys()
    for name in kept - ({"field"} if kind.name == "trained_bloom_filter" else set()):
        assert {None} == {kind.state_change(base, config) for config in neighbours(kind, name)}


def test_an_implementation_that_cannot_transform_is_refused() -> None:
    """If its type declares by field that it does."""
    found = made("interpolate")
    with pytest.raises(ValueError, match="its implementation has no transform; give it one"):
        Implementation(type=found.type, make=found.make)


@pytest.mark.parametrize(
    "kind",
    [
        "accumulate",
        "annotate_class",
        "block_window_average",
        "count",
        "interpolate",
        "join_by_id",
        "kalman_filter",
        "second_order_moment",
        "self_join",
        "sliding_linear_regression",
        "stateful_code",
        "tumbling_window",
    ],
)
@few
@given(first=EVENTS, second=EVENTS)
def test_a_change_to_the_same_config_changes_nothing(
    kind: str, first: list[dict[str, Any]], second: list[dict[str, Any]]
) -> None:
    """As if the task had run on."""
    config = CONFIGS[kind]
    assert changed(kind, config, config, (first, second)) == straight(kind, config, (first, second))


def newest(events: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """The last events with a value, of each key."""
    known = [each for each in events if each["v"] is not None]
    return [event for key in "ab" for event in [each for each in known if each["k"] == key][-count:]]


@pytest.mark.parametrize(("kind", "size"), [("interpolate", "window"), ("sliding_linear_regression", "train")])
@few
@given(first=EVENTS, second=EVENTS, sizes=st.tuples(SIZES, SIZES))
def test_a_sliding_window_keeps_its_newest_events(
    kind: str, size: str, first: list[dict[str, Any]], second: list[dict[str, Any]], sizes: tuple[int, int]
) -> None:
    """As if only the newest events of each key, as many as fit in both windows, had come before."""
    old, new = ({**CONFIGS[kind], size: each} for each in sizes)
    found = changed(kind, old, new, (first, second))
    assert found == straight(kind, new, (newest(first, min(sizes)), second))


@pytest.mark.parametrize("new", [1, 2, 5])
@pytest.mark.parametrize(("kind", "size"), [("interpolate", "window"), ("sliding_linear_regression", "train")])
def test_a_smaller_window_forgets_at_once(kind: str, size: str, new: int) -> None:
    """Also for keys without later events, so that the window may grow again."""
    new = max(new, 2) if size == "train" else new
    before = trial(kind, {**CONFIGS[kind], size: 6})
    taken(before, [{"k": "a", "v": float(each)} for each in range(6)])
    after = reconfigured(before, kind, {**CONFIGS[kind], size: new})
    assert after.state.get(("a",)) == [float(each) for each in range(6 - new, 6)]


@given(first=EVENTS, second=EVENTS, old=SIZES, new=SIZES)
def test_blocks_lose_no_event(first: list[dict[str, Any]], second: list[dict[str, Any]], old: int, new: int) -> None:
    """The incomplete block goes on; if it is complete already, the next event ends it."""
    configs = [{"fields": ["v"], "window": each} for each in (old, new)]
    kept = [each["v"] for each in first[len(first) - len(first) % old :]]
    coming = [each["v"] for each in second]
    expected = []
    for value in coming:
        kept.append(value)
        if len(kept) >= new:
            expected.append(kept)
            kept = []
    found = changed("accumulate", configs[0], configs[1], (first, second))["out"]
    assert expected == [json.loads(each["v"]) for each in found]


@given(first=EVENTS, second=EVENTS, old=SIZES, new=SIZES)
def test_an_average_over_blocks_loses_no_value(
    first: list[dict[str, Any]], second: list[dict[str, Any]], old: int, new: int
) -> None:
    """Its blocks are those of the values that are not null, and end in the same way."""
    known = [[each for each in events if each["v"] is not None] for events in (first, second)]
    blocks = changed(
        "accumulate", {"fields": ["v"], "window": old}, {"fields": ["v"], "window": new}, (known[0], known[1])
    )["out"]
    averages = changed(
        "block_window_average", {"field": "v", "window": old}, {"field": "v", "window": new}, (first, second)
    )["out"]
    expected = [json.loads(each["v"]) for each in blocks]
    assert [sum(values) / len(values) for values in expected] == pytest.approx([each["v"] for each in averages])


@given(first=EVENTS, second=EVENTS, noises=st.tuples(*4 * [st.floats(0.01, 10)]))
def test_a_kalman_filter_goes_on_with_other_noises(
    first: list[dict[str, Any]], second: list[dict[str, Any]], noises: tuple[float, float, float, float]
) -> None:
    """Its estimate and its variance stay."""
    old, new = (
        {"field": "v", "process_noise": process, "sensor_noise": sensor} for process, sensor in (noises[:2], noises[2:])
    )
    estimate, variance, expected = 0.0, 30.0, []
    for (process, sensor), event in [(noises[:2], each) for each in first] + [(noises[2:], each) for each in second]:
        if event["v"] is not None:
            variance += process
            gain = variance / (variance + sensor)
            estimate, variance = estimate + gain * (event["v"] - estimate), variance * (1 - gain)
        expected.append(None if event["v"] is None else estimate)
    found = changed("kalman_filter", old, new, (first, second))["out"]
    assert [each["v"] for each in found] == pytest.approx(expected[len(first) :])


@few
@given(first=EVENTS, second=EVENTS, units=st.tuples(*2 * [st.sampled_from([1, 2, 4])]))
def test_published_code_goes_on_from_what_its_own_function_made(
    first: list[dict[str, Any]], second: list[dict[str, Any]], units: tuple[int, int]
) -> None:
    """Its totals are those that it had if the new unit had always been there."""
    old, new = ({**CONFIGS["stateful_code"], "config": {"unit": unit}} for unit in units)
    found = changed("stateful_code", old, new, (first, second))
    assert found == straight("stateful_code", new, (first, second))


@given(first=EVENTS, value=st.floats(-100, 100))
def test_a_kalman_filter_goes_on_from_the_values_that_fill_gaps(first: list[dict[str, Any]], value: float) -> None:
    """Its next estimate lies between their mean and what comes; without values it begins anew."""
    before = trial("interpolate", CONFIGS["interpolate"])
    taken(before, first)
    (filled,) = taken(before, [{"k": "a", "v": None}])["out"]
    (found,) = taken(continued(before, "interpolate", "kalman_filter"), [{"k": "a", "v": value}])["out"]
    if filled["v"] is None:
        assert taken(trial("kalman_filter", CONFIGS["kalman_filter"]), [{"k": "a", "v": value}])["out"] == [found]
    else:
        assert min(filled["v"], value) - 1e-9 <= found["v"] <= max(filled["v"], value) + 1e-9


@given(first=EVENTS)
def test_gaps_are_filled_with_the_estimate_of_a_kalman_filter(first: list[dict[str, Any]]) -> None:
    """Until values come; of keys that it has not met nothing is known."""
    before = trial("kalman_filter", CONFIGS["kalman_filter"])
    out = taken(before, first)["out"]
    last = {each["k"]: each["v"] for each in out if each["v"] is not None}
    gaps = [{"k": key, "v": None} for key in "abcdef"]
    found = taken(continued(before, "kalman_filter", "interpolate"), gaps)["out"]
    assert [last.get(each["k"]) for each in gaps] == [each["v"] for each in found]


@given(first=EVENTS, second=EVENTS, counters=st.tuples(st.integers(1, 20), st.integers(1, 20)))
def test_fewer_counters_estimate_as_if_there_had_never_been_more(
    first: list[dict[str, Any]], second: list[dict[str, Any]], counters: tuple[int, int]
) -> None:
    """Because counters do not depend on each other."""
    new, old = ({**CONFIGS["second_order_moment"], "counters": each} for each in sorted(counters))
    found = changed("second_order_moment", old, new, (first, second))
    assert found == straight("second_order_moment", new, (first, second))


@given(values=st.sets(st.integers(-10_000, 10_000), max_size=300), buckets=st.sampled_from([256, 512]))
def test_a_sketch_with_fewer_buckets_still_knows_its_values(values: set[int], buckets: int) -> None:
    """Repeated values change nothing, and the estimate stays within four standard errors."""
    before = trial("distinct_approx_count", {"field": "v", "buckets": 1024})
    events = [{"v": float(each)} for each in sorted(values)]
    taken(before, events)
    after = reconfigured(before, "distinct_approx_count", {"field": "v", "buckets": buckets})
    found = [each["distinct"] for each in taken(after, [{}, *events])["out"]]
    assert len(set(found)) == 1
    assert found[0] == pytest.approx(len(values), rel=4 / buckets**0.5)
    if values:
        more = [each["distinct"] for each in taken(after, [{"v": 0.5 + each} for each in range(1_000)])["out"]]
        assert more[-1] == pytest.approx(len(values) + 1_000, rel=4 / buckets**0.5)


@given(before=st.integers(0, 25), old=st.integers(1, 8), new=st.integers(1, 8))
def test_a_smaller_block_of_values_keeps_the_newest(before: int, old: int, new: int) -> None:
    """So that the next model has as many values as others."""
    configs = [{"field": "k", "every": each, "expected": 10} for each in (old, new)]
    values = [{"k": str(each)} for each in range(before + 20)]
    kept = values[before - before % old : before]
    kept = kept[max(0, len(kept) - (new - 1)) :]
    found = changed("bloom_filter_train", configs[0], configs[1], (values[:before], values[before:]))
    assert found == straight("bloom_filter_train", configs[1], (kept, values[before:]))


MESSAGES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 99)), max_size=15)


@pytest.mark.parametrize("kind", ["join_by_id", "self_join"])
@given(first=MESSAGES, second=MESSAGES, old=st.integers(100, 200), new=st.integers(100, 200))
def test_waiting_ids_expire_after_the_new_time(
    kind: str, first: list[tuple[str, int]], second: list[tuple[str, int]], old: int, new: int
) -> None:
    """As if they had always waited that long, if none has expired before."""
    events = (
        [{"k": key, "time": START + timedelta(milliseconds=at)} for key, at in first],
        [{"k": key, "time": START + timedelta(milliseconds=3 * at)} for key, at in second],
    )
    configs = [{**CONFIGS[kind], "expiry_ms": each} for each in (old, new)]
    found = changed(kind, configs[0], configs[1], events)
    assert found == straight(kind, configs[1], events)


OPEN = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2_999)), max_size=12)


@given(first=OPEN, second=OPEN, lateness=st.tuples(*2 * [st.integers(3_000, 9_000)]))
def test_open_windows_wait_for_the_new_lateness(
    first: list[tuple[str, int]], second: list[tuple[str, int]], lateness: tuple[int, int]
) -> None:
    """As if they had always waited that long, if none was closed before."""
    events = (
        [{"k": key, "v": float(at), "time": START + timedelta(milliseconds=at)} for key, at in first],
        [{"k": key, "v": float(at), "time": START + timedelta(milliseconds=5 * at)} for key, at in second],
    )
    old, new = ({**CONFIGS["tumbling_window"], "lateness_ms": each} for each in lateness)
    assert changed("tumbling_window", old, new, events) == straight("tumbling_window", new, events)


FIELDS = st.lists(st.sampled_from("vw"), min_size=1, max_size=2, unique=True)


@given(needs=FIELDS, fields=FIELDS)
def test_a_model_is_dropped_if_its_fields_are_no_longer_read(needs: list[str], fields: list[str]) -> None:
    """Any other model goes on."""
    before = trial("linear_regression_predict", CONFIGS["linear_regression_predict"])
    model = {"kind": "linear_regression", "fields": needs, "intercept": 1.0, "coefficients": [2.0] * len(needs)}
    outcome = before.take([("model", {"model": json.dumps(model)})])
    assert not outcome.dead
    after = reconfigured(before, "linear_regression_predict", {"fields": fields})
    expected = 1.0 + 6.0 * len(needs) if set(needs) <= set(fields) else None
    assert taken(after, [{"v": 3.0, "w": 3.0}])["out"][0]["prediction"] == expected
