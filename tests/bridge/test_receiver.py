"""The receiver on the broker's twin: its spools, and its acknowledgements."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import receiver as receiving
from bridge import topics
from bridge.intake import Sent
from bridge.messages import Message
from bridge.receiver import _PATIENCE, REPORT_INTERVAL, Receiver, ReceiverThread, SpoolFeed, Unread
from bridge.spools.log import ItemKind, unpacked
from bridge.spools.reader import read
from bridge.spools.spool import Spool, commit
from bridge.transport.mqtt_client import MqttClient
from bridge.wire import Birth, Frame, FrameKind, encode
from dags import Kind, Schema
from tests.twins.memory_broker import MemoryBroker, MemoryClient
from tests.twins.memory_clock import MemoryClock

STREAM = topics.stream(7, "out")
RAW = "sensors/street"
SCHEMA = Schema.of(t=Kind.FLOAT)
BOUND = 20.0


class Bench:
    """A receiver with one derived and one raw feed, worked step by step, whose process may end and begin again."""

    def __init__(self, folder: Path, *, most_bytes: int = 1 << 20) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self.broker = MemoryBroker()
        self.asked: list[dict[str, int]] = []
        self.reported: list[dict[str, int]] = []
        self.unread: list[Unread] = []
        self.clock = MemoryClock(1_000.0)
        self.begin()

    def begin(self) -> None:
        self.inbox: list[Message | None] = []
        self.client = MemoryClient(
            self.broker,
            "receiver",
            topics=[STREAM, RAW],
            on_message=self.inbox.append,
            on_connection=lambda: self.inbox.append(None),
        )
        self.spools = {name: Spool(self.folder / name, most_bytes=self.most_bytes) for name in ("derived", "raw")}
        self.receiver = Receiver(
            {
                STREAM: SpoolFeed(
                    spool=self.spools["derived"], asks_at=topics.again(7, "out"), has_at=topics.have(7, "out")
                ),
                RAW: SpoolFeed(spool=self.spools["raw"], schema=SCHEMA),
            },
            cast("MqttClient", self),
            on_unread=self.unread.append,
            clock=self.clock,
        )
        self.client.start()

    def end(self) -> None:
        self.client.stop()
        for spool in self.spools.values():
            spool.close()

    def acknowledge(self, tokens: Iterable[int], taken: Callable[[], None] | None = None) -> None:
        self.client.acknowledge(tokens, taken)

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        assert (topic, retain) in {(topics.again(7, "out"), False), (topics.have(7, "out"), True)}
        (self.reported if retain else self.asked).append(json.loads(payload))

    def send(self, frame: Frame) -> None:
        self.broker.publish(STREAM, encode(frame))

    def work(self) -> None:
        arrived = list(self.inbox)
        self.inbox.clear()
        self.receiver.work(arrived)

    @property
    def unacknowledged(self) -> int:
        return len(self.broker.session("receiver", frozenset({STREAM, RAW})).unacknowledged)

    def spooled(self, start: int = 0) -> list[int | str]:
        """The derived spool from its beginning or later: numbers of events, names of markers."""
        found: list[int | str] = []
        for _, item in read(self.folder / "derived", start, 1 << 30):
            if item.kind is ItemKind.MARKER:
                found.append(item.payload.decode())
            else:
                found += unpacked(item.payload)["n"].to_pylist()
        return found


@contextmanager
def bench(folder: Path, *, most_bytes: int = 1 << 20) -> Iterator[Bench]:
    made = Bench(folder, most_bytes=most_bytes)
    try:
        yield made
    finally:
        made.end()


def data(first: int, count: int, epoch: int = 1) -> Frame:
    events = pa.record_batch({"n": pa.array(range(first, first + count), pa.int64())})
    return Frame(instance=7, port="out", epoch=epoch, first=first, events=events)


def opening(first: int = 0, epoch: int = 1) -> Frame:
    return Frame(instance=7, port="out", epoch=epoch, first=first, kind=FrameKind.OPEN)


def test_messages_are_acknowledged_once_they_are_spooled(tmp_path: Path) -> None:
    """Frames in order are spooled as one group, and the broker keeps none of them."""
    with bench(tmp_path) as made:
        for frame in (opening(), data(0, 3), data(3, 2)):
            made.send(frame)
        assert made.unacknowledged == 3
        made.work()
        assert made.spooled() == [0, 1, 2, 3, 4]
        assert made.unacknowledged == 0


def test_early_frames_are_held_and_missing_ones_asked_for(tmp_path: Path) -> None:
    """A hole is asked for by its exact numbers; later frames are spooled once it is filled."""
    with bench(tmp_path) as made:
        for frame in (opening(), data(0, 1), data(3, 2)):
            made.send(frame)
        made.work()
        assert made.spooled() == [0]
        assert made.unacknowledged == 0
        assert made.asked == [{"epoch": 1, "from": 1, "to": 3}]
        made.send(data(1, 2))
        made.work()
        assert made.spooled() == [0, 1, 2, 3, 4]


def test_a_hole_is_asked_for_again_after_a_while_and_not_before(tmp_path: Path) -> None:
    """As long as a hole stays, the producer is asked once a second."""
    with bench(tmp_path) as made:
        for frame in (opening(), data(1, 1)):
            made.send(frame)
        for _ in range(3):
            made.work()
        assert len(made.asked) == 1
        made.clock.advance(1.0)
        made.work()
        assert len(made.asked) == 2


def test_reports_are_sent_once_in_a_while(tmp_path: Path) -> None:
    """An opening is answered at once; later reports are few, and the last one covers everything."""
    with bench(tmp_path) as made:
        made.send(opening())
        made.work()
        assert [{"epoch": 1, "next": 0, "closed": False}] == made.reported
        for first in range(5):
            made.send(data(first, 1))
            made.work()
        assert 1 == len(made.reported)
        made.clock.advance(REPORT_INTERVAL)
        made.work()
        made.clock.advance(REPORT_INTERVAL)
        made.work()
        assert [{"epoch": 1, "next": 5, "closed": False}] == made.reported[1:]
        for _ in range(2):
            made.send(opening())
            made.work()
        assert 4 == len(made.reported)


def test_repeated_frames_are_answered_with_a_report(tmp_path: Path) -> None:
    """A producer that sends again has not heard the report; an older epoch learns of the newer one."""
    with bench(tmp_path) as made:
        for frame in (opening(epoch=2), data(0, 2, epoch=2)):
            made.send(frame)
        made.work()
        for frame in (data(0, 2, epoch=2), data(0, 2)):
            made.clock.advance(REPORT_INTERVAL)
            made.send(frame)
            made.work()
        assert [{"epoch": 2, "next": 2, "closed": False}] * 3 == made.reported


def test_the_end_of_a_stream_is_reported(tmp_path: Path) -> None:
    """A producer learns that its end has come, and nothing more is asked for."""
    with bench(tmp_path) as made:
        close = Frame(instance=7, port="out", epoch=1, first=2, kind=FrameKind.CLOSE)
        for frame in (opening(), data(0, 2), close, data(5, 1)):
            made.send(frame)
        made.work()
        assert [{"epoch": 1, "next": 2, "closed": True}] == made.reported
        assert ([], 0) == (made.asked, made.unacknowledged)


def test_before_a_stream_opens_nothing_is_reported(tmp_path: Path) -> None:
    """A producer whose opening was lost must not believe that it arrived."""
    with bench(tmp_path) as made:
        for frame in (opening(), data(0, 2), data(2, 2, epoch=2)):
            made.send(frame)
        made.work()
        made.clock.advance(REPORT_INTERVAL)
        made.work()
        assert [] == made.reported
        assert [0, 1, 2, 3] == made.spooled()
        made.send(opening(0, epoch=2))
        made.work()
        assert [{"epoch": 2, "next": 4, "closed": False}] == made.reported


def test_reports_and_questions_are_repeated_over_a_new_connection(tmp_path: Path) -> None:
    """The broker may have lost them, and whatever was sent meanwhile: all that the spool does not have is asked for."""
    with bench(tmp_path) as made:
        for frame in (opening(), data(0, 1), data(2, 1)):
            made.send(frame)
        made.work()
        made.client.stop()
        made.client.start()
        made.work()
        assert [{"epoch": 1, "next": 1, "closed": False}] * 2 == made.reported
        again = {"epoch": 1, "from": 1, "to": 2}
        assert [again, again, {"epoch": 1, "from": 1, "to": 1 << 62}] == made.asked


def test_a_stream_that_was_removed_holds_up_no_other(tmp_path: Path) -> None:
    """What still comes of it is acknowledged; once it is added again, all that its spool does not have is asked for."""
    with bench(tmp_path) as made:
        for frame in (opening(), data(0, 1)):
            made.send(frame)
        made.work()
        feed = made.receiver.feeds[STREAM]
        made.receiver.remove(STREAM)
        made.send(data(1, 1))
        made.work()
        assert (0, [0], []) == (made.unacknowledged, made.spooled(), made.asked)
        made.receiver.add(STREAM, feed)
        made.work()
        assert [{"epoch": 1, "from": 1, "to": 1 << 62}] == made.asked
        made.send(data(1, 1))
        made.work()
        assert [0, 1] == made.spooled()


def test_a_stream_whose_spool_breaks_is_removed_alone(tmp_path: Path) -> None:
    """Its trouble is passed on, its messages hold up nothing, and the other stream goes on."""
    troubles: list[tuple[str, str]] = []
    with bench(tmp_path) as made:
        feeds = dict(made.receiver.feeds)
        made.receiver = Receiver(
            feeds,
            cast("MqttClient", made),
            on_unread=made.unread.append,
            on_trouble=lambda topic, error: troubles.append((topic, type(error).__name__)),
            clock=made.clock,
        )
        made.spools["derived"].close()
        for frame in (opening(), data(0, 1)):
            made.send(frame)
        made.broker.publish(RAW, b'{"t": 1}')
        made.work()
        assert ([(STREAM, "SpoolClosed")], 0, 1) == (troubles, made.unacknowledged, made.spools["raw"].end)


@pytest.mark.parametrize("unreported", [False, True])
def test_a_receiver_that_gets_nothing_waits_only_with_something_to_report(tmp_path: Path, *, unreported: bool) -> None:
    """Then it is called again soon."""
    with bench(tmp_path) as made:
        made.send(opening())
        made.work()
        if unreported:
            made.send(data(0, 1))
            made.work()
        assert unreported is made.receiver.work(())


def test_a_receiver_that_waits_for_room_is_called_again(tmp_path: Path) -> None:
    """Reading makes room without a notification."""
    with bench(tmp_path, most_bytes=1) as made:
        commit(tmp_path / "raw", "job", 0)
        for _ in range(2):
            made.broker.publish(RAW, b'{"t": 1}')
            made.work()
        assert made.receiver.work(())
        assert 1 == made.unacknowledged


def test_nothing_is_spooled_while_the_broker_has_not_answered_for_what_was_rejected(tmp_path: Path) -> None:
    """A stream with much that is unfit is read no faster than that; other streams go on."""
    room: list[str] = []
    with bench(tmp_path) as made:
        made.receiver = Receiver(
            dict(made.receiver.feeds),
            cast("MqttClient", made),
            on_unread=made.unread.append,
            has_room=lambda topic: topic in room,
            clock=made.clock,
        )
        made.broker.publish(RAW, b"no JSON")
        for frame in (opening(), data(0, 1)):
            made.send(frame)
        made.work()
        assert ([0], [], 1) == (made.spooled(), made.unread, made.unacknowledged)
        room.append(RAW)
        assert not made.receiver.work(())
        assert (1, 0) == (len(made.unread), made.unacknowledged)


def test_what_a_message_has_too_much_of_is_reported_once_there_is_room(tmp_path: Path) -> None:
    """Nothing of it is left out, and the topic's next message is read after that."""
    with bench(tmp_path) as made:
        made.receiver = Receiver(
            dict(made.receiver.feeds),
            cast("MqttClient", made),
            on_unread=made.unread.append,
            has_room=lambda _topic: len(made.unread) < most,
            clock=made.clock,
        )
        most = 2
        made.broker.publish(RAW, b"[1, 2, 3, 4, 5]")
        made.work()
        made.broker.publish(RAW, b"6")
        made.work()
        assert (["1", "2"], 1) == ([unread.event for unread in made.unread], made.unacknowledged)
        most = 9
        assert not made.receiver.work(())
        assert (["1", "2", "3", "4", "5", "6"], 0) == ([unread.event for unread in made.unread], made.unacknowledged)


