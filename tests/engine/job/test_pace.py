"""The pace of a job: the ends of batches, the bounds of parts, and the bound of a batch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import SpoolReach
from engine.job.pace import (
    BatchBound,
    Haste,
    NextBatch,
    PartBounds,
    PartWork,
    StreamBounds,
    next_batch,
    streams_changed,
    works_of,
)
from engine.kernel.task_bounds import Allowance
from engine.offset import Offset
from engine.plan import (
    SHORTEST_BOUND,
    Bridged,
    Edge,
    Entry,
    Forward,
    Ingress,
    Limits,
    Plan,
    Rated,
    Slot,
    SlotState,
    Switch,
)
from engine.records.record import Dead, InstanceMeter, Record
from engine.records.store import RecordStore
from tests.engine.kernels import enters, entry, slot


class Spooled:
    """A spool whose items are events of one byte, or markers."""

    def __init__(self, *items: str | None) -> None:
        self.items = items

    def reach(self, start: int, most_bytes: int) -> SpoolReach:
        end = start
        while end < len(self.items) and (end == start or end - start < most_bytes):
            end += 1
            if self.items[end - 1] is not None:
                return SpoolReach(end=end, marker=self.items[end - 1], size=end - start)
        return SpoolReach(end=end, size=end - start)


E = None
"""An event in a spool."""


def plan(*groups: Sequence[str], version: int = 1, at: Mapping[str, int] | None = None, at_cut: str = "") -> Plan:
    """A plan with one part for each group of streams, joined by a task."""
    names = [name for group in groups for name in group]
    return Plan(
        job="j",
        host="h",
        version=version,
        ingress=tuple(Ingress(stream=name, instance=i, supply=Bridged()) for i, name in enumerate(names, 1)),
        slots=tuple(
            Slot(instance=100 + g, type="count", inputs=tuple(Edge(parent=names.index(name) + 1) for name in group))
            for g, group in enumerate(groups)
        ),
        at=at or {},
        at_cut=at_cut,
    )


def planned_entry(number: int, what: Plan) -> Entry:
    return Entry(number=number, plan=what, starts=dict.fromkeys(what.streams, 0))


def walk(entries: Sequence[Entry], spools: Mapping[str, Spooled], most: int = 50) -> list[NextBatch]:
    """The batches of a job until there is nothing left to do."""
    steps, offset = [], Offset()
    while (step := _next(offset, entries, spools)).end != offset:
        steps.append(step)
        offset = step.end
        assert len(steps) < most, steps
    return steps


def _next(offset: Offset, entries: Sequence[Entry], spools: Mapping[str, Spooled]) -> NextBatch:
    return next_batch(offset, run=1, entries=[each for each in entries if each.number >= offset.entry], spools=spools)


def test_without_a_plan_there_is_nothing_to_do() -> None:
    """A job whose log is empty runs no batch."""
    assert walk([], {}) == []


def test_the_first_batch_warms_the_worker_and_reads_nothing() -> None:
    """In a new job's first batch the plan takes effect, at once and without events."""
    first, second = walk([planned_entry(1, plan(["a"]))], {"a": Spooled(E, E)})
    assert first == NextBatch(end=Offset(run=1, entry=1, at={"a": 0}), haste=Haste.AT_ONCE)
    assert second == NextBatch(end=Offset(run=1, entry=1, at={"a": 2}))


def test_a_restart_warms_the_worker_too() -> None:
    """A new run begins with a batch that reads nothing and keeps all positions."""
    start = Offset(run=1, entry=1, at={"a": 1}, held={})
    step = next_batch(start, run=2, entries=[planned_entry(1, plan(["a"]))], spools={"a": Spooled(E, E)})
    assert step == NextBatch(end=Offset(run=2, entry=1, at={"a": 1}), haste=Haste.AT_ONCE)


def test_a_batch_ends_just_after_a_marker() -> None:
    """A part with one stream is cut at once, in a batch that ends at the marker."""
    _, cut, rest = walk([planned_entry(1, plan(["a"]))], {"a": Spooled(E, "m", E)})
    assert cut == NextBatch(end=Offset(run=1, entry=1, at={"a": 2}, cuts={"m": ("a",)}), haste=Haste.AT_ONCE)
    assert rest.end == Offset(run=1, entry=1, at={"a": 3})


