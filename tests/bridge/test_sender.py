"""The sender on the broker's twin, with a real receiver and spool."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge import messages, topics
from bridge.messages import Message
from bridge.outbox import MOST_PATIENCE
from bridge.sender import _RETRY_INTERVAL, MOST_UNANSWERED_LINES, NO_RECORD_NEEDED, OPENINGS, PlainMessage, Sender
from bridge.transport.mqtt_client import MqttClient
from bridge.wire import Again, Emitted, FrameKind, Stream, decode
from tests.bridge.memory_bridge import STREAM, bridge, events, losing
from tests.twins.memory_broker import MemoryBroker, MemoryClient

ON = topics.stream(*STREAM)


def test_emitted_events_are_spooled_and_then_not_needed(tmp_path: Path) -> None:
    """Events from before and after the opening arrive in order, and are no longer needed once they have arrived."""
    with bridge(tmp_path) as made:
        made.records.emitted.append(events(0, 3))
        made.forward()
        assert 0 == made.sender.needed(STREAM)
        made.work(3)
        made.emit(events(3, 5), Emitted(first=5, marker="cut 1"), events(6, 8))
        made.work(3)
        assert [0, 1, 2, 3, 4, "cut 1", 6, 7] == made.spooled()
        assert 8 == made.sender.needed(STREAM)
        # The opening reads them once; what comes after that is sent without being read.
        assert [0] == made.records.reads


def test_a_stream_that_is_not_forwarded_needs_nothing_and_sends_nothing(tmp_path: Path) -> None:
    """Events that are emitted at other ports are ignored."""
    with bridge(tmp_path) as made:
        made.emit(events(0, 3))
        made.work(2)
        assert [] == made.spooled()
        assert NO_RECORD_NEEDED == made.sender.needed(STREAM)


def test_a_hole_in_emitted_events_is_filled_from_the_records(tmp_path: Path) -> None:
    """Jobs may leave out events in `emit`, as long as the records have them."""
    with bridge(tmp_path) as made:
        made.forward()
        made.work(2)
        made.records.emitted.append(events(0, 4))
        made.emit(events(4, 6))
        made.work(2)
        assert list(range(6)) == made.spooled()


def test_a_lagging_consumer_costs_no_more_than_the_bound(tmp_path: Path) -> None:
    """Beyond the bound nothing is read or sent; as the consumer confirms, the rest is read from the records."""
    with bridge(tmp_path, most_unconfirmed=1_500) as made:
        came = losing(made.broker, ON)
        made.forward()
        made.sender.work()
        made.emit(*(events(n, n + 1) for n in range(40)))
        made.sender.work()
        sent = came()
        assert sent < 10
        made.sender.work()
        assert sent == came()
        made.work(60)
        assert list(range(40)) == made.spooled()


@pytest.mark.parametrize("lost", [0, 1, 2, 3, 4])
def test_a_message_that_the_broker_loses_after_acknowledging_it_arrives(tmp_path: Path, lost: int) -> None:
    """The opening, a frame in the middle, the last one and the end: each is found missing and sent again."""
    with bridge(tmp_path) as made:
        losing(made.broker, ON, lost)
        made.forward()
        made.work()
        made.emit(events(0, 2), events(2, 4), events(4, 6))
        made.sender.close(STREAM)
        made.work(40)
        assert list(range(6)) == made.spooled()
        assert NO_RECORD_NEEDED == made.sender.needed(STREAM)
        assert 0 == made.receiver.intakes[ON].counts.gaps


def test_a_lost_report_of_the_receiver_is_repeated(tmp_path: Path) -> None:
    """A sender that missed the report sends again, and gets another report."""
    with bridge(tmp_path) as made:
        losing(made.broker, topics.have(*STREAM), 0, 1)
        made.forward()
        made.emit(events(0, 2))
        made.work(40)
        assert 2 == made.sender.needed(STREAM)
        assert [0, 1] == made.spooled()


def test_the_broker_has_few_messages_for_a_consumer_that_is_away(tmp_path: Path) -> None:
    """While nothing is confirmed, probes become rare, and each is one frame."""
    with bridge(tmp_path) as made:
        came = losing(made.broker, ON)
        made.forward()
        made.sender.work()
        made.emit(*(events(n, n + 1) for n in range(10)))
        for _ in range(100):
            made.clock.advance(MOST_PATIENCE)
            made.sender.work()
            made.sender.work()
        # The opening and ten frames; then an opening and a frame each time but the first, when the broker answers.
        assert 11 + 2 * 99 == came()


def test_a_closed_stream_is_needed_until_its_end_has_come(tmp_path: Path) -> None:
    """The end is sent last; only once it has arrived are the records free, and the answers unsubscribed."""
    with bridge(tmp_path) as made:
        made.forward()
        made.emit(events(0, 2))
        made.sender.close(STREAM)
        made.emit(events(2, 4))
        made.sender.work()
        assert 0 == made.sender.needed(STREAM)
        made.work(3)
        assert NO_RECORD_NEEDED == made.sender.needed(STREAM)
        assert [0, 1] == made.spooled()
        assert made.spool.producers[ON].closed


def test_a_stream_opens_again_after_its_end_has_come(tmp_path: Path) -> None:
    """Events that were not forwarded between the closing and the next opening are not missed, and no gap is counted."""
    with bridge(tmp_path) as made:
        made.forward()
        made.emit(events(0, 2))
        made.sender.close(STREAM)
        losing(made.broker, ON, 2)
        made.records.emitted.append(events(2, 9))
        made.forward(first=9)
        made.emit(events(9, 11))
        assert 0 == made.sender.needed(STREAM)
        made.sender.work()
        assert 0 == made.sender.needed(STREAM)
        made.work(40)
        made.emit(events(11, 12))
        made.work(2)
        assert [0, 1, 9, 10, 11] == made.spooled()
        assert 12 == made.sender.needed(STREAM)
        assert 0 == made.receiver.intakes[ON].counts.gaps


def test_an_end_that_comes_twice_does_not_end_the_stream_that_opened_again(tmp_path: Path) -> None:
    """Each opening has its own epoch, so frames of the one before are refused."""
    with bridge(tmp_path) as made:
        frames: list[bytes] = []

        def note(topic: str, payload: bytes) -> bool:
            frames.extend([payload] if topic == ON else [])
            return False

        made.broker.swallows = note
        made.forward()
        made.emit(events(0, 2))
        made.sender.close(STREAM)
        made.work(4)
        (end,) = (payload for payload in frames if decode(payload).kind is FrameKind.CLOSE)
        made.forward(first=2)
        made.work(2)
        made.broker.publish(ON, end)
        made.receive()
        made.emit(events(2, 4))
        made.work(2)
        assert [0, 1, 2, 3] == made.spooled()


def test_a_sender_that_died_goes_on_where_the_spool_is(tmp_path: Path) -> None:
    """A new process with a higher epoch begins at its oldest record, and no event is doubled or missing."""
    with bridge(tmp_path) as made:
        made.forward()
        made.emit(events(0, 3), events(3, 6))
        made.work(2)
        losing(made.broker, ON, *range(100))
        made.emit(events(6, 9))
        made.work(2)
        made.sender_client.stop()
        losing(made.broker, ON)
        made.begin_sender()
        made.forward(epoch=2)
        made.emit(events(9, 12))
        made.work(4)
        assert list(range(12)) == made.spooled()
        assert 12 == made.sender.needed(STREAM)


def test_a_superseded_sender_is_notified_and_sends_no_more(tmp_path: Path) -> None:
    """Frames of an epoch that was taken over are refused; the host is notified and stops."""
    with bridge(tmp_path) as made:
        made.forward()
        made.emit(events(0, 2))
        made.work(2)
        old, old_client = made.sender, made.sender_client
        made.begin_sender("other")
        made.forward(epoch=2)
        made.work(2)
        old.emit(STREAM, events(2, 9))
        old.work()
        made.work(2)
        old.work()
        assert [(STREAM, 2)] == made.superseded
        assert [0, 1] == made.spooled()
        assert 2 == old.needed(STREAM)
        old_client.stop()


def test_forwarding_in_an_older_epoch_is_refused(tmp_path: Path) -> None:
    """The host's mistake is an error in its call."""
    with bridge(tmp_path) as made:
        made.forward(epoch=4)
        with pytest.raises(ValueError, match="was forwarded in epoch 4; forward it in that or a higher one, not in 3"):
            made.forward(epoch=3)