def test_messages_not_spooled_when_a_receiver_stops_are_not_acknowledged(tmp_path: Path) -> None:
    """The broker keeps them, and they come again."""
    with bench(tmp_path) as made:
        made.broker.publish(RAW, b'{"t": 1}')
        thread = ReceiverThread("receives")
        thread.stop()
        thread.deliver(made.receiver.work, made.inbox)
        assert (0, 1) == (made.spools["raw"].end, made.unacknowledged)


def test_a_thread_works_for_all_of_its_receivers_in_the_order_of_their_messages() -> None:
    """What is unfinished is called again without a message, and what comes together is worked on together."""
    begun, goes_on, done = threading.Event(), threading.Event(), threading.Event()
    worked: list[tuple[str, list[Any]]] = []

    def one(messages: Sequence[Message | None]) -> bool:
        worked.append(("one", [*messages]))
        begun.set()
        assert goes_on.wait(BOUND)
        return False

    def other(messages: Sequence[Message | None]) -> bool:
        worked.append(("other", [*messages]))
        if not messages:
            done.set()
        return bool(messages)

    thread = ReceiverThread("receives")
    thread.deliver(one, [None])
    assert begun.wait(BOUND)
    for number in range(4):
        thread.deliver((one, other)[number % 2], [Message("t", b"", number)])
    goes_on.set()
    assert done.wait(BOUND)
    thread.stop()
    first, *rest = worked
    assert ("one", [None]) == first
    assert [("one", [0, 2]), ("other", [1, 3]), ("other", [])] == [
        (name, [message.token for message in messages]) for name, messages in rest[:3]
    ]


