"""The topics and the wire format of streams between jobs."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge import topics
from bridge.wire import MOST_MESSAGE_BYTES, Frame, FrameKind, MalformedFrame, cut, decode, encode

NAMES = st.text("abc0", min_size=1, max_size=3)


def test_every_topic_has_its_documented_form() -> None:
    """Each kind of topic is exactly as documented."""
    assert [
        "braid/1/streams/7/out",
        "braid/1/again/7/out",
        "braid/1/have/7/out",
        "braid/1/dead/7",
        "braid/1/out/acme/weather/alarm",
        "braid/1/jobs/3/plan",
        "braid/1/jobs/3/status",
        "braid/1/hosts/one/status",
        "braid/1/dead/unread/sensors/street",
        "braid/1/managers/one",
    ] == [
        topics.stream(7, "out"),
        topics.again(7, "out"),
        topics.have(7, "out"),
        topics.dead(7),
        topics.output("acme", "weather", "alarm"),
        topics.job("3", "plan"),
        topics.job("3", "status"),
        topics.host("one", "status"),
        topics.unread("sensors/street"),
        topics.manager("one"),
    ]


@given(st.tuples(NAMES, NAMES, NAMES), st.tuples(NAMES, NAMES, NAMES))
def test_different_outputs_have_different_topics(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    """Two outputs share a topic only if tenant, dataflow and sink are the same."""
    assert (one == other) == (topics.output(*one) == topics.output(*other))


@given(st.integers(0, 99), NAMES)
def test_topics_of_different_kinds_differ(instance: int, name: str) -> None:
    """A stream, its receiver's answers, its dead letters, an output and a job's topics never coincide."""
    kinds = [
        topics.stream(instance, name),
        topics.again(instance, name),
        topics.have(instance, name),
        topics.unread(name),
        topics.host(name, name),
        topics.dead(instance),
        topics.output(name, name, name),
        topics.job(str(instance), name),
        topics.manager(name),
    ]
    assert len(kinds) == len(set(kinds))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats()),
    (pa.string(), TEXT),
    (pa.bool_(), st.booleans()),
    (pa.binary(), st.binary(max_size=8)),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=3)),
]


@st.composite
def batches(draw: st.DrawFn, least: int = 0, most: int = 12) -> pa.RecordBatch:
    """Any batch of events, sometimes cut out of a larger one."""
    rows = draw(st.integers(least, most))
    kinds = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    before = draw(st.integers(0, 3))
    columns = [
        pa.array(draw(st.lists(st.none() | values, min_size=before + rows, max_size=before + rows)), kind)
        for kind, values in kinds
    ]
    fields = [pa.field(f"c{number}", kind) for number, (kind, _) in enumerate(kinds)]
    return pa.record_batch(columns, schema=pa.schema(fields)).slice(before)


def _same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    # The text of a NaN is equal to itself.
    return bool(one.schema.equals(other.schema, check_metadata=True)) and repr(one.to_pylist()) == repr(
        other.to_pylist()
    )


def _frame(events: pa.RecordBatch, first: int = 3) -> Frame:
    return Frame(instance=7, port="out", epoch=2, first=first, events=events)


EVENTS = pa.record_batch({"n": [1, 2, 3, None, 5], "s": ["a", "é", None, "", "long enough"]})


@given(batches(), st.integers(0, 2**63), st.integers(0, 2**63), st.integers(0, 2**63), TEXT)
def test_a_frame_of_events_survives_the_wire(
    events: pa.RecordBatch, instance: int, epoch: int, first: int, port: str
) -> None:
    """Events of any type, including nulls and NaN, arrive unchanged, with the frame's numbers."""
    frame = Frame(instance=instance, port=port, epoch=epoch, first=first, events=events)
    got = decode(encode(frame))
    assert (instance, port, epoch, first, FrameKind.DATA, "") == (
        got.instance,
        got.port,
        got.epoch,
        got.first,
        got.kind,
        got.marker,
    )
    assert (len(events), first + len(events)) == (got.count, got.end)
    assert _same(events, got.events)