def test_a_stream_waits_at_a_marker_for_the_rest_of_its_part() -> None:
    """Nothing behind a marker is read until every stream of the part has come to it; other parts run on."""
    spools = {"a": Spooled("m", E, E), "b": Spooled(E, E), "c": Spooled(E, E, E)}
    offset = walk([planned_entry(1, plan(["a", "b"], ["c"]))], spools)[-1].end
    assert offset == Offset(run=1, entry=1, at={"a": 1, "b": 2, "c": 3}, held={"a": "m"})
    spools["b"] = Spooled(E, E, "m", E)
    step = _next(offset, [planned_entry(1, plan(["a", "b"], ["c"]))], spools)
    assert step.end == Offset(run=1, entry=1, at={"a": 1, "b": 3, "c": 3}, cuts={"m": ("a", "b")})


def test_a_marker_that_is_given_up_is_waited_for_no_longer() -> None:
    """A part goes on without a cut if a stream never brings the marker."""
    start = Offset(run=1, entry=1, at={"a": 1, "b": 0}, held={"a": "m"})
    spools = {"a": Spooled("m", E), "b": Spooled()}
    step = next_batch(
        start, run=1, entries=[planned_entry(1, plan(["a", "b"]))], spools=spools, given_up=frozenset({"m"})
    )
    assert step.end == Offset(run=1, entry=1, at={"a": 2, "b": 0})


def test_a_marker_that_comes_after_it_was_given_up_holds_up_nothing() -> None:
    """It is passed like an event, even if it would have been a cut by itself."""
    start = Offset(run=1, entry=1, at={"a": 0})
    spools = {"a": Spooled("m", E)}
    step = next_batch(start, run=1, entries=[planned_entry(1, plan(["a"]))], spools=spools, given_up=frozenset({"m"}))
    assert step.end == Offset(run=1, entry=1, at={"a": 1})


def switching(whole: Plan, *awaits: str, marker: str = "switch-1") -> Plan:
    """The plan after it, which waits for a marker in some streams."""
    return replace(whole, version=whole.version + 1, switch=Switch(marker=marker, awaits=awaits))


def test_a_switch_waits_for_its_own_streams_only() -> None:
    """A plan takes effect where the marker lies in all streams that it awaits; others are read on, even in one part."""
    whole = plan(["a", "b", "c"])
    entries = [planned_entry(1, whole), planned_entry(2, switching(whole, "a", "b"))]
    spools = {"a": Spooled(E, "switch-1", E), "b": Spooled(E), "c": Spooled(E, E)}
    offset = walk(entries, spools)[-1].end
    assert offset == Offset(run=1, entry=1, at={"a": 2, "b": 1, "c": 2}, held={"a": "switch-1"})
    spools |= {"b": Spooled(E, "switch-1", E), "c": Spooled(E, E, E)}
    aligned = _next(offset, entries, spools)
    assert aligned.haste is Haste.AT_ONCE
    assert aligned.end == Offset(run=1, entry=1, at={"a": 2, "b": 2, "c": 3}, cuts={"switch-1": ("a", "b")})
    turned = _next(aligned.end, entries, spools)
    assert turned == NextBatch(end=Offset(run=1, entry=2, at={"a": 2, "b": 2, "c": 3}), haste=Haste.AT_ONCE)
    assert _next(turned.end, entries, spools).end == Offset(run=1, entry=2, at={"a": 3, "b": 3, "c": 3})


@pytest.mark.parametrize("awaits", [(), ("b",)])
def test_the_marker_of_a_switch_holds_up_nobody_else(awaits: tuple[str, ...]) -> None:
    """A stream passes it like an event if no plan awaits it there."""
    whole = plan(["a", "b"])
    entries = [planned_entry(1, whole), *([planned_entry(2, switching(whole, *awaits))] if awaits else [])]
    assert (
        Offset(run=1, entry=1, at={"a": 3, "b": 1})
        == walk(entries, {"a": Spooled(E, "switch-1", E), "b": Spooled(E)})[-1].end
    )


