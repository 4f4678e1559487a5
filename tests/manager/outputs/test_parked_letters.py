"""Parked dead letters: letters from the broker are committed before they are acknowledged, and none is lost."""

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from sqlmodel import col

from bridge import Message, topics
from manager.outputs import parked_letters
from manager.outputs.parked_letters import DeadLetterParking, read_letter, service_name
from manager.problem import StateNotReady
from manager.store.database import Store, sqlite_url
from manager.store.dead_letters import Readers
from manager.store.tables import DeadLetterReaderRow, DeadLetterRow
from tests.twins.memory_broker import MemoryBroker, MemoryClient

BOUND = 30.0


class Post:
    """A broker with a database; `open` starts to store letters."""

    def __init__(self, url: str) -> None:
        self.broker = MemoryBroker()
        self.store = Store(url)
        self.parking: DeadLetterParking | None = None
        self.names: list[str] = []
        self.troubles: list[Exception] = []
        """What goes wrong next, one after the other."""

    def open(self) -> DeadLetterParking:
        self.parking = DeadLetterParking(self.store, self._connect, self._serving)
        self.parking.start()
        return self.parking

    def close(self) -> None:
        if self.parking is not None:
            self.parking.stop()
            self.parking = None

    def say(self, instance: int, batch: int, **fields: Any) -> None:
        letter = {"instance": instance, "port": "in", "reason": "why", "batch": batch, "count": 1, "events": [{"n": 1}]}
        self.send(instance, json.dumps(letter | fields).encode())

    def send(self, instance: int | str, payload: bytes) -> None:
        self.broker.publish(f"{topics.ROOT}/dead/{instance}", payload)

    def waiting(self) -> int:
        """Return the number of unacknowledged messages."""
        session = self.broker.session(self.names[-1], [f"{topics.ROOT}/dead/+"])
        return len(session.unacknowledged)

    def batches(self) -> list[int]:
        with self.store.read() as session:
            return list(session.scalars(select(col(DeadLetterRow.batch)).order_by(col(DeadLetterRow.id))))

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline, pause = time.monotonic() + BOUND, threading.Event()
        while not condition():
            pause.wait(0.01)
            if time.monotonic() > deadline:
                pytest.fail(f"not within {BOUND:g} s: {what}")

    def _connect(self, client_id: str, *, topics: Iterable[str], on_message: Callable[[Message], None]) -> Any:
        if self.troubles:
            raise self.troubles.pop(0)
        self.names.append(client_id)
        client = MemoryClient(self.broker, client_id, topics=topics, on_message=on_message)
        client.start()
        return client

    def _serving(self, instances: Collection[int]) -> Mapping[int, Readers]:
        if self.troubles:
            raise self.troubles.pop(0)
        return {instance: {"ann": ["d-1"]} for instance in instances}


@pytest.fixture
def post(empty_url: str) -> Iterator[Post]:
    made = Post(empty_url)
    yield made
    made.close()
    made.store.close()


def test_a_letter_is_stored_and_then_acknowledged(post: Post) -> None:
    """It is in the database with its readers before the broker forgets it."""
    kept = post.open()
    post.until(lambda: post.names, "a connection")
    for batch in range(5):
        post.say(7, batch)
    post.until(lambda: not post.waiting(), "everything to be acknowledged")
    assert ([0, 1, 2, 3, 4], 5, 0) == (post.batches(), kept.kept, kept.malformed)
    with post.store.read() as session:
        assert {("ann", ("d-1",))} == {
            (row.tenant, tuple(row.dataflows)) for row in session.scalars(select(DeadLetterReaderRow))
        }


def test_letters_without_a_leader_are_stored_by_the_next(post: Post) -> None:
    """The session lasts under the name of the service, and earlier letters are not stored twice."""
    post.open()
    post.until(lambda: post.names, "a connection")
    post.say(7, 0)
    post.until(lambda: not post.waiting(), "the first")
    post.close()
    post.say(7, 1)
    post.say(7, 0)
    post.open()
    post.until(lambda: len(post.names) == 2 and not post.waiting(), "the others")
    assert [0, 1] == post.batches()
    assert post.names == [f"braid-dead-letters-{service_name(post.store)}"] * 2


def test_each_service_has_a_name_of_its_own(post: Post, tmp_path: Path) -> None:
    """Two services at one broker take only their own letters, and each keeps its name."""
    other = Store(sqlite_url(tmp_path / "other.db"))
    assert service_name(post.store) == service_name(post.store) != ""
    assert service_name(other) != service_name(post.store)
    other.close()


