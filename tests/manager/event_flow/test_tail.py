"""Tails: every event once and in order, missed ones counted, and memory limited."""

from hypothesis import given
from hypothesis import strategies as st

from engine.delivery.publisher import RUNS
from manager.outputs.readers import OutputWatcher, Tail
from tests.manager.memory_outputs import connecting, output
from tests.twins.memory_broker import MemoryBroker

TOPIC = "braid/1/out/ann/d-1/out"


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