def test_setting_the_clock_gives_up_no_hole(tmp_path: Path) -> None:
    """Missing events are awaited for the same time, even if the clock is set."""
    with bench(tmp_path) as made:
        for frame in (opening(), data(2, 1)):
            made.send(frame)
        made.work()
        for by in (_PATIENCE / 2, _PATIENCE / 2, -_PATIENCE):
            made.clock.set(made.clock.now() + by)
            made.send(data(2, 1))
            made.work()
            assert made.spooled() == []
        made.send(data(0, 2))
        made.work()
        assert made.spooled() == [0, 1, 2]
        assert made.receiver.intakes[STREAM].counts.gaps == 0


def test_a_hole_that_stays_is_passed_over_and_counted(tmp_path: Path) -> None:
    """After the patience early frames are spooled, and the gap is counted."""
    with bench(tmp_path) as made:
        for frame in (opening(), data(2, 1)):
            made.send(frame)
        made.work()
        assert made.spooled() == []
        for _ in range(2):
            # It is there, and sends what it has.
            made.clock.advance(_PATIENCE / 2)
            made.send(data(2, 1))
            made.work()
        assert made.spooled() == [2]
        assert made.receiver.intakes[STREAM].counts.gaps == 2
        assert made.unacknowledged == 0


def test_a_full_spool_acknowledges_no_raw_message_until_its_consumers_have_read(tmp_path: Path) -> None:
    """Back-pressure: raw messages for a full spool stay at the broker, and are taken when there is room."""
    with bench(tmp_path, most_bytes=1) as made:
        commit(tmp_path / "raw", "job", 0)
        for number in range(2):
            made.broker.publish(RAW, f'{{"t": {number}}}'.encode())
            made.work()
        assert (made.spools["raw"].end, made.unacknowledged) == (1, 1)
        commit(tmp_path / "raw", "job", 1)
        made.work()
        assert (made.spools["raw"].end, made.unacknowledged) == (2, 0)