def test_records_that_cannot_be_read_hold_up_no_other_stream(tmp_path: Path) -> None:
    """The problem is reported with the stream's name; reading is retried, and other streams go on."""
    with bridge(tmp_path) as made:
        damaged = [True]

        def kept(number: int) -> Iterator[Emitted]:
            if damaged:
                raise OSError("no such disk")
            yield from made.records.kept(number)

        other = Stream(8, "out")
        made.sender.forward(other, epoch=1, first=0, kept=kept)
        made.forward()
        made.emit(events(0, 2))
        made.work(3)
        assert [0, 1] == made.spooled()
        assert [topics.stream(*other)] == [trouble.topic for trouble in made.troubles]
        damaged.clear()
        came = losing(made.broker, topics.stream(*other))
        made.clock.advance(_RETRY_INTERVAL)
        made.sender.work()
        assert came() > 0


def test_requests_for_numbers_that_are_gone_are_reported(tmp_path: Path) -> None:
    """A receiver that asks for events that the records do not hold gets no answer, and the host is notified."""
    with bridge(tmp_path) as made:
        made.records.emitted.append(events(5, 7))
        made.forward()
        made.work(8)
        assert topics.stream(*STREAM) in {trouble.topic for trouble in made.troubles}


def test_a_malformed_answer_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    """Nonsense on a receiver's topic stops nothing."""
    with bridge(tmp_path) as made:
        made.forward()
        made.sender.work()
        for nonsense in (b"{", b"[]", b'{"epoch": 1}'):
            made.broker.publish(topics.have(*STREAM), nonsense)
        made.emit(events(0, 2))
        made.work(2)
        assert 3 == len(made.troubles)
        assert [0, 1] == made.spooled()


