"""Protocol Buffers: what the library has written is what is read, and no descriptor or message harms a host."""

import base64
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.formats.decoders import Decoder, decoder
from bridge.messages import MOST_RAW_EVENTS
from bridge.raw_events import REST_COLUMN, Unfit, events_in, json_columns
from dags import Kind, Schema
from dags.message_formats import ProtobufMessages, UnusableFormat

ONE, OPTIONAL, MANY = "one", "optional", "many"
_LABELS: Mapping[bool, Any] = {True: 3, False: 1}
_TYPES: Mapping[str, Any] = {"double": 1, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12}


def message_type(name: str, fields: Mapping[str, str], *, entry: bool = False) -> descriptor_pb2.DescriptorProto:
    """A message type, with each field as `[optional|many] TYPE`; a type in capitals is another one of the file."""
    kind = descriptor_pb2.DescriptorProto(name=name)
    kind.options.map_entry = entry
    for number, (field_name, text) in enumerate(fields.items(), 1):
        *how, type_name = text.split()
        field = kind.field.add(name=field_name, number=number, label=_LABELS[MANY in how])
        if type_name in _TYPES:
            field.type = _TYPES[type_name]
        else:
            field.type_name = type_name
            field.type = field.TYPE_ENUM if type_name == ".acme.Colour" else field.TYPE_MESSAGE
        if OPTIONAL in how:
            field.oneof_index, field.proto3_optional = len(kind.oneof_decl), True
            kind.oneof_decl.add(name=f"_{field_name}")
    return kind


def file_of(*kinds: descriptor_pb2.DescriptorProto, imports: Sequence[str] = ()) -> descriptor_pb2.FileDescriptorProto:
    """A file of proto3."""
    file = descriptor_pb2.FileDescriptorProto(name="acme.proto", package="acme", syntax="proto3", dependency=imports)
    file.message_type.extend(kinds)
    colour = file.enum_type.add(name="Colour")
    for number, name in enumerate(("RED", "GREEN")):
        colour.value.add(name=name, number=number)
    return file


def encoded(*files: descriptor_pb2.FileDescriptorProto) -> str:
    """A descriptor as a source has it."""
    return base64.b64encode(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()).decode()


STAMPS = timestamp_pb2.DESCRIPTOR.name
_READING = message_type(
    "Reading",
    {
        "b": "optional bool",
        "i": "int64",
        "f": "double",
        "s": "optional string",
        "at": ".google.protobuf.Timestamp",
        "j": "many .acme.Place",
        "big": "uint64",
        "colour": ".acme.Colour",
        "picture": "bytes",
        "numbers": "many int32",
        "counts": "many .acme.Reading.CountsEntry",
    },
)
_READING.nested_type.add().CopyFrom(message_type("CountsEntry", {"key": "int32", "value": ".acme.Place"}, entry=True))
# A choice of two, of which one at most is set.
_READING.oneof_decl.insert(0, descriptor_pb2.OneofDescriptorProto(name="choice"))
for _field in _READING.field:
    if _field.proto3_optional:
        _field.oneof_index += 1
for _number, _name in enumerate(("left", "right"), 20):
    _READING.field.add(name=_name, number=_number, type=9, label=1, oneof_index=0)
FILE = file_of(_READING, message_type("Place", {"x": "int32", "name": "string"}), imports=[STAMPS])
FORM = ProtobufMessages(descriptor=encoded(FILE), message="acme.Reading")
DELIMITED = FORM.model_copy(update={"delimited": True})
SCHEMA = Schema.of(
    {"b": Kind.BOOLEAN, "i": Kind.INTEGER, "f": Kind.FLOAT, "s": Kind.STRING, "at": Kind.TIMESTAMP}
).plus("j", Kind.JSON)
WHOLE = SCHEMA
for _name, _kind in {
    "big": Kind.FLOAT,
    "colour": Kind.STRING,
    "picture": Kind.STRING,
    "numbers": Kind.JSON,
    "counts": Kind.JSON,
    "left": Kind.STRING,
    "right": Kind.STRING,
}.items():
    WHOLE = WHOLE.plus(_name, _kind)


def class_of(file: descriptor_pb2.FileDescriptorProto, name: str) -> Any:
    """The library's own class of a message type."""
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


READING = class_of(FILE, "acme.Reading")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
PLACES = st.fixed_dictionaries({"x": INT32, "name": TEXTS})
MOMENTS = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)).map(  # noqa: DTZ001 - zone is next
    lambda moment: moment.replace(tzinfo=UTC)
)
EVENTS = st.fixed_dictionaries(
    {
        "i": INT64,
        "f": st.floats(allow_nan=False, allow_infinity=False),
        "j": st.lists(PLACES, max_size=2),
        "big": st.integers(0, 2**63),
        "colour": st.sampled_from(["RED", "GREEN"]),
        "picture": st.binary(max_size=5),
        "numbers": st.lists(INT32, max_size=3),
        "counts": st.dictionaries(INT32, PLACES, max_size=2),
    },
    optional={"b": st.booleans(), "s": TEXTS, "at": MOMENTS},
)
CHOICES: st.SearchStrategy[dict[str, str]] = (
    st.just({}) | st.fixed_dictionaries({"left": TEXTS}) | st.fixed_dictionaries({"right": TEXTS})
)