def test_a_switch_that_is_given_up_holds_up_nothing() -> None:
    """What waits at its marker goes on with the plan that comes instead."""
    whole = plan(["a", "b"])
    entries = [planned_entry(1, whole), planned_entry(2, switching(whole, "a", "b"))]
    spools = {"a": Spooled("switch-1", E), "b": Spooled(E)}
    offset = walk(entries, spools)[-1].end
    assert {"a": "switch-1"} == offset.held
    entries.append(planned_entry(3, replace(whole, version=3)))
    assert Offset(run=1, entry=3, at={"a": 2, "b": 1}) == _last(offset, entries, spools)


def test_switches_and_cuts_keep_apart() -> None:
    """A cut is taken as always where a plan waits for a switch, whichever marker comes first."""
    whole = plan(["a", "b"])
    entries = [planned_entry(1, whole), planned_entry(2, switching(whole, "a"))]
    for a in (["m", "switch-1"], ["switch-1", "m"]):
        steps = walk(entries, {"a": Spooled(*a, E), "b": Spooled(E, "m", E)})
        assert {"m": ("a", "b")} in [step.end.cuts for step in steps]
        assert Offset(run=1, entry=2, at={"a": 3, "b": 3}) == steps[-1].end


def test_a_batch_takes_no_more_than_it_is_allowed() -> None:
    """Few bytes bound it, but an event of each stream is taken at least."""
    spools = {"a": Spooled(E, E, E, E), "b": Spooled(E)}
    start = Offset(run=1, entry=1, at={"a": 0, "b": 0})
    ends = [
        next_batch(
            start, run=1, entries=[planned_entry(1, plan(["a", "b"]))], spools=spools, most_bytes=StreamBounds(most, {})
        ).end.at
        for most in (1, 4, 100)
    ]
    assert [{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 4, "b": 1}] == ends


class Whole:
    """A spool of one item of ten events and ten bytes."""

    def reach(self, start: int, most_bytes: int) -> SpoolReach:  # noqa: ARG002 - it has one item only
        return SpoolReach(end=10, size=10 - start)


def test_an_item_that_is_too_large_is_read_in_parts() -> None:
    """However many events came at once, no batch takes more of them than it is allowed."""
    ends, at = [], 0
    while at < 10:
        step = next_batch(
            Offset(run=1, entry=1, at={"a": at}),
            run=1,
            entries=[planned_entry(1, plan(["a"]))],
            spools={"a": Whole()},
            most_bytes=StreamBounds(3, {}),
        )
        at = step.end.at["a"]
        ends.append((at, sum(step.sizes.values())))
    assert [(3, 3), (6, 3), (9, 3), (10, 1)] == ends


def _last(offset: Offset, entries: Sequence[Entry], spools: Mapping[str, Spooled]) -> Offset:
    while (step := _next(offset, entries, spools)).end != offset:
        offset = step.end
    return offset


def leaving(whole: Plan, *groups: int) -> Plan:
    """The plan without some of its parts, which leave at the cut `m`."""
    gone = {edge.parent for group in groups for edge in whole.slots[group].inputs}
    return replace(
        whole,
        version=2,
        slots=tuple(each for group, each in enumerate(whole.slots) if group not in groups),
        ingress=tuple(each for each in whole.ingress if each.instance not in gone),
        at_cut="m",
    )


def test_parts_that_leave_at_a_cut_are_cut_together() -> None:
    """The plan waits for the last of them, and none of them reads past the cut meanwhile; other parts run on."""
    whole = plan(["a"], ["b"], ["c"])
    entries = [planned_entry(1, whole), planned_entry(2, leaving(whole, 0, 1))]
    spools = {"a": Spooled(E, "m", E), "b": Spooled(E), "c": Spooled(E, E)}
    offset = walk(entries, spools)[-1].end
    assert offset == Offset(run=1, entry=1, at={"a": 2, "b": 1, "c": 2}, held={"a": "m"})
    spools |= {"b": Spooled(E, "m", E), "c": Spooled(E, E, E)}
    cut = _next(offset, entries, spools).end
    assert cut == Offset(run=1, entry=1, at={"a": 2, "b": 2, "c": 3}, cuts={"m": ("a", "b")})
    assert _next(cut, entries, spools).end == Offset(run=1, entry=2, at={"c": 3})


