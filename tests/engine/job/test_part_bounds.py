"""The bounds of parts: a part that takes long for few events holds up no other in its job."""

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.job.pace import BatchBound, PartBounds, PartWork, works_of
from engine.kernel.task_bounds import Allowance
from engine.offset import Offset
from engine.plan import SHORTEST_BOUND
from engine.records.record import Dead, InstanceMeter, Record
from engine.records.store import RecordStore
from tests.engine.kernels import enters, entry, slot

SLOW, QUIET = frozenset({"slow"}), frozenset({"quiet"})
EVENT = 600
"""Bytes of a quiet event."""
LEAST = 2_000
"""Bytes that every batch may have."""


def test_what_a_task_could_not_try_is_not_counted_as_work(tmp_path: Path) -> None:
    """Of the tasks of a part the one that tried least decides; another part, and other dead letters, change nothing."""
    plan = entry(
        [slot(2, "output", 1), slot(3, "output", 1), slot(5, "output", 4)], (enters("s", 1), enters("other", 4))
    ).plan
    reasons = {2: Allowance(seconds=5.0, emitted=1).reason, 5: "KeyError: 'n'"}
    store, at = RecordStore(tmp_path), Offset(entry=1)
    store.write(
        Record(
            batch=0,
            start=at,
            end=at,
            dead=tuple(
                Dead(instance=each, port="in", reason=reason, events=pa.record_batch({"n": [1]}))
                for each, reason in reasons.items()
            ),
            meters={
                each: InstanceMeter(cpu_ns=each * 10**9, taken=8, dead=dead) for each, dead in ((2, 6), (3, 0), (5, 4))
            },
        )
    )
    found = works_of(plan.parts(), store.file(0).header, 2)
    assert {frozenset({"s"}): PartWork(2.5, 0.25), frozenset({"other"}): PartWork(2.5, 1.0)} == found


@given(event=st.integers(20, 2_000), cost=st.floats(0.001, 0.2), quiet=st.floats(1.0, 200.0), pace=st.floats(0.1, 2.0))
def test_a_part_that_takes_long_holds_up_no_other(event: int, cost: float, quiet: float, pace: float) -> None:
    """However slow its events are, the others' that come meanwhile are read by the next batch, from the third on.

    And it is given no more than its tasks can take, though at first they could not.
    """
    bounds, waiting = PartBounds(), 0.0
    most = 5.0 * max(1.0, pace)
    for number in range(40):
        found = bounds.most_bytes(pace=pace)
        share = found.common // (1 if "slow" in found.slow else 2)
        read = min(waiting, max(1.0, share // EVENT))
        slow = max(1, found.slow.get("slow", share) // event)
        # A task takes no more than its allowance.
        took = min(most + cost, slow * cost)
        seconds = 0.06 + took + read * 0.0001
        sizes = {"slow": slow * event, "quiet": int(read * EVENT)}
        tried = min(1.0, took / (slow * cost))
        bounds.note(sizes, seconds, {SLOW: PartWork(took, tried), QUIET: PartWork(read * 0.0001)}, pace=pace)
        waiting += quiet * max(seconds, pace) - read
        if number >= 3:
            assert waiting <= quiet * max(seconds, pace) + 1
            assert tried == 1.0 or slow * event <= LEAST


@given(st.lists(st.tuples(st.integers(1, 100_000), st.floats(0.01, 10.0)), max_size=20), st.floats(0.1, 5.0))
def test_one_part_alone_is_bounded_as_a_whole(batches: list[tuple[int, float]], pace: float) -> None:
    """Whatever its tasks take: there is nobody to hold up."""
    bounds, whole = PartBounds(), BatchBound()
    for size, seconds in batches:
        bounds.note({"slow": size}, seconds, {SLOW: PartWork(seconds)}, pace=pace)
        whole.note(size=size, seconds=seconds)
        assert (whole.most_bytes(pace=pace), {}) == bounds.most_bytes(pace=pace)


def test_a_part_that_is_slow_no_longer_is_like_the_others_again() -> None:
    """After some batches; what it reads counts among what all read then."""
    bounds = PartBounds()
    bounds.note({"slow": 100, "quiet": 100}, 2.0, {SLOW: PartWork(1.9), QUIET: PartWork(0.0)}, pace=SHORTEST_BOUND)
    assert {"slow"} == bounds.most_bytes(pace=SHORTEST_BOUND).slow.keys()
    for _ in range(8):
        bounds.note({"slow": 100, "quiet": 100}, 0.1, {SLOW: PartWork(0.01), QUIET: PartWork(0.0)}, pace=SHORTEST_BOUND)
    assert {} == bounds.most_bytes(pace=SHORTEST_BOUND).slow
