"""Topics of sources with wildcards: what they match, whose they are, and how levels become fields."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from bridge import source_topics
from bridge.embedded.access import covers, why_no_filter
from bridge.formats.decoders import decoder
from bridge.messages import Message
from bridge.raw_events import REST_COLUMN, arrow_schema, events_in
from bridge.source_topics import FeedTopics, events_on
from dags import Kind, Schema
from dags.message_formats import CsvMessages, JsonLinesMessages, MessageFormat
from dags.source_topics import overlap, source_topic, why_no_source_topic

LEVEL = st.sampled_from(["a", "b", ""])
TOPIC = st.lists(LEVEL, min_size=1, max_size=4).map(lambda levels: "/".join(["x", *levels]))
FILTER = st.builds(
    lambda levels, rest: "/".join(["x", *levels, *rest]),
    st.lists(LEVEL | st.just("+"), max_size=4),
    st.sampled_from([[], ["#"]]),
)
EVERY = ["/".join(["x", *levels]) for size in range(5) for levels in product(["a", "b", "c", ""], repeat=size)]
SCHEMA = Schema.of(machine=Kind.STRING, t=Kind.FLOAT)
PATTERN = source_topic("plant/{machine}/temperature")


def message(topic: str, content: Any) -> Message:
    payload = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Message(topic, payload, 1)


@given(FILTER, TOPIC)
def test_a_filter_matches_the_topics_that_it_matches_for_a_broker(topic_filter: str, topic: str) -> None:
    """As the client's library has it, and the embedded broker."""
    assert topic_matches_sub(topic_filter, topic) == overlap(topic_filter, topic) == covers(topic_filter, topic)


@given(FILTER, FILTER)
def test_filters_overlap_if_some_topic_matches_both(one: str, other: str) -> None:
    """Whichever is asked first."""
    common = any(topic_matches_sub(one, topic) and topic_matches_sub(other, topic) for topic in EVERY)
    assert common == overlap(one, other) == overlap(other, one)


@given(st.text(alphabet="ab/+#{}_", max_size=12))
def test_every_topic_is_a_filter_or_refused(text: str) -> None:
    """What is accepted is a filter that a broker takes, with a plain first level, and with each field once."""
    topic = source_topic(text)
    if text and not why_no_source_topic(text):
        assert why_no_filter(topic.filter) is None
        first = topic.filter.partition("/")[0]
        assert first == text.partition("/")[0]
        assert not set("+#{}") & set(first)
        assert not set("{}") & set(topic.filter)
        assert text.count("{") == len(topic.fields)


_WILD = "begins with a wildcard; write the first level out, because it says whose the topic is"
_TOO_LONG = "is no topic filter: it is too long, or holds a zero"
_BRACES = "has braces within a level; they stand around the name of a whole level, as in plant/{machine}"


@pytest.mark.parametrize(
    ("text", "here", "outside"),
    [
        ("+/a", _WILD, ""),
        ("#", _WILD, ""),
        ("{a}/b", _WILD, ""),
        ("a/{b}/{b}", "names the field b twice; a field is made of one level", ...),
        ("{b}/{b}", _WILD, "names the field b twice; a field is made of one level"),
        ("a/x{b}", _BRACES, ...),
        ("a/{}", _BRACES, ...),
        ("x}/a", _WILD, _BRACES),
        ("a/{_rest}", "names the field _rest, which is Braid's own; choose another name", ...),
        ("a/b+", "is no topic filter: a wildcard is alone in its level", ...),
        ("a/##", "is no topic filter: a wildcard is alone in its level", ...),
        ("a/#/b", "is no topic filter: # comes last", ...),
        ("", "", "is no topic filter: it is empty"),
        # Other rules hold for plain topics of Braid's own broker.
        ("a\0", "", _TOO_LONG),
        ("+\0/#", _WILD, "is no topic filter: a wildcard is alone in its level"),
        ("a/+/" + "é" * 32_765 + "b", "", ""),
        ("a/+/" + "é" * 32_766, _TOO_LONG, ...),
        ("a/+" + "/b" * 199, "", ""),
        ("a/+" + "/b" * 200, "is no topic filter: it has too many levels", ...),
    ],
)
def test_what_is_no_topic_says_why(text: str, here: str, outside: Any) -> None:
    """On another broker the first level may be a wildcard too; the dots stand for the same reason."""
    assert here == why_no_source_topic(text)
    assert (here if outside is ... else outside) == why_no_source_topic(text, outside=True)


def test_levels_are_no_fields_of_messages() -> None:
    """What a message itself has is the rest of the schema."""
    assert Schema.of(t=Kind.FLOAT) == PATTERN.own_fields(SCHEMA)


@pytest.mark.parametrize("text", ["a", "a/b", "/a", "a//b", "é/ü", "$x/y", "a/b c"])
def test_a_plain_topic_is_its_own_filter(text: str) -> None:
    """It has no fields, and it is what was written."""
    topic = source_topic(text)
    assert (text, {}, True) == (topic.filter, dict(topic.fields), topic.is_plain)