def test_a_part_that_stays_may_be_cut_before_those_that_leave() -> None:
    """The plan waits for all parts that it changes, whatever else is cut under the same name."""
    whole = plan(["a"], ["b"])
    entries = [planned_entry(1, whole), planned_entry(2, leaving(whole, 0))]
    spools = {"a": Spooled(E), "b": Spooled("m", E)}
    offset = walk(entries, spools)[-1].end
    assert offset == Offset(run=1, entry=1, at={"a": 1, "b": 2})
    spools["a"] = Spooled(E, "m", E)
    cut = _next(offset, entries, spools).end
    assert cut == Offset(run=1, entry=1, at={"a": 2, "b": 2}, cuts={"m": ("a",)})
    assert _next(cut, entries, spools).end == Offset(run=1, entry=2, at={"b": 2})


def test_a_new_receiver_changes_a_part_and_a_new_epoch_does_not() -> None:
    """A part that forwards a further stream is cut first; one that forwards in a higher epoch is not."""
    whole = replace(plan(["a"], ["b"]), forwards=(Forward(instance=101),))
    more = (Forward(instance=100), Forward(instance=101, epoch=2))
    assert streams_changed(whole, replace(whole, forwards=more)) == {"a"}


def test_an_instance_that_joins_a_part_changes_it() -> None:
    """An instance that is grafted at a cut takes no event from before the cut."""
    whole = plan(["a"], ["b"])
    grafted = Slot(instance=200, type="count", inputs=(Edge(parent=100),))
    assert streams_changed(whole, replace(whole, slots=(*whole.slots, grafted))) == {"a"}


def test_a_failed_instance_belongs_to_its_part() -> None:
    """It takes its events too, so it is cut with the instances that feed it and those that it would feed."""
    whole = plan(["a"])
    failed = replace(whole.slots[0], state=SlotState.FAILED, reason="it was failed by hand")
    behind = Slot(instance=200, type="count", inputs=(Edge(parent=100),))
    (part,) = replace(whole, slots=(failed, behind)).parts()
    assert part == (frozenset({"a"}), frozenset({1, 100, 200}))


def test_a_plan_takes_effect_at_its_positions() -> None:
    """A batch ends where a plan is to take effect, and the next batch runs the plan."""
    entries = [planned_entry(1, plan(["a"])), planned_entry(2, plan(["a"], version=2, at={"a": 3}))]
    ends = [step.end for step in walk(entries, {"a": Spooled(*[E] * 5)})]
    assert [(end.entry, end.at["a"]) for end in ends] == [(1, 0), (1, 3), (2, 3), (2, 5)]


def test_a_plan_takes_effect_at_its_cut() -> None:
    """A plan that waits for a cut takes effect just after it, before any later event."""
    entries = [planned_entry(1, plan(["a", "b"])), planned_entry(2, plan(["a", "b"], version=2, at_cut="m"))]
    ends = [step.end for step in walk(entries, {"a": Spooled(E, "m", E), "b": Spooled("m", E)})]
    assert [(end.entry, dict(end.at)) for end in ends] == [
        (1, {"a": 0, "b": 0}),
        (1, {"a": 2, "b": 1}),
        (2, {"a": 2, "b": 1}),
        (2, {"a": 3, "b": 2}),
    ]


def test_a_job_with_nothing_left_to_read_after_a_cut_takes_its_time() -> None:
    """No other job does: other jobs have the cut still before them."""
    at_cut = Offset(run=1, entry=1, at={"a": 2}, cuts={"m": ("a",)})
    before, spools = planned_entry(1, plan(["a"])), {"a": Spooled(E, "m", E)}
    bare = _next(at_cut, [before, planned_entry(2, plan(version=2, at_cut="m"))], spools)
    assert bare == NextBatch(end=Offset(run=1, entry=2, at={}), haste=Haste.AT_LEISURE)
    assert _next(at_cut, [before, planned_entry(2, plan(["a"], version=2, at_cut="m"))], spools).haste is Haste.AT_ONCE
    assert _next(at_cut, [before, planned_entry(2, plan(version=2))], spools).haste is Haste.AT_ONCE
    again = next_batch(at_cut, run=2, entries=[before, planned_entry(2, plan(version=2, at_cut="m"))], spools=spools)
    assert again.haste is Haste.AT_ONCE