class Broker(MqttClient):
    """A transport whose answers the test gives, even before a publication has returned."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes, Callable[[str], None]]] = []
        self.at_once = False
        self.takes_properties = False

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        properties: Sequence[tuple[str, str]] = (),
        answered: Callable[[str], None] = lambda _: None,
    ) -> None:
        assert self.takes_properties or (False, ()) == (retain, properties)
        self.published.append((topic, payload, answered))
        if self.at_once:
            answered("")

    def publish_once(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        properties: Sequence[tuple[str, str]] = (),
        answered: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.publish(f"once/{topic}", payload, retain=retain, properties=properties, answered=answered)

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def acknowledge(self, tokens: object, taken: object = None) -> None: ...

    def subscribe(self, topics: object, *, timeout: float = 1.0) -> None: ...

    def unsubscribe(self, topics: object) -> None: ...


def test_a_clock_that_is_set_back_holds_up_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unconfirmed frames are sent again after the patience, even if the clock is set."""
    broker, now, until = Broker(), time.time(), time.monotonic() + 20.0
    broker.at_once = True
    sender = Sender(broker)
    sender.forward(STREAM, epoch=1, first=0, kept=lambda _number: iter(()))
    sender.work()
    assert 1 == len(broker.published)
    monkeypatch.setattr(time, "time", lambda: now - 3_600.0)
    while len(broker.published) < 2 and time.monotonic() < until:
        sender.work(0.05)
    assert [FrameKind.OPEN] * 2 == [decode(payload).kind for _, payload, _ in broker.published]


def test_a_plain_message_is_done_once_the_broker_has_it() -> None:
    """It is done when it was answered, not when it was sent; even if the answer comes before the sending returns."""
    broker, done = Broker(), list[int]()
    sender = Sender(broker, clock=lambda: 0.0)
    sender.send(PlainMessage("out", b"1", lambda: done.append(1)))
    sender.work()
    assert [] == done
    broker.published[0][2]("")
    broker.at_once = True
    sender.send(PlainMessage("out", b"2", lambda: done.append(2)))
    sender.work()
    sender.work()
    sender.send(PlainMessage("out", b"3", lambda: done.append(3), qos=0))
    sender.work()
    sender.work()
    assert ["out", "out", "once/out"] == [topic for topic, *_ in broker.published]
    assert [1, 2, 3] == done


