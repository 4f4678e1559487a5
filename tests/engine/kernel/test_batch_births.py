"""The births of what leaves a job: in the kernel, and on the twins from a raw spool to a subscriber's."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bridge.spools.reader import read
from bridge.wire import UNKNOWN_BIRTH, Birth
from engine.event_streams import Arrived
from engine.kernel.batch import _MOST_BIRTHS, BatchBirths
from engine.kernel.batch_rows import read_rows, written_rows
from engine.offset import Offset, Span
from engine.plan import Feed, Forward
from tests.chaos.chain import COUNTED, Chain
from tests.engine.kernels import Machine, arrived, enters, entry, slot

COUNTS = st.integers(1, 5)


@st.composite
def items(draw: st.DrawFn, most: int) -> list[Arrived]:
    """What arrived, some of it of unknown birth."""
    births = st.lists(st.builds(Birth, COUNTS, st.integers(1, 99)), min_size=1, max_size=3).map(tuple)
    found = []
    for at in range(draw(st.integers(0, most))):
        known: tuple[Birth, ...] = draw(births | st.just(()))
        count = sum(birth.many for birth in known) or draw(COUNTS)
        found.append(Arrived("s", at, count, 0, b"", known))
    return found


def each(births: Sequence[Birth]) -> list[int]:
    return [at for many, at in births for _ in range(many)]


def born(arrived: Sequence[Arrived], causes: Sequence[int]) -> list[int]:
    """When each of some events was born, straight from what that means."""
    of_cause = [at for item in arrived for at in each(item.births or (Birth(item.count, UNKNOWN_BIRTH),))]
    return [of_cause[cause] if cause < len(of_cause) else UNKNOWN_BIRTH for cause in causes]


def found(arrived: Sequence[Arrived], causes: Sequence[int]) -> tuple[Birth, ...]:
    firsts = accumulate((item.count for item in arrived), initial=0)
    return BatchBirths(zip(firsts, arrived, strict=False)).of(np.array(causes, np.int64))


CAUSES = st.lists(st.integers(0, 60), max_size=40).map(sorted)


@given(items(most=6), CAUSES)
def test_an_event_was_born_when_its_cause_was(came: list[Arrived], causes: list[int]) -> None:
    """Whatever is emitted for it, however often; what came from no spool is of unknown birth."""
    assert born(came, causes) == each(found(came, causes))


@given(items(most=60), st.integers(1, 7))
def test_too_many_births_become_few_that_are_no_younger(came: list[Arrived], step: int) -> None:
    """However many items came, each event has a birth, and none is younger than it is."""
    causes = list(range(0, sum(item.count for item in came), step))
    births = found(came, causes)
    assert len(births) <= _MOST_BIRTHS
    assert len(causes) == len(each(births))
    assert all(least <= at for least, at in zip(each(births), born(came, causes), strict=True))


def test_what_a_task_emits_later_was_born_with_the_event_that_it_is_emitted_for() -> None:
    """An average of a window with the event that fills it; what is fed again at no known time."""
    slots = [slot(2, "block_window_average", 1, field="a", window=2), slot(3, "picky", 1)]
    machine = Machine(entry=entry(slots, [enters("s", 1)], [Forward(instance=2), Forward(instance=3)]))
    rows = [{"a": 1.0, "b": number} for number in range(3)]
    first = arrived(rows)._replace(births=(Birth(2, 100), Birth(1, 200)))
    outcome = machine.run([first])
    assert [((Birth(1, 100),)), ((Birth(2, 100), Birth(1, 200)))] == [each.births for each in outcome.emitted]
    second = arrived(rows[:1], first=3)._replace(births=(Birth(1, 300),))
    feed = Feed(id=1, instance=3, port="in", events='[{"a": 1.0, "b": 1}]')
    outcome = machine.run([second], feeds=[feed])
    assert [((Birth(1, 300),)), ((Birth(1, 300), Birth(1, UNKNOWN_BIRTH)))] == [each.births for each in outcome.emitted]


def test_births_survive_as_rows() -> None:
    """What Spark carries from the spools to the kernel has them, and has none where they are not known."""
    span = Span(Offset(), Offset(at={"s": 4}))
    items = [Arrived("s", 0, 3, 9, b"x", (Birth(1, 5), Birth(2, 6))), Arrived("s", 3, 1, 9, b"y")]
    assert [(7, span, items, 3)] == list(read_rows(written_rows(7, span, items, 3)))


def test_births_travel_from_the_raw_spool_to_the_subscribers(tmp_path: Path) -> None:
    """Over record, sender, broker and receiver, though the subscriber's spool has stamps of its own."""
    chain = Chain(tmp_path)
    try:
        for _ in range(2):
            chain.events()
            chain.pass_time(10.0)
        chain.settle()
        chain.check()
        spooled = [item for _, item in read(chain.spools[COUNTED].folder, 0, 1 << 40)]
        assert {1_000_000, 1_010_000} == {at for item in spooled for at in each(item.births)}
        assert [item.count for item in spooled] == [len(each(item.births)) for item in spooled]
        assert all(item.stamp >= 1_020_000 for item in spooled)
        # The broker's last answers are still to be heard.
        chain.whole()
        report = chain.follower.latencies.report(chain.clock.now())
        assert {"d": {"out": report.all}} == report.outputs
        assert (True, True) == (10.0 <= report.all["p50"], 20.0 <= report.all["p99"] < 25.0)
    finally:
        chain.close()
