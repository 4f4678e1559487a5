"""Readers of outputs: which events are shown, counted and missed, how many looks are open, and how they end."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.delivery.publisher import RUNS
from manager.outputs.readers import MOST_SAMPLE_CHARACTERS, MOST_SAMPLE_EVENTS, OutputLook, OutputWatcher, Tail
from manager.problem import QuotaExceeded, StateNotReady
from tests.manager.memory_outputs import connecting, output
from tests.twins.memory_broker import MemoryBroker

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


def test_a_sample_shows_the_newest_message_and_counts_the_rest(broker: MemoryBroker, watching: OutputWatcher) -> None:
    """It counts all events since the sample before that it does not show."""
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


def test_what_a_topic_retains_is_no_news(broker: MemoryBroker, watching: OutputWatcher) -> None:
    """A retained envelope is one of before, which neither looks nor tails show as new."""
    broker.publish(TOPIC, output(10, "a"), retain=True)
    with watching.look("ann", TOPIC) as look, watching.tail("ann", {TOPIC: "out"}) as tail:
        assert look.take() is None
        broker.publish(TOPIC, output(11, "b"), retain=True)
        shown = look.take()
        assert shown is not None
        assert (11, 0) == (shown.first, shown.others)
        assert [(11, "b")] == [(seen.number, seen.event) for seen in tail.take()]


def test_a_new_epoch_and_repeated_messages_are_not_miscounted(broker: MemoryBroker, watching: OutputWatcher) -> None:
    """Numbers of different epochs are not compared, and events that were sampled before do not count."""
    with watching.look("ann", TOPIC) as look:
        others = []
        for message in (output(100, 1), output(90, 2), output(5, 3, epoch=2), output(8, 4, epoch=2)):
            broker.publish(TOPIC, message)
            shown = look.take()
            assert shown is not None
            others.append(shown.others)
        assert [0, 0, 0, 2] == others


@given(st.lists(st.lists(st.text(max_size=3).map(lambda text: text * 9_000), min_size=1, max_size=30), min_size=1))
def test_shown_and_counted_events_are_all_events(messages: list[list[str]]) -> None:
    """That is so for any events, and no sample exceeds its limits."""
    look, first, total = OutputLook(TOPIC), 1, 0
    for number, events in enumerate(messages):
        look.receive(output(first, *events))
        first += len(events)
        # Every other message is missed; the first is not, because there was no sample before it.
        if number % 2 == 0:
            shown = look.take()
            assert shown is not None
            assert tuple(events[: len(shown.events)]) == shown.events
            assert len(shown.events) <= MOST_SAMPLE_EVENTS
            assert sum(map(len, shown.events)) <= MOST_SAMPLE_CHARACTERS
            total += len(shown.events) + shown.others
    missed = len(messages[-1]) if len(messages) % 2 == 0 else 0
    assert first - 1 - missed == total


@pytest.mark.parametrize("payload", [b"\xff", b"[]", b"{}", b'{"epoch":1,"first":1,"events":7}', b"[" * 100_000])
def test_an_unreadable_output_is_passed_over(
    broker: MemoryBroker, watching: OutputWatcher, caplog: pytest.LogCaptureFixture, payload: bytes
) -> None:
    """The look continues, and the log says what was passed over."""
    with watching.look("ann", TOPIC) as look:
        broker.publish(TOPIC, payload)
        assert look.take() is None
        assert f"topic {TOPIC}: passed over, because it is no output" in caplog.text
        broker.publish(TOPIC, output(1, "well"))
        shown = look.take()
        assert shown is not None
        assert ("well",) == shown.events


def test_open_looks_are_limited(broker: MemoryBroker, watching: OutputWatcher) -> None:
    """There is a limit for each caller and one for all; a closed look frees its place and its client."""
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
    """Open looks end, and none is admitted until the manager leads again."""
    ended: list[bool] = []
    with watching.look("ann", TOPIC) as look:
        look.on_news(lambda: ended.append(look.over))
        watching.stop()
        assert [False, True] == ended
        with pytest.raises(StateNotReady, match="does not lead"):
            watching.look("bob", TOPIC).__enter__()
    watching.start()
    with watching.look("bob", TOPIC) as look:
        assert not look.over


def test_a_failed_look_frees_its_place() -> None:
    """The error of connecting is raised."""

    def connect(_client_id: str, **_options: object) -> None:
        raise OSError("no broker")

    watching = OutputWatcher(connect, most=1)  # type: ignore[arg-type]  # it gives nothing
    watching.start()
    for _ in range(2):
        with pytest.raises(OSError, match="no broker"):
            watching.look("ann", TOPIC).__enter__()
    assert 0 == watching.looks


def _sessions(broker: MemoryBroker) -> int:
    """Return the number of clients that the broker has."""
    return sum(session.client is not None for session in broker._sessions.values())


def read(tail: Tail) -> list[tuple[int, object, int]]:
    """Return the number, the event and the missed count of everything that waits."""
    return [(each.number, each.event, each.missed) for each in tail.take()]


def test_earlier_events_come_first_and_none_twice() -> None:
    """Events that are sent again during the lookup of earlier ones are not shown twice."""
    broker = MemoryBroker()
    watching = OutputWatcher(connecting(broker))
    watching.start()
    with watching.tail("ann", {TOPIC: "out"}) as tail:
        broker.publish(TOPIC, output(7, "c", "d", epoch=RUNS + 1))
        broker.publish("braid/1/out/bob/d-1/out", output(0, "bob's"))
        tail.prepend(TOPIC, [output(4, "x", "y", epoch=RUNS), output(6, "b", "c", epoch=RUNS)], 3)
        assert [(5, "y", 0), (6, "b", 0), (7, "c", 0), (8, "d", 0)] == read(tail)
        broker.publish(TOPIC, b"no output")
        broker.publish(TOPIC, output(0, "anew", epoch=2 * RUNS))
        broker.publish(TOPIC, output(9, "late", epoch=RUNS + 1))
        assert [(0, "anew", 0)] == read(tail)
        watching.stop()
        assert tail.over
    assert 0 == watching.looks


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=30))
def test_a_slow_reader_learns_how_many_events_it_missed(steps: list[tuple[int, bool]]) -> None:
    """The queue is limited, and shown and missed events are all events."""
    tail, first, total = Tail({TOPIC: "out"}, most_waiting=2_000), 0, 0
    for many, is_read in steps:
        tail.receive(TOPIC, output(first, *("x" * 300 for _ in range(many)), epoch=RUNS))
        first += many
        if is_read:
            found = read(tail)
            assert sum(1 for _, event, _ in found if event is not None) <= 8
            total += sum(missed or 1 for _, _, missed in found)
            assert total == first