def written(event: Mapping[str, Any]) -> bytes:
    """An event, as the library writes it."""
    message = READING(**{name: value for name, value in event.items() if name not in {"counts", "at"}})
    for key, place in event.get("counts", {}).items():
        message.counts[key].CopyFrom(type(message.counts[key])(**place))
    if "at" in event:
        message.at.FromDatetime(event["at"])
    data: bytes = message.SerializeToString()
    return data


def delimited(events: Iterable[bytes]) -> bytes:
    """Events with their lengths."""
    text = bytearray()
    for event in events:
        length = len(event)
        while length > 0x7F:
            text.append(length & 0x7F | 0x80)
            length >>= 7
        text.append(length)
        text += event
    return bytes(text)


def as_json(event: Mapping[str, Any]) -> dict[str, Any]:
    """The same event in JSON."""
    more = {"picture": base64.b64encode(event["picture"]).decode()}
    more |= {"at": event["at"].isoformat()} if "at" in event else {}
    return {**event, **more, "counts": {str(key): place for key, place in event["counts"].items()}}


@given(events=st.lists(st.tuples(EVENTS, CHOICES).map(lambda parts: parts[0] | parts[1]), max_size=3))
@example(
    events=[
        {
            "i": 0,
            "f": 0.0,
            "j": [],
            "big": 0,
            "colour": "RED",
            "picture": b"",
            "numbers": [],
            "counts": {},
            "at": datetime(1969, 12, 31, 23, 59, 59, 999_900, tzinfo=UTC),
        }
    ]
)
def test_events_in_protobuf_are_those_in_json(events: list[dict[str, Any]]) -> None:
    """Alone or with their lengths, whether all fields are declared or some of them."""
    messages = [written(event) for event in events]
    for schema in (SCHEMA, WHOLE):
        expected, _ = events_in([json.dumps([as_json(event) for event in events]).encode()], schema)
        alone, unfit = decoder(FORM, schema)(messages)
        together, unfit_together = decoder(DELIMITED, schema)([delimited(messages)])
        assert ((), ()) == (unfit, unfit_together)
        assert rows(expected) == rows(alone) == rows(together)


def rows(batch: Any) -> list[dict[str, Any]]:
    """The events of a batch; what is JSON in them is in no order."""
    texts = {*json_columns(batch.schema), REST_COLUMN}
    return [
        {name: json.loads(value) if name in texts and value else value for name, value in event.items()}
        for event in batch.to_pylist()
    ]


HOSTILE = st.lists(
    st.binary(max_size=12) | st.sampled_from([b"\x08\x01", b"\x32\x02\x08\x01", b"\x11", b"\x0b", b"\xff" * 10]),
    max_size=5,
).map(b"".join)


@pytest.mark.parametrize("form", [FORM, DELIMITED], ids=["alone", "delimited"])
@pytest.mark.parametrize("schema", [SCHEMA, WHOLE], ids=["some", "all"])
def test_hostile_bytes_raise_nothing_and_vanish_nowhere(form: ProtobufMessages, schema: Schema) -> None:
    """Every message has events or is reported, and no message changes what is read of another."""
    decode = decoder(form, schema)

    @given(messages=st.lists(HOSTILE | EVENTS.map(written), max_size=4))
    def holds(messages: list[bytes]) -> None:
        batch, unfit = decode(messages)
        batch.validate(full=True)
        alone = [decode([message]) for message in messages]
        assert repr(rows(batch)) == repr([event for events, _ in alone for event in rows(events)])
        assert list(unfit) == [refused for _, reports in alone for refused in reports]
        for message, (events, reports) in zip(messages, alone, strict=True):
            assert len(events) or reports or (form.delimited and not message)

    holds()


def unfit_of(decode: Decoder, message: bytes) -> list[Unfit]:
    """What is unfit of a message."""
    return list(decode([message])[1])


def test_what_is_unfit_is_reported() -> None:
    """With the reason, and nothing beside it suffers."""
    decode = decoder(DELIMITED, SCHEMA)
    far = READING(i=1)
    far.at.seconds = 1 << 60
    events, unfit = decode([delimited([written({"i": 1}), b"\xff", READING(f=float("nan")).SerializeToString()])])
    assert [1] == events.column("i").to_pylist()
    assert ["the event is no acme.Reading: Error parsing message", "the field 'f' should be of kind float"] == [
        event.reason.partition(" with")[0] for event in unfit
    ]
    assert "cannot be read" in unfit_of(decoder(FORM, SCHEMA), far.SerializeToString())[0].reason
    (report,) = unfit_of(decode, b"\x05abc")
    assert "the event at byte 1 has 5 bytes, and 3 are left" in report.reason
    assert [1] == [event.count for event in unfit_of(decode, b"\xff" * 9)]


