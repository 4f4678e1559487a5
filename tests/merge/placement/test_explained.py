"""Placement explained, by example: what own tasks cost where they are, what would cost less, and plans of others."""

import pytest

from merge import Host, JobId
from merge.grouping.pddl import PddlError
from merge.grouping.problem import Group, GroupedStream, GroupedTask, Image, PresentGroup
from merge.placement.explained import (
    PlacementQuestion,
    PlacementVerdict,
    placement_pddl,
    placement_places,
    placement_plan,
    placement_question,
    placement_reason,
    placement_verdict,
    present_cost,
)
from tests.merge.floor import Floor

PLAIN = "no tags"


def question(floor: Floor, dataflow: str, *absent: Image) -> PlacementQuestion:
    """The question about the tasks that only this dataflow uses."""
    used = floor.running.dataflow(dataflow).instances
    own = [instance for instance in used if len(floor.running.users[instance]) == 1]
    return placement_question(floor.running.tasks, floor.jobs, floor.hosts, floor.costs(), own, absent)


def apart() -> Floor:
    """A dataflow in job 1, and one in job 2 that reads what the first makes."""
    floor = Floor(strategy="launch", batch=0.1)
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:lab:one > k:sink", "y")
    return floor


def test_a_question_is_about_own_tasks() -> None:
    """Tasks that others use stay where they are, and so does their job; the job of own tasks alone is none of them."""
    gpu = Image(name="gpu", tags=frozenset({"gpu"}), cores=1.0)
    asked = question(apart(), "y", gpu)
    assert (GroupedTask(id=4, work=1 / 8), GroupedTask(id=5)) == asked.problem.tasks
    assert (GroupedStream(parent=2, child=4), GroupedStream(parent=4, child=5)) == asked.problem.streams
    assert (PresentGroup(id=1, image=PLAIN, tasks=frozenset({2, "job 1"})),) == asked.problem.present
    assert (Group(image=PLAIN, tasks=(4, 5)),) == asked.now
    assert (gpu,) == asked.absent


def test_a_question_about_tasks_in_the_job_of_others() -> None:
    """They are in a group that is there already."""
    floor = Floor()
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:lab:one > k:sink", "y")
    assert (Group(image=PLAIN, tasks=(4, 5), present=1),) == question(floor, "y").now


def test_a_job_of_its_own_costs_more_than_joining() -> None:
    """The verdict has what batch, bridge and hop cost now, and that joining the other job costs nothing."""
    verdict = placement_verdict(question(apart(), "y"), seconds=1)
    now = 0.1 + 0.005 + 0.01
    assert pytest.approx((now, 0.0, now, 0.0)) == (verdict.cost, verdict.cheapest, verdict.second, verdict.bound)
    assert {} == verdict.saves


def test_nothing_of_its_own_has_nothing_to_save() -> None:
    """Where others use all tasks there is nothing to plan."""
    floor = apart()
    floor.submit("s:source > a:map > k:sink", "z")
    gpu = Image(name="gpu", tags=frozenset(), cores=1.0)
    verdict = placement_verdict(question(floor, "z", gpu), seconds=1)
    assert PlacementVerdict(cost=0.0, cheapest=0.0, second=None, bound=0.0, saves={}) == verdict


def crowded(most: int | None = None) -> Floor:
    """Three jobs of 3/8 cores on a host of half a core, of an image whose hosts cost 4 an hour each."""
    dear = Image(name="dear", tags=frozenset(), cores=0.5, price=4.0, most=most)
    floor = Floor(strategy="launch", hosts=(Host(name="host", cores=0.5, registered=dear),))
    for number in range(3):
        floor.submit(f"s:source > a:lab:three{{'add': {number}}} > k:file", f"x{number}")
    return floor


def test_an_image_saves_what_its_hosts_would() -> None:
    """A host of an image that is not there yet counts if the tasks would cost less on it, whatever it is called."""
    free = Image(name=PLAIN, tags=frozenset(), cores=0.5)
    small = Image(name="small", tags=frozenset(), cores=1 / 8, price=4.0)
    gpu = Image(name="gpu", tags=frozenset({"gpu"}), cores=0.5)
    verdict = placement_verdict(question(crowded(), "x2", small, free, gpu), seconds=1)
    # For 9/8 cores two more hosts are needed, one of them for these tasks; 1 an hour is worth 1/8 of a core.
    assert pytest.approx(2 * 4 / 8) == verdict.cost
    assert verdict.cost == verdict.cheapest
    assert {PLAIN: pytest.approx(1 / 2), "gpu": pytest.approx(1 / 2)} == verdict.saves