@pytest.mark.parametrize(
    "trouble",
    [StateNotReady("it does not lead"), OperationalError("begin", None, Exception("it is locked")), KeyError()],
)
def test_a_failed_commit_is_tried_again(
    post: Post, monkeypatch: pytest.MonkeyPatch, trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """No error ends the connection or loses a letter."""
    monkeypatch.setattr(parked_letters, "_RETRY_AFTER", 0.01)
    post.troubles = [trouble]
    post.open()
    post.until(lambda: post.names, "a connection")
    post.troubles = [trouble, trouble]
    post.say(7, 0)
    post.until(post.batches, "the letter")
    post.until(lambda: not post.waiting(), "it to be acknowledged")
    assert (isinstance(trouble, StateNotReady)) or "tried again" in caplog.text


def test_an_uncommitted_letter_is_not_acknowledged(post: Post) -> None:
    """If it stops while the database is away, the broker keeps the letter for the next one."""
    post.open()
    post.until(lambda: post.names, "a connection")
    post.troubles = [KeyError()]
    post.say(7, 0)
    post.until(lambda: not post.troubles, "an attempt")
    post.close()
    assert ([], 1) == (post.batches(), post.waiting())
    post.open()
    post.until(lambda: not post.waiting(), "the next attempt")
    assert [0] == post.batches()


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


GOOD = {"instance": 7, "port": "in", "reason": "why", "batch": 3, "count": 1, "events": []}
MALFORMED = {
    "empty": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"instance": "\xff"}',
    "no object": b"[]",
    "another instance": json.dumps(GOOD | {"instance": 8}).encode(),
    "no instance": b"{}",
    "an instance that is none": json.dumps(GOOD | {"instance": True}).encode(),
    "a batch beyond any": json.dumps(GOOD | {"batch": 2**63}).encode(),
    "a batch before the first": json.dumps(GOOD | {"batch": -1}).encode(),
    "a port that is no text": json.dumps(GOOD | {"port": None}).encode(),
    "no reason": json.dumps({name: value for name, value in GOOD.items() if name != "reason"}).encode(),
    "events that are no list": json.dumps(GOOD | {"events": {}}).encode(),
    "not a number": json.dumps(GOOD | {"events": [float("nan")]}).encode(),
    "infinite": json.dumps(GOOD).replace("[]", "[1e999]").encode(),
    "a number too long": json.dumps(GOOD).replace("[]", f"[{'9' * 5_000}]").encode(),
    "nested too deep": json.dumps(GOOD).replace("[]", deep(300)).encode(),
    "nested deeper than any reads": json.dumps(GOOD).replace("[]", deep(100_000)).encode(),
}


def test_malformed_messages_are_passed_over(post: Post) -> None:
    """Each is counted and acknowledged, and later letters are stored."""
    kept = post.open()
    post.until(lambda: post.names, "a connection")
    for payload in MALFORMED.values():
        post.send(7, payload)
    post.send("seven", json.dumps(GOOD).encode())
    post.say(7, 1)
    post.until(lambda: not post.waiting(), "everything to be acknowledged")
    assert ([1], len(MALFORMED) + 1) == (post.batches(), kept.malformed)


@pytest.mark.parametrize("payload", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_message_has_a_clear_error(payload: bytes) -> None:
    """Reading it raises only errors that are caught."""
    with pytest.raises((ValueError, RecursionError)):
        read_letter(Message(topics.dead(7), payload, 1))


def test_odd_texts_are_kept(post: Post) -> None:
    """Every database stores null characters, lone surrogates and numbers beyond 64 bits, and reads them again."""
    post.open()
    post.until(lambda: post.names, "a connection")
    post.say(
        7, 2**40, reason="\x00 \ud800 é", port="a\x00", events=[{"a\x00": "\ud83d", "n": 2**70, "x": "\U0001f600"}]
    )
    post.until(lambda: not post.waiting(), "it to be acknowledged")
    with post.store.read() as session:
        row = session.scalars(select(DeadLetterRow)).one()
    assert ("\ufffd ? é", "a\ufffd", 2**40) == (row.reason, row.port, row.batch)
    assert [{"a\x00": "?", "n": 2**70, "x": "\U0001f600"}] == row.events
