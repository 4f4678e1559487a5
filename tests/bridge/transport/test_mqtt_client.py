"""Clients: the loop that serves them, and without a broker early answers, ids, permits, subscriptions."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub
from paho.mqtt.enums import MQTTErrorCode

from bridge.broker import Broker, start_broker
from bridge.messages import Message
from bridge.transport import client_loop
from bridge.transport.address import Address
from bridge.transport.client_loop import ClientLoop
from bridge.transport.mqtt_client import MqttClient, NotConnected
from bridge.transport.mqtt_rounds import (
    FETCH_AHEAD,
    LEEWAY,
    LONGEST_FETCH_INTERVAL,
    MANY_MESSAGES,
    PART_AHEAD,
    SHORTEST_FETCH_INTERVAL,
    SMALLEST_WINDOW,
    Fetch,
    fetch_wait,
)
from bridge.transport.subscriptions import (
    MOST_UNHANDLED,
    Dispatch,
    PassedOver,
    SubscribedFilters,
    note_failed,
    passed_over,
)
from tests.brokers import KINDS

BOUND = 20.0
MANY = 50


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with start_broker(tmp_path / "broker", {"braid": "a word"}, kind=request.param) as started:
        yield started


class Served:
    """A client on a loop that acknowledges what it hears, and says so."""

    def __init__(self, address: Address, loop: ClientLoop, topic: str) -> None:
        self.came: SimpleQueue[bytes] = SimpleQueue()
        self.connected = threading.Semaphore(0)
        self.waits = 0.0
        """Seconds until it fetches what has come."""
        self.client = MqttClient(
            address,
            f"listens to {topic}",
            topics=[topic],
            on_message=self._take,
            on_connection=self.connected.release,
            grouping=lambda _before: self.waits,
            loop=loop,
        )

    def _take(self, message: Message) -> None:
        self.client.acknowledge([message.token])
        self.came.put(message.payload)


@contextmanager
def publishing(address: Address) -> Iterator[MqttClient]:
    client = MqttClient(address, "publishes")
    client.start()
    try:
        yield client
    finally:
        client.stop()


def threads(name: str) -> int:
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + BOUND
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_many_clients_share_a_thread_and_take_a_descriptor_each(broker: Broker) -> None:
    """Each hears its own topic, over a restart of the broker too; with the last of them the thread ends."""
    process, loop = psutil.Process(), ClientLoop("serves many")
    before = process.num_fds()
    with ExitStack() as closing:
        served = [Served(broker.address("braid"), loop, f"t/{number}") for number in range(MANY)]
        for one in served:
            one.client.begin()
            closing.callback(one.client.stop)
        for one in served:
            one.client.confirm(BOUND)
        until(lambda: threads("serves many") == 1)
        assert process.num_fds() - before <= MANY + 10
        for round_ in (b"first", b"after a restart"):
            for one in served:
                assert one.connected.acquire(timeout=BOUND)
            with publishing(broker.address("braid")) as publisher:
                for number in range(MANY):
                    publisher.publish(f"t/{number}", round_)
                for one in served:
                    # A broker that is killed may send once more what was acknowledged just before.
                    while one.came.get(timeout=BOUND) != round_:
                        assert round_ != b"first"
            if round_ == b"first":
                broker.restart()
                for one in served:
                    until(lambda one=one: one.client.is_subscribed([*one.client._subscriptions.topics]))  # type: ignore[misc]  # mypy does not infer a default
    until(lambda: threads("serves many") == 0)


def test_a_client_that_waits_or_does_not_acknowledge_holds_up_no_other(broker: Broker) -> None:
    """Its messages are fetched later, or stay at the broker; those of the others come at once."""
    loop = ClientLoop("serves some")
    quick = Served(broker.address("braid"), loop, "quick")
    slow = Served(broker.address("braid"), loop, "slow")
    stuck: list[Message] = []
    mute = MqttClient(broker.address("braid"), "mute", topics=["mute"], on_message=stuck.append, loop=loop)
    with ExitStack() as closing:
        for client in (quick.client, slow.client, mute):
            client.start()
            closing.callback(client.stop)
        slow.waits = 10 * BOUND
        publisher = closing.enter_context(publishing(broker.address("braid")))
        for number in range(100):
            publisher.publish("slow", b"later")
            publisher.publish("mute", b"unanswered")
            publisher.publish("quick", b"%d" % number)
        assert [b"%d" % number for number in range(100)] == [quick.came.get(timeout=BOUND) for _ in range(100)]
        assert slow.came.empty()
        slow.client.hurry(0.0)
        assert b"later" == slow.came.get(timeout=BOUND)
        assert stuck


def test_an_attempt_to_connect_holds_up_no_client_that_is_connected(broker: Broker) -> None:
    """Though it may take seconds, as with a machine that does not answer."""
    loop, begun, goes_on = ClientLoop("serves two"), threading.Event(), threading.Event()

    def permit() -> bool:
        begun.set()
        return goes_on.wait(BOUND)

    one = Served(broker.address("braid"), loop, "t")
    other = MqttClient(broker.address("braid"), "waits", topics=["u"], permit=permit, loop=loop)
    with ExitStack() as closing:
        for client in (one.client, other):
            client.start()
            closing.callback(client.stop)
        connection = other._client.socket()
        assert isinstance(connection, socket.socket)
        connection.shutdown(socket.SHUT_RDWR)
        assert begun.wait(BOUND)
        with publishing(broker.address("braid")) as publisher:
            publisher.publish("t", b"meanwhile")
            assert b"meanwhile" == one.came.get(timeout=BOUND)
        assert not other.is_connected
        goes_on.set()
        other.confirm(BOUND)


def test_a_client_whose_callbacks_fail_holds_up_no_other(broker: Broker) -> None:
    """It connects again, since what it had begun to read is lost with its connection."""
    loop = ClientLoop("serves two")
    one, other = (Served(broker.address("braid"), loop, topic) for topic in "tu")
    failing = iter([True])

    with ExitStack() as closing:
        for served in (one, other):
            served.client.start()
            closing.callback(served.client.stop)
            assert served.connected.acquire(timeout=BOUND)
        rounds = one.client._client._rounds

        def end() -> None:
            if next(failing, False):
                raise KeyError("an error that nobody foresaw")
            rounds.on_end()

        one.client._client._rounds = replace(rounds, on_end=end)
        with publishing(broker.address("braid")) as publisher:
            publisher.publish("t", b"unlucky")
            publisher.publish("u", b"well")
            assert b"well" == other.came.get(timeout=BOUND)
            assert one.connected.acquire(timeout=BOUND)
            assert b"unlucky" == one.came.get(timeout=BOUND)


def test_a_client_ends_though_its_broker_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is given up after a while, whatever waits to be sent."""
    monkeypatch.setattr(client_loop, "_PARTING", 0.1)
    monkeypatch.setattr("bridge.transport.subscriptions.PARTING", 0.1)
    loop = ClientLoop("serves one")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        client = MqttClient(Address(host="127.0.0.1", port=deaf.getsockname()[1]), "one", loop=loop)
        client.begin()
        connection, _ = deaf.accept()
        with connection:
            for number in range(200):
                client._client._packet_queue(0x30, bytes(1_000_000), number, 0)
            client.stop()
            until(lambda: threads("serves one") == 0)
            assert client._client.socket() is None


