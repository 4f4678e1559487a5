"""The start of instances: which states are imported, and the positions that new streams begin at."""

from dataclasses import replace

import pytest

from engine.job.plan_log import JobProgress, check_return, past_gone, returning, start_positions
from engine.kernel.plans import brought
from engine.offset import Offset
from engine.plan import Bridged, Edge, Entry, Ingress, Plan, Slot, StateImport
from engine.plan_messages import RefusedPlan
from engine.records.job_folder import KeptCut

KEPT = [
    KeptCut("c", 4, (1, 7), {"s": 10}),
    KeptCut("c", 6, (2, 8), {"t": 20}),
    # Its marker came a second time.
    KeptCut("c", 9, (1, 7), {"s": 15}),
]


def plan(*slots: int, start: int | None = None, imports: tuple[StateImport, ...] = ()) -> Plan:
    return Plan(
        job="j",
        host="h",
        version=1,
        slots=tuple(Slot(instance=each, type="count", inputs=(Edge(parent=1),)) for each in slots),
        ingress=(Ingress(stream="s", instance=1, supply=Bridged(), start=start),),
        imports=imports,
    )


def entry(number: int, what: Plan) -> Entry:
    return Entry(number=number, plan=what, starts={})


BACK = StateImport(instance=7, job="j", cut="c")
OTHER = StateImport(instance=7, job="another", cut="c")


def test_an_instance_that_returns_is_found_in_the_first_part_of_its_cut() -> None:
    """Only cuts of its own job count, with the name that the plan gives."""
    assert {7: KEPT[0]} == returning(KEPT, plan(7, imports=(BACK, replace(BACK, instance=9))))
    assert {} == returning(KEPT, plan(7, imports=(OTHER, replace(BACK, cut="d"))))


def test_an_instance_that_never_left_goes_on_as_it_is() -> None:
    """An instance from another job is always imported, because it may have left and run there since."""
    begun = [entry(2, plan()), entry(3, plan(7, imports=(BACK, OTHER)))]
    assert [OTHER] == list(brought(begun, plan(7)))
    assert [BACK, OTHER] == list(brought(begun, plan()))
    assert [BACK, OTHER] == list(brought(begun, None))


def test_a_stream_goes_on_where_it_is_until_the_job_has_surely_left_it() -> None:
    """Even if a position is named: between a record and the next decided end the job may or may not have left it."""
    reads = JobProgress({"s": 5}, plan(7), Offset(run=1, entry=1, at={"s": 6}))
    assert {"s": 5} == start_positions(plan(7), {"s": 99}, reads)
    assert {"s": 5} == start_positions(plan(7, start=9), {"s": 9}, reads)
    assert {"s": 5} == start_positions(plan(7, start=9), {"s": 9}, reads._replace(decided=None))
    let_go = reads._replace(decided=Offset(run=1, entry=2))
    assert {"s": 5} == start_positions(plan(7), {"s": 99}, let_go)
    assert {"s": 9} == start_positions(plan(7, start=9), {"s": 9}, let_go)
    assert {"s": 99} == start_positions(plan(7), {"s": 99}, JobProgress({}, plan(), None))
    # The plan before it has the stream already.
    assert {"s": 3} == start_positions(plan(7), {"s": 3}, reads, {"s": 3})


def test_an_instance_cannot_return_if_its_stream_was_read_on() -> None:
    """It can if it is still there, or if its streams are where it left."""
    back = returning(KEPT, plan(7, imports=(BACK,)))
    check_return(plan(7), back, JobProgress({"s": 12}, plan(7), None))
    check_return(plan(7), back, JobProgress({"s": 10}, plan(), None))
    check_return(plan(7), back, JobProgress({}, plan(), None))
    # Another part was cut in the same batch, and has gone on.
    merged = KEPT[0]._replace(positions={"s": 10, "t": 20})
    check_return(plan(7), {7: merged}, JobProgress({"t": 25}, plan(), None))
    with pytest.raises(RefusedPlan, match="has read that on to 12 for others; let all that reads one stream"):
        check_return(plan(7), back, JobProgress({"s": 12}, plan(), None))


def test_a_stream_begins_after_the_events_that_are_gone() -> None:
    """Other streams begin where they did, and so do those that begin later anyway."""
    ran = replace(entry(1, plan(2)), starts={"a": 3, "b": 4, "c": 9})
    assert {"a": 5, "b": 4, "c": 9} == past_gone(ran, {"a": 5, "c": 6}).starts
    assert ran == past_gone(ran, {})