def test_messages_are_made_as_there_is_room_for_them() -> None:
    """Those of several topics leave in turn, each topic's in order, and no more than so many wait for answers."""
    broker, made = Broker(), list[tuple[str, int]]()
    broker.takes_properties = True
    sender = Sender(broker)

    def lines(topic: str, numbers: range) -> Iterator[PlainMessage | None]:
        for number in numbers:
            yield None
            made.append((topic, number))
            yield PlainMessage(topic, b"%d" % number, lambda: None, retain=True, properties=(("number", str(number)),))

    half = MOST_UNANSWERED_LINES // 2
    for topic, numbers in (("a", range(half)), ("b", range(10)), ("a", range(half, 4 * half))):
        sender.send_lazily(topic, lines(topic, numbers))
    sender.work()
    assert 0 < len(broker.published) < MOST_UNANSWERED_LINES
    for _ in range(10):
        sender.work()
    assert MOST_UNANSWERED_LINES == len(broker.published) == len(made)
    assert [("a", 0), ("b", 0), ("a", 1), ("b", 1)] == made[:4]
    # What is not made one by one has room yet.
    sender.send(PlainMessage("c", b"now", lambda: None))
    sender.work()
    assert "c" == broker.published[-1][0]
    while broker.published:
        for _, _, answer in broker.published:
            answer("")
        broker.published.clear()
        for _ in range(10):
            sender.work()
    assert [*range(4 * half)] == [number for topic, number in made if topic == "a"]


def test_a_refused_plain_message_is_reported_and_sent_again() -> None:
    """A refused message is not done; after a while it is sent again."""
    broker, done, now, troubles = Broker(), list[int](), [0.0], list[str]()
    sender = Sender(broker, clock=lambda: now[0], on_trouble=lambda trouble: troubles.append(trouble.reason))
    sender.send(PlainMessage("out", b"1", lambda: done.append(1)))
    sender.work()
    broker.published[0][2]("Quota exceeded")
    sender.work()
    assert (["the broker refused a message: Quota exceeded"], [], 1) == (troubles, done, len(broker.published))
    now[0] = _RETRY_INTERVAL
    sender.work()
    broker.published[1][2]("")
    sender.work()
    assert [1] == done


def test_unanswered_messages_are_bounded() -> None:
    """Beyond the bound messages wait in their order, until the broker has answered some."""
    broker = Broker()
    sender = Sender(broker, clock=lambda: 0.0)
    sender._most_unanswered = 20
    for number in range(5):
        sender.send(PlainMessage("out", b"%d" % number * 10, lambda: None))
    sender.work()
    assert 2 == len(broker.published)
    for _, _, answered in list(broker.published):
        answered("")
    sender.work()
    assert [b"0" * 10, b"1" * 10, b"2" * 10, b"3" * 10] == [payload for _, payload, _ in broker.published]


def test_only_the_requested_numbers_are_sent_again() -> None:
    """A request for some numbers of a frame is answered with just those."""
    broker = Broker()
    sender = Sender(broker, clock=lambda: 0.0)
    sender.forward(STREAM, epoch=1, first=0, kept=lambda _: iter([events(0, 10)]))
    sender.work()
    wish = Again(epoch=OPENINGS, first=3, end=5)
    sender.deliver(Message(topics.again(*STREAM), wish.encoded(), 0))
    sender.work()
    frame = decode(broker.published[-1][1])
    assert (3, [3, 4]) == (frame.first, frame.events["n"].to_pylist())


def test_nothing_is_sent_again_while_the_broker_owes_an_answer() -> None:
    """A broker that is away is no reason to fill memory with repeated frames: patience begins with its answer."""
    broker, now = Broker(), [0.0]
    sender = Sender(broker, clock=lambda: now[0])
    sender.forward(STREAM, epoch=1, first=0, kept=lambda _: iter([events(0, 2)]))
    sender.work()
    assert 2 == len(broker.published)
    now[0] = 100.0
    sender.work()
    assert 2 == len(broker.published)
    for _, _, answered in list(broker.published):
        answered("")
    sender.work()
    assert 2 == len(broker.published)
    now[0] = 102.0
    sender.work()
    assert 4 == len(broker.published)


def test_plain_messages_survive_a_lost_connection() -> None:
    """Messages that are sent without a connection go out with the next one, and are done then."""
    broker, got, done = MemoryBroker(), list[bytes](), list[int]()
    tenant = MemoryClient(broker, "tenant", topics=["out"], on_message=lambda message: got.append(message.payload))
    tenant.start()
    client = MemoryClient(broker, "sender")
    sender = Sender(client, clock=lambda: 0.0)
    sender.send(PlainMessage("out", b"1", lambda: done.append(1)))
    sender.work()
    assert ([], []) == (got, done)
    client.start()
    sender.work()
    assert ([b"1"], [1]) == (got, done)