def test_frames_for_a_full_spool_are_asked_for_once_there_is_room(tmp_path: Path) -> None:
    """The broker holds none of them, not even after a hole; and however long it takes, none counts as lost."""
    with bench(tmp_path, most_bytes=1) as made:
        commit(tmp_path / "derived", "job", 0)
        for frame in (opening(), data(2, 1), data(0, 1)):
            made.send(frame)
        made.work()
        made.send(data(1, 1))
        for _ in range(3):
            made.work()
            made.clock.advance(_PATIENCE)
        assert (made.spooled(), made.unacknowledged) == ([0], 0)
        made.asked.clear()
        commit(tmp_path / "derived", "job", 1)
        made.work()
        assert [{"epoch": 1, "from": 1, "to": 1 << 62}] == made.asked
        made.send(data(1, 1))
        made.work()
        assert made.spooled(1) == [1]
        commit(tmp_path / "derived", "job", 2)
        made.send(data(2, 1))
        made.work()
        assert (made.spooled(2), made.receiver.intakes[STREAM].counts.gaps) == ([2], 0)


def test_a_spool_grows_beyond_its_limit_by_one_group_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for raw events and frames, however many have come; the rest is taken, in order, once there is room."""
    monkeypatch.setattr(receiving, "MOST_SPOOLED", 3_000)
    with bench(tmp_path, most_bytes=20_000) as made:
        for name in ("derived", "raw"):
            commit(tmp_path / name, "job", 0)
        made.send(opening())
        for number in range(200):
            made.send(data(number, 1))
            made.broker.publish(RAW, f'{{"t": {number}, "text": "{"x" * 400}"}}'.encode())
        made.work()
        for spool in made.spools.values():
            # A group of frames is smaller in its file, and one of raw events larger by what is not of them.
            assert 20_000 <= spool.size < 20_000 + 5_000
        assert 0 < made.unacknowledged < 200
        found: dict[str, list[float]] = {"derived": [], "raw": []}

        def take() -> None:
            for name, field in {"derived": "n", "raw": "t"}.items():
                for _, item in read(tmp_path / name, len(found[name]), 1 << 30):
                    found[name].extend(unpacked(item.payload)[field].to_pylist())
                commit(tmp_path / name, "job", len(found[name]))

        take()
        while made.unacknowledged or len(found["derived"]) < 200:
            made.work()
            for asked in made.asked:
                for number in range(asked["from"], 200):
                    made.send(data(number, 1))
            made.asked.clear()
            take()
        assert {name: list(range(200)) for name in found} == found


def test_a_message_that_is_no_frame_is_reported_and_holds_up_nothing(tmp_path: Path) -> None:
    """Nonsense on a stream's topic is acknowledged, because it would be no better the next time."""
    with bench(tmp_path) as made:
        made.send(opening())
        made.broker.publish(STREAM, b"nonsense")
        made.send(data(0, 1))
        made.work()
        assert made.spooled() == [0]
        assert made.unacknowledged == 0
        assert [(unread.topic, unread.event) for unread in made.unread] == [(STREAM, "b'nonsense'")]


