"""Dispatch: only subscribed messages are handed on, and an error in a callback stops nothing."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from bridge.messages import Message
from bridge.transport.subscriptions import (
    MOST_UNHANDLED,
    Dispatch,
    PassedOver,
    SubscribedFilters,
    note_failed,
    passed_over,
)

LEVELS = st.sampled_from(["a", "b", "$a", ""])
TOPICS = st.lists(LEVELS, min_size=1, max_size=3).map("/".join)
FILTERS = st.builds(
    lambda levels, end: "/".join([*levels, *end]),
    st.lists(LEVELS | st.just("+"), min_size=1, max_size=3),
    st.sampled_from([[], ["#"]]),
)


def since(before: PassedOver) -> tuple[int, int]:
    """How many were passed over since: unasked, and failed."""
    now = passed_over()
    return now.unasked - before.unasked, now.failed - before.failed


@pytest.mark.parametrize(
    ("asked", "topic", "covered"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/b", "a", False),
        ("a/+/c", "a/b/c", True),
        ("a/+", "a/b/c", False),
        ("a/+", "a/", True),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("#", "a/b", True),
        ("#", "$SYS/a", False),
        ("+/a", "$SYS/a", False),
        ("$SYS/#", "$SYS/a", True),
        ("$share/group/a/+", "a/b", True),
        ("$share/group/a", "a", True),
        ("$share/group/a", "b", False),
        ("$share/group/#", "$SYS/a", False),
    ],
)
def test_a_filter_covers_what_mqtt_says(asked: str, topic: str, covered: bool) -> None:  # noqa: FBT001 - pytest draws it
    """Wildcards cover levels, a group that shares is no part of the topic, and what begins with a dollar is named."""
    assert covered == SubscribedFilters([asked]).cover(topic)


@given(st.lists(FILTERS, max_size=3), st.lists(FILTERS, max_size=3), TOPICS)
def test_filters_come_and_go(first: list[str], more: list[str], topic: str) -> None:
    """After each change exactly the remaining filters count, whatever was asked before."""
    filters = SubscribedFilters(first)
    assert any(topic_matches_sub(each, topic) for each in first) == filters.cover(topic)
    filters.add(more)
    assert any(topic_matches_sub(each, topic) for each in first + more) == filters.cover(topic)
    filters.discard(first)
    left = set(more) - set(first)
    assert any(topic_matches_sub(each, topic) for each in left) == filters.cover(topic)


def test_unsubscribed_messages_are_dropped_and_counted() -> None:
    """They are not handed on, and are acknowledged."""
    handed: list[Message] = []
    dropped: list[Message] = []
    asked, unasked = Message("a", b"", 1), Message("b", b"", 2)
    before = passed_over()
    Dispatch(SubscribedFilters(["a"]), handed.append, dropped.append).hand_on_all([unasked, asked])
    assert ([asked], [unasked], (1, 0)) == (handed, dropped, since(before))


def test_a_failed_message_stays_with_the_broker_unless_there_are_many(caplog: pytest.LogCaptureFixture) -> None:
    """A few of each connection are not acknowledged, so that they come again; those beyond are, and all are logged."""
    handled: list[int] = []
    dropped: list[int] = []

    def handle(message: Message) -> None:
        if message.payload == b"bad":
            raise KeyError("first")
        handled.append(message.token)

    dispatch = Dispatch(SubscribedFilters(["a"]), handle, lambda message: dropped.append(message.token))
    before = passed_over()
    bad = [Message("a", b"bad", token) for token in range(MOST_UNHANDLED + 2)]
    dispatch.hand_on_all([*bad, Message("a", b"good", 100)])
    assert ([100], [MOST_UNHANDLED, MOST_UNHANDLED + 1], (0, len(bad))) == (handled, dropped, since(before))
    assert "topic a: passed over, because of KeyError('first')" in caplog.text
    dispatch.connected()
    dispatch.hand_on_all(bad[:MOST_UNHANDLED])
    assert 2 == len(dropped)


def test_messages_may_be_handed_on_all_at_once() -> None:
    """Those of topics without a subscription are dropped before; if no other is left, nothing is handed on."""
    handed: list[list[Message]] = []
    dropped: list[Message] = []

    def refuse(_message: Message) -> None:
        raise AssertionError("not one by one")

    dispatch = Dispatch(
        SubscribedFilters(["a", "c/#"]), refuse, dropped.append, all_at_once=lambda group: handed.append([*group])
    )
    first, unasked, second = Message("a", b"", 1), Message("b", b"", 2), Message("c/d", b"", 3)
    before = passed_over()
    dispatch.hand_on_all([first, unasked, second])
    dispatch.hand_on_all([unasked])
    dispatch.hand_on_all([])
    assert ([[first, second]], [unasked, unasked], (2, 0)) == (handed, dropped, since(before))


def test_messages_that_fail_together_stay_with_the_broker_unless_there_are_many() -> None:
    """The same holds as for single ones: a few come again, and those beyond are acknowledged."""
    dropped: list[int] = []

    def fail(_messages: Sequence[Message]) -> None:
        raise KeyError("first")

    dispatch = Dispatch(
        SubscribedFilters(["a"]), lambda _message: None, lambda message: dropped.append(message.token), all_at_once=fail
    )
    before = passed_over()
    dispatch.hand_on_all([Message("a", b"", token) for token in range(MOST_UNHANDLED + 2)])
    assert ([MOST_UNHANDLED, MOST_UNHANDLED + 1], (0, MOST_UNHANDLED + 2)) == (dropped, since(before))


def test_many_failures_are_few_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Few of many failures about one topic are logged, with their number; another topic's first one is logged too."""
    for _ in range(1_000):
        note_failed("topic flood", ValueError("wrong"))
    note_failed("topic drop", ValueError("wrong too"))
    lines = [record.getMessage() for record in caplog.records]
    assert ["topic flood: passed over, because of ValueError('wrong'); 512 so far"] == lines[-2:-1]
    assert "topic drop: passed over, because of ValueError('wrong too'); 1 so far" == lines[-1]
    assert 11 == len(lines)
