"""Raw messages that a broker delivers again after they were spooled: each counts once, and none is taken for another.

On the broker's twin; `tests/integration/test_raw_once.py` holds the same on real ones.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import topics
from bridge.files import Steps, no_steps
from bridge.intake import Sent
from bridge.messages import PACKET_IDS, UNACKNOWLEDGED, Message
from bridge.receiver import Receiver, SpoolFeed
from bridge.spools.deliveries import NOTHING_IN_DOUBT, Deliveries, InDoubt
from bridge.spools.log import Placed, unpacked
from bridge.spools.reader import read
from bridge.spools.spool import Spool, commit
from bridge.transport.mqtt_client import MqttClient
from dags import Kind, Schema
from dags.source_topics import source_topic
from tests.twins.memory_broker import MemoryBroker, MemoryClient
from tests.twins.memory_spool import MemorySpool

RAW, SENT, CLIENT = "sensors/street", topics.sent("raw/street"), "receives"
FILTER = "sensors/{place}"
SCHEMA = Schema.of(n=Kind.INTEGER)
WRITE = ["open", "write", "sync", "rename", "sync folder", "done"]


class Died(BaseException):
    """The end of a process."""


class Line:
    """A receiver of one stream, whose process may die and begin again; its spool stays."""

    def __init__(self, spool: Spool, *, last_id: int = 0, topic: str = RAW) -> None:
        self.spool: Any = spool
        self.levels = source_topic(topic)
        self.topics = [self.levels.filter, SENT]
        self.broker = MemoryBroker()
        self.broker.session(CLIENT, self.topics).last = last_id
        self.heard: int | None = None
        """The number of acknowledgements after which the process dies; None if it lives on."""
        self.numbers = count()
        self.session = "s"
        self.begin()

    def begin(self) -> None:
        self.inbox: list[Message | None] = []
        feeds = {
            self.levels.filter: SpoolFeed(
                spool=self.spool, schema=SCHEMA, levels=None if self.levels.is_plain else self.levels
            ),
            SENT: SpoolFeed(spool=self.spool, answers_at=topics.kept("raw/street")),
        }
        self.receiver = Receiver(feeds, cast("MqttClient", self), on_unread=lambda _unread: None, session=self.session)
        self.connect()

    def connect(self) -> None:
        self.client = MemoryClient(
            self.broker,
            CLIENT,
            topics=self.topics,
            on_message=self.inbox.append,
            on_connection=lambda: self.inbox.append(None),
            on_new_session=self.receiver.session_began,
        )
        self.client.start()

    def acknowledge(self, tokens: Iterable[int], taken: Callable[[], None] | None = None) -> None:
        if self.heard is None:
            self.client.acknowledge(tokens, taken)
            return
        self.client.acknowledge(list(tokens)[: self.heard])
        raise Died

    def publish(self, _topic: str, _payload: bytes, *, retain: bool = False) -> None:
        assert not retain

    def raw(self, number: int, topic: str = RAW) -> None:
        self.broker.publish(topic, json.dumps({"n": number}).encode())

    def numbered(self) -> None:
        events = pa.record_batch({"n": pa.array([-1], pa.int64())})
        self.broker.publish(SENT, Sent(producer="p", first=next(self.numbers), events=events, ask="a").encoded())

    def work(self) -> None:
        arrived = list(self.inbox)
        self.inbox.clear()
        self.receiver.work(arrived)

    def die(self, heard: int | None = None) -> None:
        """Handle what has arrived, die after some acknowledgements, and begin again."""
        self.heard = heard
        if heard is not None:
            with suppress(Died):
                self.work()
        self.heard = None
        self.client.stop()
        self.begin()

    @property
    def unacknowledged(self) -> int:
        return len(self.broker.session(CLIENT, self.topics).unacknowledged)


def numbers(placed: Iterator[Placed]) -> list[int]:
    """The numbers of raw events; numbered ones are -1, and left out."""
    found = (number for _, item in placed for number in unpacked(item.payload)["n"].to_pylist())
    return [number for number in found if number >= 0]


def spooled(line: Line) -> list[int]:
    return numbers(line.spool.read(0, 1 << 30))


@given(st.sampled_from([0, 65_530]), st.sampled_from([RAW, FILTER]), st.data())
def test_whatever_dies_each_raw_message_counts_once(last_id: int, topic: str, chance: st.DataObject) -> None:
    """Equal messages too, in their order, beside numbered ones, however many acknowledgements the broker heard.

    A filter's topics feed one spool.
    """
    line, expected = Line(MemorySpool(), last_id=last_id, topic=topic), list[int]()
    places = [RAW] if topic == RAW else [RAW, "sensors/bridge"]
    steps = ["raw", "raw", "numbered", "work", "die", "die acknowledging", "lose the connection", "lose the session"]
    for step in chance.draw(st.lists(st.sampled_from(steps), max_size=25), "steps"):
        match step:
            case "raw":
                expected.append(chance.draw(st.integers(0, 1), "number"))
                line.raw(expected[-1], chance.draw(st.sampled_from(places), "topic"))
            case "numbered":
                line.numbered()
            case "work":
                line.work()
            case "die":
                line.die()
            case "die acknowledging":
                line.die(chance.draw(st.integers(0, 4), "heard"))
            case "lose the connection":
                del line.inbox[len(line.inbox) - chance.draw(st.integers(0, len(line.inbox)), "lost on their way") :]
                line.client.stop()
                line.client.start()
            case "lose the session":
                line.client.stop()
                # What was not spooled is lost with it.
                expected = spooled(line)
                line.broker.end_session(CLIENT)
                line.begin()
    line.work()
    assert (expected, 0) == (spooled(line), line.unacknowledged)


@pytest.mark.parametrize("pruned", [False, True], ids=["kept", "pruned"])
@pytest.mark.parametrize("step", [*WRITE, *(f"{heard} heard" for heard in range(4))])
def test_a_death_at_any_step_between_spool_and_acknowledgement_doubles_nothing(
    tmp_path: Path, step: str, *, pruned: bool
) -> None:
    """Whether it dies while it writes or acknowledges, and whether its files were removed since."""

    def dies(name: str) -> None:
        if name == step:
            raise Died

    def opened(steps: Steps) -> Spool:
        return Spool(tmp_path, most_bytes=1 << 30, step=steps)

    commit(tmp_path, "job", 0)
    line = Line(opened(no_steps))
    line.raw(0)
    line.work()
    line.spool.close()
    for _ in range(2):
        line.client.stop()
        line.spool = opened(dies)
        line.begin()
        for number in (1, 1, 2):
            line.raw(number)
        line.heard = int(step[0]) if step.endswith("heard") else None
        with pytest.raises(Died):
            line.work()
        line.spool.close()
    line.heard = None
    line.spool = opened(no_steps)
    before = numbers(read(tmp_path, 0, 1 << 30))
    if pruned:
        commit(tmp_path, "job", line.spool.end)
        line.spool.prune()
        line.spool.close()
        line.spool = opened(no_steps)
    start = line.spool.first
    line.client.stop()
    line.begin()
    line.work()
    after = numbers(read(tmp_path, start, 1 << 30))
    assert ([0, 1, 1, 2, 1, 1, 2], 0) == (before + after if pruned else after, line.unacknowledged)
    line.spool.close()


def test_equal_messages_of_two_topics_are_two() -> None:
    """A message in doubt is known by its topic too, even if the broker gives its packet id to that of another."""
    kept = InDoubt()
    deliveries = Deliveries("sensors/+", "s", kept)
    deliveries.new([Message("sensors/street", b"1", 1)])
    kept = deliveries.kept()
    other = [Message("sensors/bridge", b"1", PACKET_IDS + 1, again=True)]
    assert other == Deliveries("sensors/+", "s", kept).new(other)
    assert [] == Deliveries("sensors/+", "s", kept).new([Message("sensors/street", b"1", PACKET_IDS + 1, again=True)])


def test_without_a_known_session_repetitions_count_again() -> None:
    """A broker may give ids in any way, so nothing that it delivers is dropped."""
    line = Line(MemorySpool())
    line.raw(1)
    line.work()
    assert NOTHING_IN_DOUBT != line.spool.in_doubt
    line.session = ""
    line.die()
    line.raw(2)
    line.die(0)
    line.work()
    assert ([1, 2, 2], NOTHING_IN_DOUBT) == (spooled(line), line.spool.in_doubt)


def test_the_doubts_of_another_session_are_none() -> None:
    """Another host that takes the spool over has a session with ids of its own."""
    line = Line(MemorySpool())
    line.raw(1)
    line.die(0)
    line.session = "another"
    line.die()
    line.work()
    assert [1, 1] == spooled(line)


def test_a_lost_session_is_forgotten_before_anything_is_delivered() -> None:
    """The new session begins with the same ids, and a message that is lost on its way is delivered again, marked."""
    line = Line(MemorySpool())
    line.raw(1)
    line.die(0)
    line.client.stop()
    line.broker.end_session(CLIENT)
    line.begin()
    assert NOTHING_IN_DOUBT == line.spool.in_doubt
    line.raw(1)
    line.die()
    line.work()
    assert [1, 1] == spooled(line)


def test_what_was_surely_acknowledged_is_not_kept() -> None:
    """A file has the messages of its group, and none of those before if the broker answered; nor do numbered ones."""
    line = Line(MemorySpool())
    for number in range(3):
        line.raw(number)
        line.work()
        assert 2 == len(line.spool.in_doubt.packets)
    line.numbered()
    line.work()
    assert NOTHING_IN_DOUBT == line.spool.in_doubt


def test_new_numbered_messages_end_doubts_of_earlier_connections() -> None:
    """Else packet ids might be given anew while no raw message comes."""
    line = Line(MemorySpool())
    line.raw(1)
    line.die(0)
    line.work()
    assert NOTHING_IN_DOUBT != line.spool.in_doubt
    line.numbered()
    line.work()
    assert ([1], NOTHING_IN_DOUBT) == (spooled(line), line.spool.in_doubt)


def test_unread_messages_are_handled_once_too(tmp_path: Path) -> None:
    """A message without events is noted, so that it is not reported again."""
    spool = Spool(tmp_path, most_bytes=1 << 30)
    line = Line(spool)
    line.broker.publish(RAW, b"no JSON")
    line.die(0)
    line.work()
    assert (0, 0) == (spool.end, line.unacknowledged)
    assert Deliveries(RAW, "s", spool.in_doubt).new([Message(RAW, b"no JSON", PACKET_IDS + 1, again=True)]) == []
    spool.close()


def test_a_full_spool_forgets_doubts_too(tmp_path: Path) -> None:
    """A session may be lost while there is no room for events."""
    spool = Spool(tmp_path, most_bytes=1)
    line = Line(spool)
    line.raw(1)
    line.work()
    assert NOTHING_IN_DOUBT != spool.in_doubt
    line.client.stop()
    line.broker.end_session(CLIENT)
    line.begin()
    assert NOTHING_IN_DOUBT == spool.in_doubt
    spool.close()


@given(st.integers(1_000, UNACKNOWLEDGED), st.sets(st.integers(0, 20)), st.integers(0, 65_534))
def test_an_id_that_is_given_anew_is_not_taken_for_the_one_before(size: int, answered: set[int], first: int) -> None:
    """Though its message is equal and marked: all other ids came in between, so the doubt has ended."""
    kept = InDoubt()
    tokens = [(first + given) % 65_535 + 1 for given in range(65_535)]
    deliveries = Deliveries(RAW, "s", kept)
    for number, at in enumerate(range(0, len(tokens), size)):
        deliveries.new([Message(RAW, b"1", token) for token in tokens[at : at + size]])
        kept = deliveries.kept()
        if number in answered:
            deliveries.acknowledging()()
    following = [Message(RAW, b"1", tokens[0], again=True)]
    assert following == Deliveries(RAW, "s", kept).new(following)
    deliveries.reconnected()
    assert following == deliveries.new(following)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.sampled_from([b"1", b"2"])), max_size=8))
def test_repetitions_come_first(arrived: list[tuple[bool, int, bytes]]) -> None:
    """What follows a new message is new; before, marked messages with id and content of those in doubt are none."""
    deliveries = Deliveries(RAW, "s", NOTHING_IN_DOUBT)
    there = [Message(RAW, b"1", packet) for packet in (1, 2, 3)]
    assert there == deliveries.new(there)
    deliveries.reconnected()
    messages = [Message(RAW, payload, PACKET_IDS + packet, again=again) for again, packet, payload in arrived]
    new = [not (again and packet <= 3 and payload == b"1") for again, packet, payload in arrived]
    begin = new.index(True) if True in new else len(new)
    found = [each for at in range(0, len(messages), 2) for each in deliveries.new(messages[at : at + 2])]
    assert messages[begin:] == found