def test_a_loop_serves_again_after_its_last_client_has_left(broker: Broker) -> None:
    """Clients come and go in any number, and each is heard."""
    loop = ClientLoop("serves on and off")
    for number in range(20):
        served = Served(broker.address("braid"), loop, "t")
        served.client.start()
        with publishing(broker.address("braid")) as publisher:
            publisher.publish("t", b"%d" % number)
            assert b"%d" % number == served.came.get(timeout=BOUND)
        served.client.leave()


ADDRESS = Address(host="127.0.0.1", port=1)


class Paho:
    """A stand-in for paho's client: answers before `publish` has returned, or only later."""

    def __init__(self, client: MqttClient, *, early: bool, in_use: int = 0) -> None:
        self.client = client
        self.early = early
        self.in_use = in_use
        self.mid = 0

    def publish(self, _topic: str, _payload: bytes, *, qos: int, retain: bool, properties: Any) -> Any:
        assert (1, False, None) == (qos, retain, properties)
        self.mid += 1
        if self.mid <= self.in_use:
            return SimpleNamespace(rc=MQTTErrorCode.MQTT_ERR_QUEUE_SIZE, mid=self.mid)
        if self.early:
            self.answer(self.mid)
        return SimpleNamespace(rc=MQTTErrorCode.MQTT_ERR_SUCCESS, mid=self.mid)

    def answer(self, mid: int, refusal: str = "") -> None:
        self.client._on_publish(None, None, mid, Reason(refusal), None)  # type: ignore[arg-type]  # it is not looked at


