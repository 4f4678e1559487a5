"""Looks at outputs: what of them is shown, how much is counted, and that they end."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.transport.memory_broker import MemoryBroker
from manager.event_flow.output_look import MOST_SAMPLE_CHARACTERS, MOST_SAMPLE_EVENTS, OutputLook
from manager.event_flow.output_watcher import OutputWatcher
from manager.problem import QuotaExceeded, StateNotReady
from tests.manager.memory_outputs import connecting, output

TOPIC = "braid/1/out/ann/d-1/out"


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def watching(broker: MemoryBroker) -> Iterator[OutputWatcher]:
    made = OutputWatcher(connecting(broker), most=4, most_of_one=2)
    made.start()
    yield made
    assert 0 == made.looks


def test_what_leaves_is_shown_and_the_rest_is_counted(broker: MemoryBroker, watching: OutputWatcher) -> None:
    """A sample has the newest message, and counts all events since the sample before that it does not show."""
    with watching.look("ann", TOPIC) as look:
        assert look.take() is None
        broker.publish(TOPIC, output(10, "a", "b"))
        shown = look.take()
        assert shown is not None
        assert (1, 10, ("a", "b"), 0) == (shown.epoch, shown.first, shown.events, shown.others)
        for first in (12, 13, 14):
            broker.publish(TOPIC, output(first, first))
        broker.publish("braid/1/out/bob/d-1/out", output(99, "bob's"))
        shown = look.take()
        assert shown is not None
        assert (14, (14,), 2) == (shown.first, shown.events, shown.others)
        assert look.take() is None


def test_a_look_begins_anew_with_an_epoch_and_bears_what_is_sent_again(
    broker: MemoryBroker, watching: OutputWatcher
) -> None:
    """Numbers of another epoch are not compared, and those that were read before count nothing."""
    with watching.look("ann", TOPIC) as look:
        others = []
        for message in (output(100, 1), output(90, 2), output(5, 3, epoch=2), output(8, 4, epoch=2)):
            broker.publish(TOPIC, message)
            shown = look.take()
            assert shown is not None
            others.append(shown.others)
        assert [0, 0, 0, 2] == others


@given(st.lists(st.lists(st.text(max_size=3).map(lambda text: text * 9_000), min_size=1, max_size=30), min_size=1))
def test_what_is_shown_and_what_is_counted_are_all(messages: list[list[str]]) -> None:
    """Whatever leaves: shown and counted events are as many as left, and no sample is larger than its bounds."""
    look, first, told = OutputLook(TOPIC), 1, 0
    for number, events in enumerate(messages):
        look.receive(output(first, *events))
        first += len(events)
        # Every other message is missed; the first is not, because nobody looked before it.
        if number % 2 == 0:
            shown = look.take()
            assert shown is not None
            assert tuple(events[: len(shown.events)]) == shown.events
            assert len(shown.events) <= MOST_SAMPLE_EVENTS
            assert sum(map(len, shown.events)) <= MOST_SAMPLE_CHARACTERS
            told += len(shown.events) + shown.others
    missed = len(messages[-1]) if len(messages) % 2 == 0 else 0
    assert first - 1 - missed == told


@pytest.mark.parametrize("payload", [b"\xff", b"[]", b"{}", b'{"epoch":1,"first":1,"events":7}', b"[" * 100_000])
def test_what_is_no_output_is_passed_over(
    broker: MemoryBroker, watching: OutputWatcher, caplog: pytest.LogCaptureFixture, payload: bytes
) -> None:
    """Whatever lies on the topic, the look goes on, and the log says what was passed over."""
    with watching.look("ann", TOPIC) as look:
        broker.publish(TOPIC, payload)
        assert look.take() is None
        assert f"topic {TOPIC}: passed over, because it is no output" in caplog.text
        broker.publish(TOPIC, output(1, "well"))
        shown = look.take()
        assert shown is not None
        assert ("well",) == shown.events


def test_so_many_look_and_no_more(broker: MemoryBroker, watching: OutputWatcher) -> None:
    """There is a bound for one who looks and one for all, and after a look its place is free and its client gone."""
    with ExitStack() as looks:
        for who in ("ann", "ann", "bob", "operator"):
            looks.enter_context(watching.look(who, TOPIC))
        with pytest.raises(QuotaExceeded, match="1 looks at outputs are open for bob, and 4 in all"):
            looks.enter_context(watching.look("bob", TOPIC))
        assert 4 == _sessions(broker)
    with watching.look("ann", TOPIC), watching.look("ann", TOPIC):
        with pytest.raises(QuotaExceeded, match="2 looks at outputs are open for ann, and 2 in all"):
            watching.look("ann", TOPIC).__enter__()
        assert 2 == _sessions(broker)
    assert 0 == _sessions(broker)


def test_looks_end_with_the_lead(watching: OutputWatcher) -> None:
    """Whoever looks is told that nothing more comes, and nobody looks until the manager leads again."""
    told: list[bool] = []
    with watching.look("ann", TOPIC) as look:
        look.on_news(lambda: told.append(look.over))
        watching.stop()
        assert [False, True] == told
        with pytest.raises(StateNotReady, match="does not lead"):
            watching.look("bob", TOPIC).__enter__()
    watching.start()
    with watching.look("bob", TOPIC) as look:
        assert not look.over


def test_a_look_that_finds_no_broker_leaves_no_place_taken() -> None:
    """What connecting raises is raised, and the place is free again."""

    def connect(_client_id: str, **_told: object) -> None:
        raise OSError("no broker")

    watching = OutputWatcher(connect, most=1)  # type: ignore[arg-type]  # it gives nothing
    watching.start()
    for _ in range(2):
        with pytest.raises(OSError, match="no broker"):
            watching.look("ann", TOPIC).__enter__()
    assert 0 == watching.looks


def _sessions(broker: MemoryBroker) -> int:
    """How many clients the broker has now."""
    return sum(session.client is not None for session in broker._sessions.values())
