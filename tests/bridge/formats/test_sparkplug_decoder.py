"""Sparkplug B: what edge nodes publish is what is read, and what is missing is asked for."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.formats import sparkplug_decoder
from bridge.formats.decoders import decoder
from bridge.formats.sparkplug_decoder import EdgeNode, ReadMessages, SparkplugDecoder, rebirth_request
from bridge.formats.sparkplug_messages import Payload
from bridge.messages import LARGEST_RAW_MESSAGE, Message
from bridge.raw_events import REST_COLUMN
from dags import Kind, Schema
from dags.message_formats import SparkplugMessages

# By pysparkplug 0.6.1: NBirth, NData, NDeath, DBirth, DData and DDeath with one metric for each type that it writes,
# encoded, as hexadecimal digits.
GOLDEN: Mapping[str, str] = {
    "NBIRTH": (
        "0880d095ffbc3112120a0562645365711880d095ffbc312004580312210a144e6f646520436f6e74726f6c2f526562697274"
        "681880d095ffbc31200b700012120a02693810011880d095ffbc31200150ff0112140a0369313610021880d095ffbc312002"
        "50d4fd0312160a0369333210031880d095ffbc3120035090ddfbff0f121b0a0369363410041880d095ffbc31200458808080"
        "8080e0ffffff0112120a02753810051880d095ffbc31200550c80112140a0375313610061880d095ffbc31200650ffff0312"
        "160a0375333210071880d095ffbc31200750ffffffff0f121b0a0375363410081880d095ffbc31200858ffffffffffffffff"
        "ff0112170a05666c6f617410091880d095ffbc312009650000c03f121c0a06646f75626c65100a1880d095ffbc31200a6900"
        "000000004035c012130a04666c6167100b1880d095ffbc31200b700112180a0474657874100c1880d095ffbc31200c7a056b"
        "c3a47365121a0a066d6f6d656e74100d1880d095ffbc31200d5880d0eab6b73312180a056279746573100e1880d095ffbc31"
        "201182010361626312170a05736d616c6c100f1880d095ffbc31201682010201fe121d0a056c6172676510101880d095ffbc"
        "31201d820108ffffffffffffffff12270a07646f75626c657310111880d095ffbc31201f820110000000000000f83f000000"
        "00000004c0121b0a05666c61677310121880d095ffbc31202082010609000000b080121a0a05746578747310131880d095ff"
        "bc31202182010561006263001800"
    ),
    "NDATA": (
        "08e8d795ffbc31120c10011880d095ffbc3150fe01121410041880d095ffbc3158fbffffffffffffffff011212100a1880d0"
        "95ffbc31690000000000000c401204100c38011802"
    ),
    "NDEATH": "0880d095ffbc3112120a0562645365711880d095ffbc3120045803",
    "DBIRTH": "08f4d395ffbc3112230a114d6f746f722f74656d706572617475726510141880d095ffbc3120096500008f421801",
    "DDATA": "08d0df95ffbc31120e10141880d095ffbc3165000091421803",
    "DDEATH": "08b8e795ffbc311804",
}

_TOPICS: Mapping[str, str] = {
    kind: f"spBv1.0/works/{kind}/press" + "/motor" * kind.startswith("D")
    for kind in ("NBIRTH", "NDATA", "NDEATH", "DBIRTH", "DDATA", "DDEATH")
}
COMMANDS = "spBv1.0/works/NCMD/press"
NOW = 1_800_000_000.0


def message(kind: str, payload: bytes) -> Message:
    """A message of one edge node, or of its one device."""
    return Message(_TOPICS[kind], payload, 0)


def golden(*kinds: str) -> list[Message]:
    """Messages that another library has written."""
    return [message(kind, bytes.fromhex(GOLDEN[kind])) for kind in kinds]


def made(kind: str, *metrics: Mapping[str, Any], seq: int | None = None, at: int | None = 1_700_000_000_000) -> Message:
    """A message of these metrics."""
    fields = {name: value for name, value in {"seq": seq, "timestamp": at}.items() if value is not None}
    return message(kind, Payload(metrics=metrics, **fields).SerializeToString())


def sparkplug(
    schema: Schema | None = None, memory: dict[str, EdgeNode] | None = None, *, rows: bool = False, now: float = NOW
) -> SparkplugDecoder:
    """A decoder whose clock stands still."""
    form = SparkplugMessages(metrics="rows" if rows else "fields")
    return SparkplugDecoder(form, schema or Schema.of(j=Kind.JSON), memory, clock=lambda: now)


def events(content: ReadMessages) -> list[dict[str, Any]]:
    """What was read, with the undeclared fields beside the others."""
    rows = ((row, json.loads(row.pop(REST_COLUMN) or "{}")) for row in content.events.to_pylist())
    return [{name: value for name, value in (row | rest).items() if value is not None} for row, rest in rows]


def test_what_another_library_has_written_is_read() -> None:
    """Values of all types, by names and then by the numbers that stand for them."""
    content = sparkplug()(golden("NBIRTH", "DBIRTH", "NDATA", "DDATA", "DDEATH", "NDEATH"))
    assert ((), ()) == (content.unfit, content.replies)
    birth, device_birth, data, device_data, device_death, death = events(content)
    own = {"group": "works", "edge_node": "press", "status": "online"}
    assert {
        **own,
        "seq": 0,
        "at": 1_700_000_000_000,
        "bdSeq": 3,
        "Node Control/Rebirth": False,
        "i8": -1,
        "i16": -300,
        "i32": -70_000,
        "i64": -(2**40),
        "u8": 200,
        "u16": 65_535,
        "u32": 2**32 - 1,
        "u64": 2**64 - 1,
        "float": 1.5,
        "double": -21.25,
        "flag": True,
        "text": "käse",
        "moment": 1_767_225_600_000,
        "bytes": "YWJj",
        "small": [1, -2],
        "large": [2**64 - 1],
        "doubles": [1.5, -2.5],
        "flags": [True, False, True, True, False, False, False, False, True],
        "texts": ["a", "bc"],
    } == birth
    motor = {**own, "device": "motor"}
    assert {**motor, "seq": 1, "at": 1_700_000_000_500, "Motor/temperature": 71.5} == device_birth
    assert {**own, "seq": 2, "at": 1_700_000_001_000, "i8": -2, "i64": -5, "double": 3.5} == data
    assert {**motor, "seq": 3, "at": 1_700_000_002_000, "Motor/temperature": 72.5} == device_data
    assert {**motor, "seq": 4, "at": 1_700_000_003_000, "status": "offline"} == device_death
    assert {**own, "at": 1_000 * NOW, "status": "offline"} == death


def test_metrics_are_columns_of_their_kinds() -> None:
    """So that tasks can name them."""
    schema = Schema.of({"Motor/temperature": Kind.FLOAT, "at": Kind.TIMESTAMP, "status": Kind.STRING})
    content = sparkplug(schema)(golden("NBIRTH", "DBIRTH", "DDATA", "DDEATH"))
    assert [None, 71.5, 72.5, None] == content.events.column("Motor/temperature").to_pylist()
    assert datetime(2023, 11, 14, 22, 13, 22, tzinfo=UTC) == content.events.column("at")[2].as_py()
    content = sparkplug(Schema.of({"Motor/temperature": Kind.STRING}))(golden("NBIRTH", "DBIRTH"))
    assert (1, 1) == (len(content.events), len(content.unfit))
    assert (
        "on spBv1.0/works/DBIRTH/press/motor: the field 'Motor/temperature' should be of kind string"
        == content.unfit[0].reason
    )


def test_metrics_as_rows_have_names_and_values() -> None:
    """Each with its own time; a death is one event without them."""
    content = sparkplug(rows=True)(golden("NBIRTH", "DBIRTH", "NDATA", "DDEATH"))
    *_, first, second, third, fourth, death = events(content)
    named = [(event["name"], event.get("value"), event["at"]) for event in (first, second, third, fourth)]
    assert [
        ("i8", -2, 1_700_000_000_000),
        ("i64", -5, 1_700_000_000_000),
        ("double", 3.5, 1_700_000_000_000),
        ("text", None, 1_700_000_001_000),
    ] == named
    assert "name" not in death
    assert "offline" == death["status"]


def test_the_death_of_an_edge_node_is_that_of_its_devices() -> None:
    """They cannot be reached without it."""
    decode = sparkplug()
    decode(golden("NBIRTH", "DBIRTH"))
    assert [(None, "offline"), ("motor", "offline")] == [
        (event.get("device"), event["status"]) for event in events(decode(golden("NDEATH")))
    ]
    # Of a connection that another one has replaced.
    decode([*golden("NBIRTH"), made("NBIRTH", {"name": "bdSeq", "datatype": 4, "long_value": 4}, seq=0)])
    content = decode(golden("NDEATH"))
    assert [] == events(content)
    assert "the death is of session 3, and the edge node is in session 4" in content.unfit[0].reason


def test_unknown_metrics_are_unfit_and_a_birth_is_asked_for() -> None:
    """Once in a while, until it comes; so it is after a restart."""
    memory: dict[str, EdgeNode] = {}
    content = sparkplug(memory=memory)(golden("NDATA", "NDATA"))
    assert (0, 2) == (len(content.events), len(content.unfit))
    assert "the metric number 1 is not known" in content.unfit[0].reason
    assert [(COMMANDS, rebirth_request(NOW))] == [(reply.topic, reply.payload) for reply in content.replies]
    (metric,) = Payload.FromString(content.replies[0].payload).metrics
    assert ("Node Control/Rebirth", True) == (metric.name, metric.boolean_value)
    assert () == sparkplug(memory=memory, now=NOW + 5)(golden("NDATA")).replies
    assert 1 == len(sparkplug(memory=memory, now=NOW + 11)(golden("NDATA")).replies)
    content = sparkplug(memory=memory, now=NOW + 12)([*golden("NBIRTH"), made("NDATA", seq=1), *golden("NDATA")])
    assert (3, 0, 0) == (len(content.events), len(content.unfit), len(content.replies))
    # As rows, only the metrics themselves are unfit.
    named = {"name": "x", "datatype": 10, "double_value": 1.0}
    content = sparkplug(rows=True)([made("NDATA", named, {"alias": 7, "int_value": 1}, {"alias": 8, "int_value": 1})])
    assert (1, [2]) == (len(content.events), [event.count for event in content.unfit])


def test_a_gap_in_the_numbers_asks_for_a_birth() -> None:
    """The message behind it is read all the same, and numbers begin again after 255."""
    decode = sparkplug()
    content = decode([*golden("NBIRTH"), *(made("NDATA", seq=number % 256) for number in range(1, 300))])
    assert () == content.replies
    content = decode([made("NDATA", seq=60)])
    assert (1, 1, ()) == (len(content.events), len(content.replies), content.unfit)


def test_no_metric_is_lost() -> None:
    """One that comes again is another event, as in a history; one with the name of another field is renamed."""
    old = {"name": "t", "datatype": 10, "double_value": 1.0, "timestamp": 5, "is_historical": True}
    new = {"name": "t", "datatype": 10, "double_value": 2.0, "timestamp": 6}
    status = {"name": "status", "datatype": 12, "string_value": "warm"}
    first, second = events(sparkplug()([made("NBIRTH", old, new, status, seq=0)]))
    assert (1.0, 5, "online", "warm") == (first["t"], first["at"], first["status"], first["metric/status"])
    assert (2.0, 6) == (second["t"], second["at"])
    (event,) = events(sparkplug()([made("NBIRTH", old, seq=0)]))
    assert (True, 1_700_000_000_000) == (event["historical"], event["at"])


def test_data_sets_and_templates_are_json() -> None:
    """A data set is a list of rows, a template an object; its definition is no value."""
    table = {
        "columns": ["n", "s"],
        "types": [1, 12],
        "rows": [{"elements": [{"int_value": 255}, {"string_value": "a"}]}],
    }
    inner = [{"name": "speed", "datatype": 10, "double_value": 1.5}]
    (event,) = events(
        sparkplug()(
            [
                made(
                    "NBIRTH",
                    {"name": "table", "datatype": 16, "dataset_value": table},
                    {"name": "motor", "datatype": 19, "template_value": {"metrics": inner}},
                    {"name": "type", "datatype": 19, "template_value": {"metrics": inner, "is_definition": True}},
                    seq=0,
                )
            ]
        )
    )
    assert ([{"n": -1, "s": "a"}], {"speed": 1.5}) == (event["table"], event["motor"])
    assert "type" not in event


VALUES: Mapping[int, tuple[str, st.SearchStrategy[Any]]] = {
    1: ("int_value", st.integers(-(2**7), 2**7 - 1)),
    2: ("int_value", st.integers(-(2**15), 2**15 - 1)),
    3: ("int_value", st.integers(-(2**31), 2**31 - 1)),
    4: ("long_value", st.integers(-(2**63), 2**63 - 1)),
    7: ("int_value", st.integers(0, 2**32 - 1)),
    8: ("long_value", st.integers(0, 2**64 - 1)),
    10: ("double_value", st.floats(allow_nan=False, allow_infinity=False)),
    11: ("boolean_value", st.booleans()),
    12: ("string_value", st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
}
METRICS = st.dictionaries(
    st.text("abc/ é", min_size=1, max_size=5),
    st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind][1])),
    max_size=6,
)


@given(metrics=METRICS, rows=st.booleans(), changes=st.data())
def test_values_are_those_that_were_written(
    metrics: dict[str, tuple[int, Any]],
    rows: bool,  # noqa: FBT001 - drawn
    changes: st.DataObject,
) -> None:
    """By names in a birth, and by the numbers that stand for them in the data behind it."""
    decode = sparkplug(rows=rows)
    aliases = {name: number for number, name in enumerate(metrics)}

    def written(name: str, value: Any, *, is_birth: bool) -> dict[str, Any]:
        kind = metrics[name][0]
        bits = 2**32 if VALUES[kind][0] == "int_value" else 2**64
        stored = value % bits if isinstance(value, int) and not isinstance(value, bool) else value
        labels = {"name": name, "datatype": kind} if is_birth else {}
        return {**labels, "alias": aliases[name], VALUES[kind][0]: stored}

    later = {name: changes.draw(VALUES[kind][1]) for name, (kind, _) in metrics.items() if changes.draw(st.booleans())}
    content = decode(
        [
            made("NBIRTH", *(written(name, value, is_birth=True) for name, (_, value) in metrics.items()), seq=0),
            made("NDATA", *(written(name, value, is_birth=False) for name, value in later.items()), seq=1),
        ]
    )
    assert ((), ()) == (content.unfit, content.replies)
    own = {"group": "works", "edge_node": "press", "status": "online", "at": 1_700_000_000_000}
    first = {name: value for name, (_, value) in metrics.items()}
    expected: list[dict[str, Any]] = []
    for seq, values in enumerate((first, later)):
        if rows and values:
            expected += ({**own, "seq": seq, "name": name, "value": value} for name, value in values.items())
        else:
            expected.append({**own, "seq": seq, **values})
    assert expected == events(content)


HOSTILE_TOPICS = st.sampled_from(
    [*_TOPICS.values(), COMMANDS, "spBv1.0/STATE/host", "spBv1.0", "a/b", "spBv1.0/a/NDATA/b/c", "x/spBv1.0/a/NDATA/b"]
)
HOSTILE_BYTES = st.binary(max_size=12) | st.sampled_from(
    [bytes.fromhex(text) for text in GOLDEN.values()] + [b"\x12\0", b"\x12\x02\x10\x05", b"\x12\x04\x0a\x02\xff\xff"]
)


@given(given=st.lists(st.tuples(HOSTILE_TOPICS, HOSTILE_BYTES), max_size=5), rows=st.booleans())
def test_hostile_messages_raise_nothing_and_vanish_nowhere(
    given: Sequence[tuple[str, bytes]],
    rows: bool,  # noqa: FBT001 - drawn
) -> None:
    """Every message of data has events or is reported; commands and the states of hosts are no data."""
    decode, together = sparkplug(rows=rows), sparkplug(rows=rows)
    messages = [Message(topic, payload, 0) for topic, payload in given]
    alone = [decode([one]) for one in messages]
    content = together(messages)
    assert [event for one in alone for event in events(one)] == events(content)
    assert tuple(report for one in alone for report in one.unfit) == content.unfit
    for one, read in zip(messages, alone, strict=True):
        assert len(read.events) or read.unfit or "CMD" in one.topic or "STATE" in one.topic


@pytest.mark.parametrize(
    ("topic", "payload", "why"),
    [
        ("spBv1.0/a/WRONG/b", b"", "the topic is none of Sparkplug"),
        (_TOPICS["NDATA"], b"\xff", "the message is no payload of Sparkplug B"),
        (_TOPICS["NDATA"], b"\x2a\x01a", "the message is compressed"),
        (_TOPICS["NDATA"], b"x" * (LARGEST_RAW_MESSAGE + 1), "may have 8,000,000"),
        (_TOPICS["NDATA"], b"\x12\0" * 100_001, "100,001 events"),
        (_TOPICS["NBIRTH"], Payload(metrics=[{"name": "x" * 501}]).SerializeToString(), "501 characters"),
    ],
)
def test_what_is_unfit_says_why(topic: str, payload: bytes, why: str) -> None:
    """With the topic that it came on."""
    (report,) = sparkplug()([Message(topic, payload, 0)]).unfit
    assert report.reason.startswith(f"on {topic}: ")
    assert why in report.reason


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all edge nodes together; those that are gone, or born again, are not counted."""
    monkeypatch.setattr(sparkplug_decoder, "_MOST_KNOWN", 3)
    memory: dict[str, EdgeNode] = {}
    metrics = [{"name": name, "datatype": 11, "boolean_value": True} for name in ("a", "b")]
    decode = sparkplug(memory=memory)
    births = [made("NBIRTH", *metrics, seq=0), made("NBIRTH", *metrics, seq=0), made("DBIRTH", *metrics, seq=1)]
    assert ["more than 3 metrics"] == [
        "more than 3 metrics" for report in decode(births).unfit if "more than 3 metrics" in report.reason
    ]
    assert () == decode([*golden("NDEATH"), made("DBIRTH", *metrics, seq=1)]).unfit
    # Who goes on with what was remembered counts it too.
    assert 1 == len(sparkplug(memory=memory)([made("NBIRTH", *metrics, *metrics, seq=0), births[0], births[2]]).unfit)


def test_without_its_topic_a_message_says_nothing() -> None:
    """So it is refused wherever there is none."""
    batch, unfit = decoder(SparkplugMessages(), Schema.of(t=Kind.FLOAT))([b"", b"x"])
    assert (0, 2) == (len(batch), len(unfit))
    assert "depends on its topic" in unfit[0].reason