def test_a_marker_among_raw_events_waits_for_those_that_are_due() -> None:
    """It does not wait if a part stands still already, at the marker or for a plan."""
    raw = Ingress(stream="raw", instance=50, supply=Rated(per_second=1.0))
    two = plan(["a"])
    joined = replace(
        two, ingress=(*two.ingress, raw), slots=(replace(two.slots[0], inputs=(Edge(parent=1), Edge(parent=50))),)
    )
    alone = replace(plan(), ingress=(raw,), slots=(Slot(instance=100, type="count", inputs=(Edge(parent=50),)),))
    spools = {"raw": Spooled(E, "m", E), "a": Spooled(E, "m")}
    begun = Offset(run=1, entry=1, at={"raw": 0, "a": 0})
    only = _next(Offset(run=1, entry=1, at={"raw": 0}), [planned_entry(1, alone)], spools)
    assert only == NextBatch(end=Offset(run=1, entry=1, at={"raw": 2}, cuts={"m": ("raw",)}), haste=Haste.SOON)
    both = [planned_entry(1, joined)]
    assert _next(begun, both, {**spools, "a": Spooled(E)}).haste is Haste.SOON
    assert _next(begun, both, spools).haste is Haste.AT_ONCE
    assert _next(begun, both, {**spools, "raw": Spooled(E)}).haste is Haste.AT_ONCE
    late = replace(begun, at={"raw": 0, "a": 2}, held={"a": "m"})
    assert _next(late, both, spools).haste is Haste.AT_ONCE
    assert _next(late, both, {**spools, "raw": Spooled(E)}).haste is Haste.IN_TIME


def test_a_newer_plan_waits_for_no_older_one() -> None:
    """A plan that waits for a cut which never comes is passed over once a newer plan may take effect."""
    entries = [
        planned_entry(1, plan(["a"])),
        planned_entry(2, plan(["a"], version=2, at_cut="never")),
        planned_entry(3, plan(["a"], version=3)),
    ]
    start = Offset(run=1, entry=1, at={"a": 1})
    assert _next(start, entries[:2], {"a": Spooled(E)}) == NextBatch(end=start)
    assert _next(start, entries, {"a": Spooled(E)}).end == Offset(run=1, entry=3, at={"a": 1})


def test_plans_that_take_effect_at_once_are_taken_together() -> None:
    """Of several plans that wait for nothing only the last is run; each begins its streams at its own positions."""
    late = replace(planned_entry(2, plan(["a"], ["b"], version=2)), starts={"a": 0, "b": 7})
    entries = [planned_entry(1, plan(["a"])), late, replace(planned_entry(3, plan(["b"], version=3)), starts={"b": 7})]
    assert [step.end for step in walk(entries, {"a": Spooled(), "b": Spooled()})] == [
        Offset(run=1, entry=3, at={"b": 7})
    ]


def test_a_stream_that_left_and_comes_back_begins_anew() -> None:
    """An offset keeps only the streams of its plan."""
    entries = [planned_entry(1, plan(["a"])), planned_entry(2, plan(["b"], version=2))]
    assert walk(entries[:1], {"a": Spooled(E)})[-1].end.at == {"a": 1}
    step = _next(Offset(run=1, entry=1, at={"a": 1}), entries, {"a": Spooled(E), "b": Spooled()})
    assert step.end.at == {"b": 0}


def test_a_batch_is_bounded_by_bytes() -> None:
    """Each stream gets its share of the bytes of a batch, and at least one item."""
    small = replace(plan(["a"], ["b"]), limits=Limits(batch_bytes=4))
    ends = [step.end.at for step in walk([planned_entry(1, small)], {"a": Spooled(*[E] * 3), "b": Spooled(E)})]
    assert ends == [{"a": 0, "b": 0}, {"a": 2, "b": 1}, {"a": 3, "b": 1}]


def test_a_batch_is_bounded_by_events() -> None:
    """Small events are many in few bytes; more shards take more of them, and each stream at least one."""
    few = replace(plan(["a"], ["b"]), limits=Limits(batch_events=4))
    ends = [step.end.at for step in walk([planned_entry(1, few)], {"a": Spooled(*[E] * 3), "b": Spooled(E)})]
    assert ends == [{"a": 0, "b": 0}, {"a": 2, "b": 1}, {"a": 3, "b": 1}]
    one = replace(plan(["a"], ["b"]), limits=Limits(batch_events=1))
    assert {"a": 1, "b": 1} == walk([planned_entry(1, one)], {"a": Spooled(*[E] * 3), "b": Spooled(E)})[1].end.at
    shards = replace(few, shards=2)
    assert {"a": 3, "b": 1} == walk([planned_entry(1, shards)], {"a": Spooled(*[E] * 3), "b": Spooled(E)})[1].end.at


