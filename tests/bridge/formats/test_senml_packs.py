"""SenML: packs as RFC 8428 has them, resolved to events."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.formats import senml_packs
from bridge.formats.decoders import decoder
from bridge.formats.senml_packs import senml_decoder
from bridge.raw_events import REST_COLUMN, Unfit, untyped
from dags import Kind, Schema
from dags.message_formats import SenmlMessages

SCHEMA = Schema.of(n=Kind.STRING, u=Kind.STRING, t=Kind.TIMESTAMP, v=Kind.FLOAT, vs=Kind.STRING, vb=Kind.BOOLEAN)
NOW = 1_800_000_000.0


def read(*packs: Any) -> tuple[list[dict[str, Any]], tuple[Unfit, ...]]:
    """The events in packs, without fields that are null, and what is unfit."""
    decode = senml_decoder(SenmlMessages(), SCHEMA, clock=lambda: NOW)
    batch, unfit = decode([json.dumps(pack).encode() for pack in packs])
    return [{name: value for name, value in event.items() if value is not None} for event in batch.to_pylist()], unfit


def test_base_values_are_applied_to_all_that_come_after_them() -> None:
    """The example of the standard with several measurements over time (5.1.2), with a new base name at the end."""
    pack = [
        {
            "bn": "urn:dev:ow:10e2073a01080063:",
            "bt": 1.276020076001e9,
            "bu": "A",
            "bver": 5,
            "n": "voltage",
            "u": "V",
            "v": 120.1,
        },
        {"n": "current", "t": -5, "v": 1.2},
        {"n": "current", "v": 1.7},
        {"bn": "urn:dev:ow:1:", "bv": 20, "n": "temp", "u": "Cel", "v": 0.5},
    ]
    events, unfit = read(pack)
    assert () == unfit
    assert [
        ("urn:dev:ow:10e2073a01080063:voltage", "V", 120.1),
        ("urn:dev:ow:10e2073a01080063:current", "A", 1.2),
        ("urn:dev:ow:10e2073a01080063:current", "A", 1.7),
        ("urn:dev:ow:1:temp", "Cel", 20.5),
    ] == [(event["n"], event["u"], event["v"]) for event in events]
    assert [1276020076001, 1276020071001, 1276020076001, 1276020076001] == [
        round(event["t"].timestamp() * 1_000) for event in events
    ]


def test_small_times_are_relative_to_now() -> None:
    """And a record without a time is from now."""
    events, _ = read([{"n": "a", "v": 1}, {"n": "a", "v": 2, "t": -60}])
    assert [datetime.fromtimestamp(NOW - ago, UTC) for ago in (0, 60)] == [event["t"] for event in events]


def test_values_of_all_kinds_and_other_labels_are_kept() -> None:
    """A record of base values alone is no event."""
    events, unfit = read(
        [{"bn": "a"}, {"vs": "on"}, {"vb": True}, {"vd": "YQ"}, {"s": 3, "ut": 60}, {"v": 1, "place": "x"}]
    )
    assert () == unfit
    rest = [json.loads(event.pop(REST_COLUMN, "null")) for event in events]
    assert [None, None, {"vd": "YQ"}, {"s": 3, "ut": 60}, {"place": "x"}] == rest
    assert [("on", None, None), (None, True, None), *[(None, None, None)] * 2, (None, None, 1.0)] == [
        (event.get("vs"), event.get("vb"), event.get("v")) for event in events
    ]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"n": "a"}, "a record has one value"),
        ({"n": "a", "v": 1, "vs": "x"}, "a record has one value"),
        ({"v": 1}, "the record has no name"),
        ({"n": "a", "v": "1"}, "the value of 'v' is '1', which is of another kind"),
        ({"n": "a", "v": True}, "the value of 'v' is 'True', which is of another kind"),
        ({"n": 1, "v": 1}, "the value of 'n' is '1', which is of another kind"),
        ({"n": "a", "v": 1, "more_": 2}, "the label 'more_' has to be understood"),
        ({"n": "a", "v": 1, "t": 1e300}, ""),
    ],
)
def test_a_record_that_is_unfit_harms_no_other(record: dict[str, Any], reason: str) -> None:
    """It is reported, with the reason."""
    events, unfit = read([{"n": "b", "v": 1}, record, {"n": "b", "v": 2}])
    assert [1.0, 2.0] == [event["v"] for event in events]
    assert [1] == [event.count for event in unfit]
    assert reason in unfit[0].reason


@pytest.mark.parametrize(
    ("record", "reason"), [({"bn": 1}, "the value of 'bn'"), ({"bver": 11}, "11"), (3, "not a JSON object")]
)
def test_nothing_is_read_behind_wrong_base_values(record: Any, reason: str) -> None:
    """It could mean something else, so all of it counts as rejected."""
    events, unfit = read([{"n": "b", "v": 1}, record, {"n": "b", "v": 2}])
    assert (1, [2]) == (len(events), [event.count for event in unfit])
    assert reason in unfit[0].reason


def test_base_names_are_bounded() -> None:
    """All records repeat them."""
    events, unfit = read([{"bn": "n" * 1_000_000, "v": 1}, *[{"v": 1}] * 99])
    assert (32, 68) == (len(events), unfit[0].count)
    events, unfit = read([{"n": "a", "vs": "x" * 4_000_100}])
    assert (0, 1) == (len(events), len(unfit))


PLAIN = st.fixed_dictionaries(
    {},
    optional={
        "bn": st.sampled_from(["", "a/", "b/"]),
        "bt": st.sampled_from([0, 1e9, 1_700_000_000, -5, 1e300]),
        "bu": st.sampled_from(["A", "V"]),
        "bv": st.sampled_from([1, -0.5]),
    },
)
RECORDS = st.fixed_dictionaries(
    {"n": st.sampled_from(["", "x", "yy"])},
    optional={
        "t": st.integers(-5, 5) | st.floats(-5, 5) | st.just(1e300),
        "v": st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False),
        "u": st.just("W"),
        "vs": st.just("on"),
        "s": st.just(2.5),
        "other": st.just(1),
    },
)
NUMBERS = st.fixed_dictionaries({"n": st.sampled_from(["", "x"]), "t": st.floats(-9, 9), "v": st.floats(-9, 9)})
PACKS = st.tuples(PLAIN, st.lists(NUMBERS, min_size=1, max_size=8)).map(
    lambda parts: [parts[0] | parts[1][0], *parts[1][1:]]
) | st.lists(st.tuples(PLAIN, RECORDS).map(lambda parts: parts[0] | parts[1]) | RECORDS, max_size=7)
SCHEMAS = [SCHEMA, Schema.of(n=Kind.STRING, t=Kind.TIMESTAMP, v=Kind.FLOAT), Schema.of(v=Kind.FLOAT)]


@pytest.mark.parametrize("schema", SCHEMAS, ids=["all", "some", "few"])
def test_packs_are_the_same_at_once_and_value_by_value(schema: Schema) -> None:
    """Whatever is in them, and whatever of it is declared."""
    at_once = senml_decoder(SenmlMessages(), schema, clock=lambda: NOW)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(senml_packs, "_typed", lambda _schema, _clock: untyped)
        by_value = senml_decoder(SenmlMessages(), schema, clock=lambda: NOW)

    @given(packs=st.lists(PACKS, max_size=3))
    def holds(packs: list[Any]) -> None:
        messages = [json.dumps(pack).encode() for pack in packs]
        (batch, unfit), (expected, reported) = at_once(messages), by_value(messages)
        assert expected.to_pylist() == batch.to_pylist()
        assert reported == unfit

    holds()


LABELS = st.sampled_from(
    ["bn", "bt", "bu", "bv", "bs", "bver", "n", "u", "t", "v", "vs", "vb", "vd", "s", "ut", "x_", "y"]
)
ANY = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3) | st.just([[1]])


@given(packs=st.lists(st.lists(st.dictionaries(LABELS, ANY, max_size=4) | ANY, max_size=4) | ANY, max_size=3))
def test_whatever_is_in_a_pack_is_an_event_or_reported(packs: list[Any]) -> None:
    """Records of base values alone are neither."""
    batch, unfit = decoder(SenmlMessages(), SCHEMA)([json.dumps(pack).encode() for pack in packs])
    records = [record for pack in packs for record in (pack if isinstance(pack, list) else [pack])]
    bases = sum(isinstance(record, dict) and all(label.startswith("b") for label in record) for record in records)
    assert len(records) - bases <= len(batch) + sum(event.count for event in unfit) <= len(records) + len(packs)