@pytest.mark.parametrize(("kind", "count"), [(FrameKind.MARKER, 1), (FrameKind.OPEN, 0), (FrameKind.CLOSE, 0)], ids=str)
def test_a_frame_without_events_survives_the_wire(kind: FrameKind, count: int) -> None:
    """A marker takes one number, the beginning and the end of a stream take none, and all arrive unchanged."""
    frame = Frame(instance=7, port="öut", epoch=2, first=5, kind=kind, marker="cut 4 é")
    got = decode(encode(frame))
    assert frame == got
    assert (count, 5 + count) == (got.count, got.end)


def test_the_metadata_has_everything_but_the_events() -> None:
    """The schema of a message has the frame's version, producer, numbers and kind."""
    with pa.ipc.open_stream(encode(_frame(EVENTS))) as reader:
        metadata = reader.schema.metadata
    assert {
        b"braid": b"1",
        b"instance": b"7",
        b"port": b"out",
        b"epoch": b"2",
        b"first": b"3",
        b"count": b"5",
        b"kind": b"data",
        b"marker": b"",
    } == metadata


def test_the_metadata_of_the_events_stays_behind() -> None:
    """The schema metadata of a producer's batch neither travels nor overrides the frame's."""
    events = EVENTS.replace_schema_metadata({"pandas": "x", "first": "99"})
    message = encode(_frame(events))
    with pa.ipc.open_stream(message) as reader:
        assert b"pandas" not in reader.schema.metadata
    got = decode(message)
    assert (3, None) == (got.first, got.events.schema.metadata)


def _altered(**changes: bytes | None) -> bytes:
    """A frame's message with other metadata; None leaves an entry out."""
    with pa.ipc.open_stream(encode(_frame(EVENTS))) as reader:
        metadata = reader.schema.metadata | {name.encode(): value for name, value in changes.items()}
    kept = {name: value for name, value in metadata.items() if value is not None}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, EVENTS.schema.with_metadata(kept)) as writer:
        writer.write_batch(EVENTS)
    message: bytes = sink.getvalue().to_pybytes()
    return message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"braid": b"2"}, "the frame has version 2, not 1"),
        ({"braid": None}, "the frame has version none, not 1"),
        ({"count": b"4"}, "the frame claims 4 numbers, but has 5"),
        ({"kind": b"marker"}, "the frame claims 5 numbers, but has 1"),
        ({"count": None}, "the message is no frame: b'count'"),
        ({"count": b"x"}, "the message is no frame: invalid literal for int() with base 10: b'x'"),
        ({"first": None}, "the message is no frame: b'first'"),
        ({"epoch": b""}, "the message is no frame: invalid literal for int() with base 10: b''"),
        ({"kind": b"other"}, "the message is no frame: 'other' is not a valid FrameKind"),
    ],
    ids=str,
)
def test_wrong_metadata_is_refused(changes: dict[str, bytes | None], message: str) -> None:
    """Another version, wrong or missing metadata and a wrong count are refused with the reason."""
    with pytest.raises(MalformedFrame) as refused:
        decode(_altered(**changes))
    assert message == str(refused.value)


@pytest.mark.parametrize(
    "changes", [{"braid": b"\xff"}, {"port": b"\xff"}, {"marker": b"\xff"}, {"kind": b"\xff"}], ids=str
)
def test_metadata_that_is_no_text_is_refused(changes: dict[str, bytes | None]) -> None:
    """Metadata that is not UTF-8 raises only the error of a malformed frame."""
    with pytest.raises(MalformedFrame, match="the message is no frame: 'utf-8' codec can't decode"):
        decode(_altered(**changes))