def test_raw_events_are_born_when_received_and_others_keep_their_births(tmp_path: Path) -> None:
    """Events of a bridge keep their births, which are unknown if their frame has none."""
    made = Bench(tmp_path)
    made.broker.publish(RAW, b'[{"t": 1}, {"t": 2}]')
    events = pa.record_batch({"n": [0, 1]})
    births = (Birth(1, 5), Birth(1, 7))
    made.send(Frame(instance=7, port="out", epoch=1, first=0, kind=FrameKind.OPEN))
    made.send(Frame(instance=7, port="out", epoch=1, first=0, events=events, births=births))
    made.send(Frame(instance=7, port="out", epoch=1, first=2, events=events))
    made.work()
    found = {name: [item.births for _, item in read(tmp_path / name, 0, 1 << 20)] for name in ("raw", "derived")}
    assert {"raw": [(Birth(2, 1_000_000),)], "derived": [births, ()]} == found
    made.end()


def test_raw_events_are_spooled_by_their_schema_and_unfit_ones_reported(tmp_path: Path) -> None:
    """Raw messages of a group become one item; an unfit event is reported with its reason, alone."""
    with bench(tmp_path) as made:
        for message in (b'{"t": 1}', b'[{"t": 2.5, "more": [1]}, {"t": "warm"}]', b"{"):
            made.broker.publish(RAW, message)
        made.work()
        (placed,) = read(tmp_path / "raw", 0, 1 << 30)
        assert unpacked(placed.item.payload).to_pylist() == [
            {"t": 1.0, "_rest": None},
            {"t": 2.5, "_rest": '{"more":[1]}'},
        ]
        assert [unread.reason.partition(":")[0] for unread in made.unread] == [
            "the field 't' should be of kind float",
            "the message is not JSON",
        ]
        assert made.unacknowledged == 0