ITEMS = st.lists(st.sampled_from([E, E, E, "m", "n"]), max_size=8).map(
    lambda items: [item for i, item in enumerate(items) if item is None or item not in items[:i]]
)


@given(left=ITEMS, right=ITEMS, most=st.integers(1, 6))
def test_every_event_is_read_once_and_cuts_are_the_same_for_a_part(
    left: list[str | None], right: list[str | None], most: int
) -> None:
    """Batches follow each other without a gap, and a cut is just after its marker in every stream of its part."""
    spools = {"a": Spooled(*left), "b": Spooled(*right)}
    one = replace(plan(["a", "b"]), limits=Limits(batch_bytes=most))
    ends = [step.end for step in walk([planned_entry(1, one)], spools)]
    for before, after in pairwise(ends):
        assert all(before.at[stream] <= after.at[stream] for stream in "ab")
        for stream in "ab":
            read = spools[stream].items[before.at[stream] : after.at[stream]]
            assert all(item is None for item in read[:-1]), "a marker inside a batch"
    for end in ends:
        for name, streams in end.cuts.items():
            assert streams == ("a", "b")
            assert all(spools[stream].items[end.at[stream] - 1] == name for stream in streams)
    if not set(left) - {None} and not set(right) - {None}:
        assert ends[-1].at == {"a": len(left), "b": len(right)}


def bridged(*, raw: bool = False) -> Plan:
    """A plan into which a bridge leads, and perhaps a raw stream."""
    entering = [Ingress(stream="bridge", instance=1, supply=Bridged())]
    more = [Ingress(stream="raw", instance=2, supply=Rated(per_second=1.0))] if raw else []
    return Plan(job="j", host="h", version=1, ingress=(*entering, *more))


def test_a_slow_stream_has_its_own_bound() -> None:
    """The others share theirs as if it were not there."""
    spools = {name: Spooled(*[E] * 100) for name in "abc"}
    start = Offset(run=1, entry=1, at=dict.fromkeys("abc", 0), shards=1)
    entries = [planned_entry(1, plan(["a", "b", "c"]))]
    step = next_batch(start, run=1, entries=entries, spools=spools, most_bytes=StreamBounds(80, {"b": 3}))
    assert {"a": 40, "b": 3, "c": 40} == step.end.at
    assert {"a": 40, "b": 3, "c": 40} == step.sizes


SMALL_EVENT = 50
"""Bytes."""


def worked_off(bound: BatchBound, fixed: float, rate: float, backlog: int, batches: int) -> list[tuple[int, float]]:
    """The sizes and seconds of some batches; each takes as much of a backlog as it may, and one event at least."""
    done = []
    for _ in range(batches):
        size = min(backlog, max(SMALL_EVENT, bound.most_bytes(pace=0.1)))
        seconds = fixed + size / rate
        bound.note(size=size, seconds=seconds)
        done.append((size, seconds))
    return done


@given(fixed=st.floats(0.01, 5), rate=st.floats(5_000, 50_000_000), idle=st.integers(0, 20))
def test_a_backlog_is_worked_off_however_long_the_least_batch_takes(fixed: float, rate: float, idle: int) -> None:
    """Batches come to take half of what they may at least, and never twice as long, whatever came before."""
    bound = BatchBound()
    worked_off(bound, fixed, rate, SMALL_EVENT, idle)
    done = worked_off(bound, fixed, rate, 1 << 40, 60)
    share = [size / rate / SHORTEST_BOUND for size, _ in done[-16:]]
    assert sum(share) / len(share) >= min(0.25, SHORTEST_BOUND / (fixed + SHORTEST_BOUND))
    assert max(share) <= 2.01


def test_a_batch_that_was_held_up_does_not_count() -> None:
    """The quickest of the last three decides."""
    bound = BatchBound()
    for seconds in (0.1, 3.0, 3.0):
        bound.note(size=10_000, seconds=seconds)
    assert 100_000 == bound.most_bytes(pace=1.0)


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