def test_a_frame_has_one_batch() -> None:
    """Events in further batches are refused and not dropped silently."""
    with pa.ipc.open_stream(encode(_frame(EVENTS))) as reader:
        schema = reader.schema
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(EVENTS.replace_schema_metadata(schema.metadata))
        writer.write_batch(EVENTS.replace_schema_metadata(schema.metadata))
    with pytest.raises(MalformedFrame, match=r"^the frame has 2 batches of events, not one$"):
        decode(sink.getvalue().to_pybytes())


def test_events_that_lead_out_of_their_message_are_refused() -> None:
    """Text offsets beyond the data are found when the frame is read, not when a task reads the value and crashes."""
    whole = encode(_frame(pa.record_batch({"s": ["a" * 259, ""]})))
    offsets = (259).to_bytes(4, "little") * 2
    assert 1 == whole.count(offsets)
    with pytest.raises(MalformedFrame, match="the message is no frame: "):
        decode(whole.replace(offsets, (1_000_000).to_bytes(4, "little") + offsets[4:]))


def test_columns_whose_names_are_no_text_are_refused() -> None:
    """A name that is not UTF-8 is found when the frame is read, not when a task looks for a column."""
    whole = encode(_frame(pa.record_batch({"temperature": [1]})))
    assert 1 == whole.count(b"temperature")
    with pytest.raises(MalformedFrame, match="the message is no frame: 'utf-8' codec can't decode"):
        decode(whole.replace(b"temperature", b"\xffemperature"))


@given(st.binary(max_size=200))
@example(b"")
@example(encode(_frame(EVENTS))[:-1][:40])
@example(b'{"instance": 7}')
def test_bytes_that_are_no_frame_are_refused(message: bytes) -> None:
    """All other bytes on a stream's topic raise one error only."""
    with pytest.raises(MalformedFrame):
        decode(message)


@given(st.data())
def test_a_damaged_frame_is_refused_or_can_be_read(data: st.DataObject) -> None:
    """Wherever bytes of a frame are changed, removed or added, no other error than a malformed frame is raised."""
    message = bytearray(encode(_frame(EVENTS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(message) - 1)))
        gone = data.draw(st.integers(0, 9))
        message[at : at + gone] = data.draw(st.binary(max_size=9))
    try:
        got = decode(bytes(message))
    except MalformedFrame:
        return
    assert len(got.events.to_pylist()) == len(got.events)


@given(batches(least=1), st.data())
def test_since_leaves_out_earlier_events(events: pa.RecordBatch, data: st.DataObject) -> None:
    """A frame since a number has that number first, the same producer and exactly the events from there on."""
    skipped = data.draw(st.integers(0, len(events)))
    rest = _frame(events).since(3 + skipped)
    assert (7, "out", 2, 3 + skipped, 3 + len(events)) == (rest.instance, rest.port, rest.epoch, rest.first, rest.end)
    assert _same(events.slice(skipped), rest.events)
    assert _same(events.slice(skipped), decode(encode(rest)).events)


@given(batches(), st.integers(1, 200))
def test_cut_keeps_order_and_limit(events: pa.RecordBatch, most: int) -> None:
    """The pieces put together are the whole, none is empty, and none but a single event exceeds the limit."""
    pieces = list(cut(events, most))
    assert repr(events.to_pylist()) == repr([row for piece in pieces for row in piece.to_pylist()])
    assert [] == [len(piece) for piece in pieces if not len(piece) or (len(piece) > 1 and piece.nbytes > most)]


def test_cut_leaves_alone_what_fits() -> None:
    """A batch within the limit stays one piece, and no events make no piece."""
    assert [EVENTS] == list(cut(EVENTS))
    assert [EVENTS] == list(cut(EVENTS, EVENTS.nbytes))
    assert 1 < len(list(cut(EVENTS, EVENTS.nbytes - 1)))
    assert [] == list(cut(EVENTS.slice(0, 0)))
    assert 1_000_000 == MOST_MESSAGE_BYTES