class Reason:
    def __init__(self, refusal: str) -> None:
        self.is_failure = bool(refusal)
        self.refusal = refusal

    def __str__(self) -> str:
        return self.refusal


@pytest.mark.parametrize("early", [True, False])
def test_each_message_is_answered_once(early: bool) -> None:  # noqa: FBT001 - pytest draws it
    """An answer finds its message even if it comes before the message id is known, and if ids are used again."""
    client = MqttClient(ADDRESS, "one")
    paho = client._client = Paho(client, early=early)  # type: ignore[assignment]  # it stands in for it
    answers: list[tuple[int, str]] = []
    for _ in range(2):
        for number in range(3):
            client.publish("out", b"", answered=lambda refusal, number=number: answers.append((number, refusal)))  # type: ignore[misc]  # mypy does not infer a default
        if not early:
            for mid in (3, 1, 2):
                paho.answer(mid)
        paho.mid = 0
    order = [0, 1, 2] if early else [2, 0, 1]
    assert [(number, "") for number in order * 2] == answers


def test_a_refusal_is_reported() -> None:
    """The publisher gets the broker's reason."""
    client = MqttClient(ADDRESS, "one")
    paho = client._client = Paho(client, early=False)  # type: ignore[assignment]  # it stands in for it
    answers: list[str] = []
    client.publish("out", b"", answered=answers.append)
    paho.answer(1, "Quota exceeded")
    assert ["Quota exceeded"] == answers


def test_a_message_id_in_use_is_skipped() -> None:
    """If an old message still waits when ids repeat, the next free id is taken, and no message is dropped."""
    client = MqttClient(ADDRESS, "one")
    paho = client._client = Paho(client, early=False, in_use=5)  # type: ignore[assignment]  # it stands in for it
    answers: list[str] = []
    client.publish("out", b"", answered=answers.append)
    paho.answer(6)
    assert [""] == answers


def test_if_every_message_id_is_in_use_publishing_fails() -> None:
    """A message that cannot be kept is not dropped silently."""
    client = MqttClient(ADDRESS, "one")
    client._client = Paho(client, early=False, in_use=1 << 20)  # type: ignore[assignment]  # it stands in for it
    with pytest.raises(RuntimeError, match="65,536 messages wait for the broker"):
        client.publish("out", b"")


def test_without_a_broker_a_subscription_is_not_confirmed() -> None:
    """Waiting for a confirmation fails; without waiting, the next connection subscribes."""
    client = MqttClient(ADDRESS, "one")
    client.subscribe(["a"], timeout=0)
    with pytest.raises(NotConnected, match=r"confirmed no subscription to \('b',\): no answer"):
        client.subscribe(["b"], timeout=0.01)
    assert ["a", "b"] == list(client._subscriptions.topics)


def test_a_background_connection_reports_its_problem() -> None:
    """Waiting for a subscription fails with the reason why no broker answers."""
    client = MqttClient(ADDRESS, "one")
    client.begin()
    reason = ""
    try:
        for _ in range(100):
            with pytest.raises(NotConnected) as refused:
                client.subscribe(["a"], timeout=0.1)
            reason = str(refused.value)
            if "no answer" not in reason:
                break
    finally:
        client.stop()
    assert f"no broker answers at {ADDRESS}: [Errno 111] Connection refused" in reason