def test_unknown_numbers_and_fields_are_those_of_newer_senders() -> None:
    """A number that an enumeration does not have stays one, and a field that a type does not have is skipped."""
    newer = READING(i=3).SerializeToString() + b"\x40\x07" + b"\xf8\x07\x01"
    (event,) = rows(decoder(FORM, Schema.of({"i": Kind.INTEGER}))([newer])[0])
    assert (3, 7) == (event["i"], event[REST_COLUMN]["colour"])
    assert "left" not in event[REST_COLUMN]


def test_events_are_bounded() -> None:
    """In number and size, and in what their objects hold."""
    decode = decoder(DELIMITED, SCHEMA)
    assert MOST_RAW_EVENTS == len(decode([b"\0" * MOST_RAW_EVENTS])[0])
    (report,) = unfit_of(decode, b"\0" * (MOST_RAW_EVENTS + 1))
    assert f"the message has {MOST_RAW_EVENTS + 1:,} events" in report.reason
    (report,) = unfit_of(decoder(FORM, SCHEMA), READING(picture=b"x" * 1_000_001).SerializeToString())
    assert "may have 1,000,000" in report.reason
    (report,) = unfit_of(decoder(FORM, SCHEMA), READING(s="\x01" * 900_000).SerializeToString())
    assert "may have 4,000,000" in report.reason
    (report,) = unfit_of(decoder(FORM, SCHEMA), b"\x0a" * 8_000_001)
    assert "send several" in report.reason
    begun = time.process_time()
    events, (report,) = decode([delimited([b"\x32\0" * 49_000] * 80)])
    assert (80, "the message holds too many values; send several") == (len(events) + report.count, report.reason)
    assert time.process_time() - begun < 3


def refusal(**fields: Any) -> str:
    """Why a format cannot be used."""
    with pytest.raises(UnusableFormat) as refused:
        decoder(FORM.model_copy(update=fields), SCHEMA)
    return str(refused.value)


def test_descriptors_are_checked() -> None:
    """What no message can be read by is refused at once."""
    assert "no FileDescriptorSet" in refusal(descriptor="%")
    assert "no FileDescriptorSet" in refusal(descriptor=base64.b64encode(b"hello world").decode())
    assert "no FileDescriptorSet" in refusal(descriptor="Pú")
    assert "the descriptor has no message type 'acme.Other'; it has acme.Place, acme.Reading" == refusal(
        message="acme.Other"
    )
    missing = file_of(message_type("Reading", {"a": "string"}), imports=["other.proto"])
    assert "lacks the file 'other.proto', which 'acme.proto' imports" in refusal(descriptor=encoded(missing))
    cycle = file_of(message_type("Reading", {"a": "string"}), imports=["acme.proto"])
    assert "imports itself" in refusal(descriptor=encoded(cycle))
    undefined = file_of(message_type("Reading", {"a": ".acme.Nothing"}))
    assert "the file 'acme.proto' of the descriptor cannot be used" in refusal(descriptor=encoded(undefined))
    endless = file_of(message_type("Reading", {"a": ".acme.Other"}), message_type("Other", {"b": "many .acme.Reading"}))
    assert "'acme.Reading' refers to itself" in refusal(descriptor=encoded(endless))
    deep = file_of(
        message_type("Reading", {"a": ".acme.M0"}),
        *(message_type(f"M{at}", {"a": f".acme.M{at + 1}"}) for at in range(3_000)),
        message_type("M3000", {"a": "string"}),
    )
    assert "deeper than 100 levels" in refusal(descriptor=encoded(deep))


def test_types_that_stand_for_a_value_are_that_value() -> None:
    """Times in any field, and wrappers."""
    file = file_of(
        message_type("Reading", {"t": ".google.protobuf.DoubleValue", "n": ".google.protobuf.UInt64Value"}),
        imports=["google/protobuf/wrappers.proto"],
    )
    decode = decoder(ProtobufMessages(descriptor=encoded(file), message="acme.Reading"), Schema.of(t=Kind.FLOAT))
    batch, _ = decode([b"", b"\x0a\0\x12\x02\x08\x05"])
    assert [{"t": None, REST_COLUMN: None}, {"t": 0.0, REST_COLUMN: '{"n":5}'}] == batch.to_pylist()


def test_times_end_where_years_do() -> None:
    """The first and the last microsecond."""
    for moment in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)):
        (event,) = rows(decoder(FORM, SCHEMA)([written({"at": moment})])[0])
        assert moment - event["at"] < timedelta(milliseconds=1)
