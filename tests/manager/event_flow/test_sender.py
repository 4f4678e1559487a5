"""The event sender: answered events are in the spool exactly once, and failures are reported in time."""

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest

from bridge import topics
from bridge.intake import MOST_REMEMBERED
from manager.problem import NotTaken, QuotaExceeded, StateNotReady
from manager.sources import events as sent_events
from manager.sources.events import _MOST_AT_ONCE, MOST_REQUESTS_OF_ONE, EventSender, Gap
from tests.manager.memory_outputs import Spools, connecting
from tests.twins.memory_broker import MemoryBroker

STREAM = "source/7"


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def made(broker: MemoryBroker) -> Iterator[EventSender]:
    made = EventSender(connecting(broker), patience=0.3)
    made.start()
    yield made
    made.stop()


def numbers(first: int, end: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, end), pa.int64())})


def send(made: EventSender, first: int, end: int, producer: str = "p") -> int:
    with made.admitted("ann") as until:
        return made.send(STREAM, producer, first, numbers(first, end), until=until)


def test_the_same_numbers_add_nothing_and_a_gap_is_refused(broker: MemoryBroker, made: EventSender) -> None:
    """Each number is in the spool once, however events are repeated and divided."""
    spools = Spools(broker, STREAM)
    assert [5, 5, 8, 3, 9] == [send(made, *each) for each in ((0, 5), (0, 5), (3, 8), (0, 3), (8, 9))]
    with pytest.raises(Gap) as caught:
        send(made, 12, 13)
    assert 9 == caught.value.expected
    with made.admitted("ann") as until:
        assert (9, 0) == (made.next(STREAM, "p", until=until), made.next(STREAM, "q", until=until))
    assert [{"n": number} for number in range(9)] == spools.events(STREAM)
    assert not spools.unread


def test_producers_are_separate_and_the_newest_are_remembered(broker: MemoryBroker, made: EventSender) -> None:
    """Producers for a single use do not displace those with names."""
    Spools(broker, STREAM)
    send(made, 0, 2, "named")
    for number in range(MOST_REMEMBERED + 1):
        send(made, 0, 1, f"~{number}")
    with made.admitted("ann") as until:
        known = [made.next(STREAM, name, until=until) for name in ("named", "~0", "~1")]
    assert [2, 0, 1] == known


def test_lost_messages_are_sent_again(broker: MemoryBroker, made: EventSender, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost message or a lost answer doubles nothing."""
    monkeypatch.setattr(sent_events, "_REPUBLISH_AFTER", 0.01)
    spools, lost = Spools(broker, STREAM), {topics.sent(STREAM): 2, topics.kept(STREAM): 2}

    def swallows(topic: str, _payload: bytes) -> bool:
        lost[topic] -= 1
        return lost[topic] >= 0

    broker.swallows = swallows
    assert 4 == send(made, 0, 4)
    assert [{"n": number} for number in range(4)] == spools.events(STREAM)


def test_large_events_are_sent_in_several_messages(broker: MemoryBroker, made: EventSender) -> None:
    """Each message is small enough for any broker."""
    spools = Spools(broker, STREAM)
    events = pa.record_batch({"x": [letter * 600_000 for letter in "abc"]})
    with made.admitted("ann") as until:
        assert 3 == made.send(STREAM, "p", 0, events, until=until)
    assert ["a", "b", "c"] == [each["x"][0] for each in spools.events(STREAM)]


def test_events_without_an_answer_are_an_error_in_time(made: EventSender) -> None:
    """The error says after how long to try again."""
    with pytest.raises(NotTaken) as caught:
        send(made, 0, 1)
    assert caught.value.retry_after is not None


def test_a_manager_that_does_not_lead_refuses_events(made: EventSender) -> None:
    """The error names the manager that leads as the one to ask."""
    made.stop()
    with pytest.raises(StateNotReady):
        send(made, 0, 1)


def test_waiting_requests_are_limited(made: EventSender) -> None:
    """There is a limit for each tenant and one for all; a refusal says when to try again."""
    with ExitStack() as many:
        for _ in range(MOST_REQUESTS_OF_ONE):
            many.enter_context(made.admitted("ann"))
        with pytest.raises(QuotaExceeded) as caught:
            many.enter_context(made.admitted("ann"))
        assert caught.value.retry_after is not None
        for number in range(_MOST_AT_ONCE - MOST_REQUESTS_OF_ONE):
            many.enter_context(made.admitted(f"t{number}"))
        with pytest.raises(QuotaExceeded):
            many.enter_context(made.admitted("bob"))
    with made.admitted("ann"):
        pass