@pytest.mark.parametrize(("says", "sent"), [({"ReceiveMaximum": 7}, 7), ({"ReceiveMaximum": 60_000}, 250), ({}, 250)])
def test_a_client_sends_no_more_at_once_than_its_broker_takes(says: dict[str, int], sent: int) -> None:
    """Nor more than is wise; before the next broker has answered it is careful again."""
    client = MqttClient(ADDRESS, "one")
    flags: Any = SimpleNamespace(session_present=True)
    client._on_connect(None, None, flags, Reason(""), SimpleNamespace(**says))  # type: ignore[arg-type]  # they are not looked at
    connected = client._client.max_inflight_messages
    with pytest.raises(ConnectionRefusedError):
        client._client.connect(ADDRESS.host, ADDRESS.port)
    assert (sent, 20) == (connected, client._client.max_inflight_messages)


_BOUND = 30.0


def test_a_client_connects_again_only_once_it_may(tmp_path: Path) -> None:
    """It asks before each attempt, and not before the first connection."""
    asked, allowed, connected = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)

    def permit() -> bool:
        asked.release()
        return allowed.is_set()

    with start_broker(tmp_path / "broker", {"braid": "secret"}) as broker:
        client = MqttClient(
            broker.address("braid"), "one", topics=["a"], permit=permit, on_connection=connected.release
        )
        client.start()
        assert connected.acquire(timeout=_BOUND)
        assert not asked.acquire(blocking=False)
        broker.restart()
        for _ in range(2):
            assert asked.acquire(timeout=_BOUND)
        assert not connected.acquire(blocking=False)
        allowed.set()
        assert connected.acquire(timeout=_BOUND)
        client.stop()


BLINK = 1e-6
NOW = 1_000.0
moments = st.floats(NOW - 10, NOW + 10)
fetches = st.builds(
    Fetch,
    begun=st.floats(NOW - 10, NOW),
    messages=st.integers(0, 2 * MANY_MESSAGES),
    acknowledged=st.floats(0, 10),
    most=st.integers(0, 2 * MANY_MESSAGES),
)


@given(moments, fetches)
def test_messages_wait_within_bounds(due: float, before: Fetch) -> None:
    """Two fetches begin the shortest interval apart, and no message waits for longer than the longest."""
    wait = fetch_wait(due, now=NOW, before=before)
    assert 0.0 <= wait <= LONGEST_FETCH_INTERVAL
    assert NOW + wait >= before.begun + SHORTEST_FETCH_INTERVAL - BLINK


@given(st.floats(0, LONGEST_FETCH_INTERVAL), st.floats(0, 0.1))
def test_a_fetch_is_just_before_the_batch(ahead: float, acknowledged: float) -> None:
    """Earlier if spooling takes long, and after the shortest interval if it is too late for that."""
    before = Fetch(begun=NOW - 1, messages=5, acknowledged=acknowledged, most=6)
    left = ahead - max(FETCH_AHEAD, PART_AHEAD * ahead, LEEWAY * acknowledged)
    wait = fetch_wait(NOW + ahead, now=NOW, before=before)
    assert abs(wait - (left if left > BLINK else SHORTEST_FETCH_INTERVAL)) < 2 * BLINK


@given(st.floats(NOW - 10, NOW))
def test_the_first_messages_after_a_quiet_while_are_fetched_together(due: float) -> None:
    """Those of the shortest interval."""
    assert SHORTEST_FETCH_INTERVAL == fetch_wait(
        due, now=NOW, before=Fetch(begun=NOW - 1, messages=1, acknowledged=0.01)
    )


@given(due=moments, messages=st.integers(SMALLEST_WINDOW, 10 * MANY_MESSAGES), many=st.booleans())
def test_many_messages_do_not_wait_for_a_batch(due: float, messages: int, *, many: bool) -> None:
    """After many, or as many as ever at once, a broker might hold back others until they are acknowledged."""
    before = Fetch(begun=NOW, messages=messages, most=messages + (many and messages >= MANY_MESSAGES))
    assert SHORTEST_FETCH_INTERVAL >= fetch_wait(due, now=NOW, before=before) - BLINK


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