def test_a_sender_in_a_thread_stops_on_request(tmp_path: Path) -> None:
    """If it is stopped while it waits for work, `run` returns."""
    with bridge(tmp_path) as made:
        made.sender.stop()
        made.sender.run()
        made.sender.deliver(Message("else", b"", 0))


@settings(max_examples=60)
@given(st.data())
def test_whatever_breaks_every_number_is_spooled_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, chance: st.DataObject
) -> None:
    """Lost messages and connections, and restarts of either process, change nothing; no gap is counted."""
    with bridge(tmp_path_factory.mktemp("bridge"), most_unconfirmed=chance.draw(st.integers(1, 3_000))) as made:
        losses = set(chance.draw(st.lists(st.integers(0, 80), max_size=30), "losses"))
        came = iter(range(1 << 30))
        made.broker.swallows = lambda topic, _: topic.startswith(topics.ROOT) and next(came) in losses
        made.forward()
        happens = {
            "emit": lambda: made.emit(events(made.end, made.end + 3)),
            "mark": lambda: made.emit(Emitted(first=made.end, marker=f"m{made.end}")),
            "work": made.work,
            "send": made.sender_works,
            "receive": made.receive,
            "cut the sender off": made.cut_sender_off,
            "cut the receiver off": made.cut_receiver_off,
            "end the sender": made.replace_sender,
            "end the receiver": made.replace_receiver,
        }
        for what in chance.draw(st.lists(st.sampled_from(sorted(happens)), max_size=25), "what happens"):
            happens[what]()
        end = made.end
        for _ in range(300):
            if made.sender.needed(STREAM) == end:
                break
            made.work()
        expected: list[int | str] = []
        for each in made.records.emitted:
            expected += [each.marker] if each.events is None else range(each.first, each.end)
        assert expected == made.spooled()
        assert end == made.sender.needed(STREAM)
        assert 0 == made.receiver.intakes[ON].counts.gaps


def test_openings_and_ends_that_queue_up_lose_nothing_between(tmp_path: Path) -> None:
    """A stream that is closed and opened several times before its consumer has the first end arrives whole."""
    with bridge(tmp_path) as made:
        for first in (0, 3, 6):
            made.forward(first=first)
            made.emit(events(first, first + 3))
            made.sender.close(STREAM)
        made.forward(first=9)
        assert 0 == made.sender.needed(STREAM)
        made.work(60)
        assert list(range(9)) == made.spooled()
        made.emit(events(9, 11))
        made.work(20)
        assert list(range(11)) == made.spooled()
        assert 11 == made.sender.needed(STREAM)


def test_a_message_that_no_broker_would_take_ends_no_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported and done, because it would be no smaller later; the messages after it are sent."""
    monkeypatch.setattr(messages, "LARGEST_PAYLOAD", 5)
    broker, done, troubles = Broker(), list[int](), list[str]()
    sender = Sender(broker, clock=lambda: 0.0, on_trouble=lambda trouble: troubles.append(trouble.reason))
    sender.send(PlainMessage("out", b"123456", lambda: done.append(1)))
    sender.send(PlainMessage("out", b"12345", lambda: done.append(2)))
    sender.work()
    assert ["a message is not sent: it has 6 bytes, and a message may have 5"] == troubles
    assert ([1], [b"12345"]) == (done, [payload for _, payload, _ in broker.published])


def test_an_event_that_no_broker_would_take_is_a_gap_in_its_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported, and the events after it arrive."""
    large = Emitted(first=2, events=pa.record_batch({"n": pa.array(range(2, 900), pa.int64())}))
    monkeypatch.setattr(messages, "LARGEST_PAYLOAD", 4_000)
    with bridge(tmp_path) as made:
        made.forward()
        made.emit(events(0, 2), large)
        for number in range(900, 1_300):
            made.emit(events(number, number + 1))
            made.work()
        assert [0, 1, *range(900, 1_300)] == made.spooled()
        assert made.troubles[0].reason.startswith("events are not sent: it has")