@given(st.data())
def test_whatever_breaks_every_event_is_spooled_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, chance: st.DataObject
) -> None:
    """Frames that come twice or in any order, lost connections and processes that end at any moment change nothing.

    In the end the producer sends what the spool does not have.
    """
    folder = tmp_path_factory.mktemp("receiver")
    total = chance.draw(st.integers(1, 12), "events")
    frames = [data(first, chance.draw(st.integers(1, total - first))) for first in range(total)]
    frames += chance.draw(st.lists(st.sampled_from(frames), max_size=6), "doubled")
    order = chance.draw(st.permutations(frames), "order")
    with bench(folder) as made:
        made.send(opening())
        for frame in order:
            made.send(frame)
            match chance.draw(st.sampled_from(["go on", "work", "lose the connection", "die"]), "what happens"):
                case "work":
                    made.work()
                case "lose the connection":
                    made.client.stop()
                    made.client.start()
                case "die":
                    made.end()
                    made.begin()
        made.work()
        while made.spools["derived"].end < total:
            made.send(data(made.spools["derived"].end, 1))
            made.work()
        assert made.spooled() == list(range(total))
        assert made.unacknowledged == 0


def test_numbered_events_are_answered_once_they_are_spooled(tmp_path: Path) -> None:
    """The next number of each producer outlives the receiver, and a malformed message is reported and acknowledged."""
    topic, answers = topics.sent("source/7"), list[dict[str, Any]]()

    class Answers:
        def acknowledge(self, tokens: Iterable[int], taken: Callable[[], None] | None = None) -> None:
            assert taken is None
            acknowledged.extend(tokens)

        def publish(self, where: str, payload: bytes, *, retain: bool = False) -> None:
            assert (topics.kept("source/7"), False) == (where, retain)
            answers.append(json.loads(payload))

    def sent(first: int, count: int, producer: str = "p") -> bytes:
        events = pa.record_batch({"n": pa.array(range(first, first + count), pa.int64())})
        return Sent(producer=producer, first=first, events=events, ask=f"{producer}{first}").encoded()

    for messages, expected in (
        ([sent(0, 3), sent(0, 3), b"{", sent(2, 3), sent(9, 1), sent(0, 1, "q")], [5, 5, 5, 5, 1]),
        ([sent(3, 2), sent(5, 1)], [6, 6]),
    ):
        acknowledged, unread = list[int](), list[Unread]()
        answers.clear()
        spool = Spool(tmp_path / "raw", most_bytes=1 << 20)
        receiver = Receiver(
            {topic: SpoolFeed(spool=spool, answers_at=topics.kept("source/7"))},
            cast("MqttClient", Answers()),
            on_unread=unread.append,
        )
        receiver.work(Message(topic, payload, token) for token, payload in enumerate(messages))
        spool.close()
        assert expected == [each["next"] for each in answers]
        assert ([*range(len(messages))], messages.count(b"{")) == (acknowledged, len(unread))
    found = [row for _, item in read(tmp_path / "raw", 0, 1 << 30) for row in unpacked(item.payload)["n"].to_pylist()]
    assert [0, 1, 2, 3, 4, 0, 5] == found