def test_one_more_host_or_core_saves_what_is_paid() -> None:
    """One more host that is there saves its price; one more core in each saves both hosts."""
    verdict = placement_verdict(question(crowded(), "x2"), seconds=1)
    (worth,) = verdict.more
    assert PLAIN == worth.image
    assert pytest.approx((4 / 8, 8 / 8)) == (worth.host, worth.core)


def test_hosts_without_price_or_limit_are_worth_nothing() -> None:
    """Of images that cost nothing there are plenty."""
    assert () == placement_verdict(question(apart(), "y"), seconds=1).more


def test_tasks_beyond_the_limit_have_no_cheapest_groups() -> None:
    """Where no groups are possible the present ones are the cheapest that are known, and nothing is proved."""
    verdict = placement_verdict(question(crowded(most=1), "x2"), seconds=1)
    assert (None, None, {}, ()) == (verdict.second, verdict.bound, verdict.saves, verdict.more)
    assert verdict.cost == verdict.cheapest


def test_other_places_of_a_task() -> None:
    """They are the jobs that are there and a group of its own, the cheapest first, and why others are impossible."""
    floor = apart()
    joins, alone = placement_places(question(floor, "y"), floor.instance("y", "b"))
    # Alone it takes a batch, and another bridge and hop.
    assert (JobId(1), None) == (joins.present, alone.present)
    assert pytest.approx((0.0, 0.1 + 0.005 + 0.01)) == (joins.more, alone.more)


def test_all_other_jobs_are_no_place() -> None:
    """What other jobs take of a host counts as one group, which is no place to be."""
    floor = crowded()
    for number in range(3, 14):
        floor.submit(f"s:source > a:lab:three{{'add': {number}}} > k:file", f"x{number}")
    asked = question(floor, "x13")
    assert any(isinstance(group.id, str) for group in asked.problem.present)
    places = placement_places(asked, floor.instance("x13", "a"))
    assert all(not isinstance(place.present, str) for place in places)
    assert {JobId(1)} < {place.present for place in places}


def test_why_a_task_is_where_it_is() -> None:
    """It needs what the host offers, reads a source, is with what feeds it, or gets that over bridges."""
    gpu = Host(name="gpu", cores=1.0, tags=frozenset({"gpu", "big"}))
    floor = Floor(strategy="launch", hosts=(Host(name="host", cores=1.0), gpu))
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > b:lab:one > k:sink", "y")
    floor.submit("s:source > a:map > j:join.left s > b:lab:one > j.right j > k:sink", "z")
    floor.submit("s:source > a:map > b:gpu[big] > c:gpu > k:sink", "u")
    reasons = {
        f"{dataflow}.{task}": placement_reason(
            floor.running.tasks, floor.jobs, floor.running.tasks[floor.instance(dataflow, task)]
        )
        for dataflow, task in ("xs", "xa", "yb", "zj", "zk", "ub", "uc")
    }
    assert {
        "x.s": "any job can read a source",
        "x.a": "it is with what feeds it",
        "y.b": "it is with what feeds it",
        "z.j": "bridges bring what feeds it, from job 1, 2",
        "z.k": "it is with what feeds it",
        "u.b": "its host offers big, gpu; bridges bring what feeds it, from job 1",
        "u.c": "its host offers gpu; it is with what feeds it",
    } == reasons


PLAN = """
(open group0 group1 image__no_20_tags)
(put__task___23_4 group0 image__no_20_tags)
(put__task___23_5 group0 image__no_20_tags)
(close group0)
(within__flow0__1 group0)
"""


def test_pddl_is_about_own_tasks_alone() -> None:
    """It has as many groups as there are now, one more, and the end; and no stream from what runs for others."""
    pddl = placement_pddl(question(apart(), "y"))
    assert "group0 group1 group2 - group)" in pddl.problem
    assert "task___23_4" in pddl.problem
    assert "task___23_2" not in pddl.problem + pddl.domain


def test_a_plan_becomes_groups() -> None:
    """They cost what they would if nothing else ran, and are compared with the present ones by the same measure."""
    asked = question(apart(), "y")
    planned = placement_plan(asked, PLAN)
    assert (Group(image=PLAIN, tasks=(4, 5)),) == planned.groups
    assert pytest.approx(0.1) == planned.cost.total
    assert pytest.approx(0.1) == present_cost(asked)
    with pytest.raises(PddlError, match="open"):
        placement_plan(asked, "(close group0)")


def test_present_groups_cost_as_new_ones_beside_a_plan() -> None:
    """Tasks that joined another job are compared as if that job ran for them alone."""
    floor = Floor(batch=0.1)
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:lab:one > k:sink", "y")
    assert pytest.approx(0.1) == present_cost(question(floor, "y"))