EVENT = st.fixed_dictionaries(
    {},
    optional={
        "t": st.floats(allow_nan=False, allow_infinity=False) | st.just("warm"),
        "machine": st.none() | st.text(max_size=3) | st.integers(0, 3) | st.lists(st.booleans(), max_size=2),
        "other": st.text(max_size=5),
        'say "machine":': st.booleans(),
    },
)


@given(st.lists(st.tuples(st.sampled_from(["m1", "m2", "", "ü"]), st.lists(EVENT, max_size=3) | EVENT), max_size=8))
def test_each_event_has_the_levels_of_its_topic(sent: list[tuple[str, Any]]) -> None:
    """In the order of the messages; whatever it says itself there, and all else is as read without the topic."""
    messages = [message(f"plant/{machine}/temperature", content) for machine, content in sent]
    batch, unfit = events_on(PATTERN, messages, SCHEMA)
    expected, refused = [], []
    for machine, content in sent:
        events = [
            {name: value for name, value in event.items() if name != "machine"}
            for event in (content if isinstance(content, list) else [content])
        ]
        read, wrong = events_in([json.dumps(events).encode()], Schema.of(t=Kind.FLOAT))
        expected += [{**row, "machine": machine} for row in read.to_pylist()]
        refused += [f"on plant/{machine}/temperature: {event.reason}" for event in wrong]
    assert arrow_schema(SCHEMA) == batch.schema
    assert expected == batch.to_pylist()
    assert refused == [event.reason for event in unfit]


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_hostile_messages_are_read_or_counted(payloads: list[bytes]) -> None:
    """None raises, and each is an event or unfit."""
    messages = [message(f"plant/{at % 2}/temperature", payload) for at, payload in enumerate(payloads)]
    batch, unfit = events_on(PATTERN, messages, SCHEMA)
    read, wrong = events_in(payloads, Schema.of(t=Kind.FLOAT))
    assert (len(read), sum(event.count for event in wrong)) == (len(batch), sum(event.count for event in unfit))


def test_a_wildcard_without_a_name_becomes_no_field() -> None:
    """The events are as those of a plain topic."""
    topic = source_topic("plant/+/#")
    batch, unfit = events_on(topic, [message("plant/a", {"t": 1}), message("plant/b/c", {"t": 2, "x": 1})], SCHEMA)
    assert () == unfit
    assert [{"machine": None, "t": 1.0, REST_COLUMN: None}, {"machine": None, "t": 2.0, REST_COLUMN: '{"x":1}'}] == (
        batch.to_pylist()
    )


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (CsvMessages(columns=("t",)), "{}\n{}".format),
        (JsonLinesMessages(), '{{"t": {}}}\n{{"t": {}}}'.format),
    ],
    ids=["csv", "jsonl"],
)
def test_levels_become_fields_in_any_format(form: MessageFormat, written: Callable[[object, object], str]) -> None:
    """In the order of the messages; what is unfit names its topic."""
    decode = decoder(form, PATTERN.own_fields(SCHEMA))
    topics = [f"plant/{machine}/temperature" for machine in ("a", "b", "b", "a")]
    messages = [message(topic, written(at, at + 0.5).encode()) for at, topic in enumerate(topics)]
    messages.append(message(topics[0], written(9, '"warm"').encode()))
    batch, unfit = events_on(PATTERN, messages, SCHEMA, decode)
    values = [(row["machine"], row["t"]) for row in batch.to_pylist()]
    assert [(m, t) for at, m in enumerate("abba") for t in (at, at + 0.5)] + [("a", 9.0)] == values
    assert ["on plant/a/temperature: the field 't' should be of kind float"] == [event.reason for event in unfit]
    nothing, _ = events_on(PATTERN, [], SCHEMA, decode)
    assert (0, arrow_schema(SCHEMA)) == (nothing.num_rows, nothing.schema)


def test_a_feed_takes_a_bounded_number_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that came first, and none that is too long; what was retained from before does not count."""
    monkeypatch.setattr(source_topics, "MOST_TOPICS", 2)
    topics = FeedTopics()
    topics.add("plant/+")
    topics.add("street")
    for topic, is_retained in [
        ("plant/r", True),
        ("plant/" + "l" * 600, False),
        ("plant/a", False),
        ("plant/b", False),
    ]:
        assert "plant/+" == topics.match(Message(topic, b"", 1, retained=is_retained))
    assert "plant/+" == topics.match(message("plant/c", {}))
    assert topics.match(message("plants/c", {})) is None
    assert {"street": "street", "plant/a": "plant/+", "plant/b": "plant/+"} == topics.taken
    topics.discard("plant/+")
    assert {"street": "street"} == topics.taken
    assert topics.match(message("plant/a", {})) is None
