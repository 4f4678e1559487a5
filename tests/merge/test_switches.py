"""Switches by example: which jobs of a reconfiguration wait for markers, and which streams carry them."""

import pytest

from dags.vocabulary import Scheduler
from merge import Instance, JobId
from merge.reconfiguration.alteration import Edit, alteration
from merge.reconfiguration.switches import JobSwitch, StreamEnd, Switches, switches
from tests.merge.alterations import edit
from tests.merge.floor import NOW, Floor

ONE, TWO, THREE, FOUR = (JobId(number) for number in range(1, 5))
SHARED = "s:source > a:map > k:sink"
"""In job 1 of `two`."""
BELOW = "s:source > a:map > b:window > l:sink"
"""Its window and sink are instances 4 and 5, in job 2."""
DIAMOND = "s:source > p:map > a:scale > j:join.left p > b:window > j.right j > k:sink"
"""Instances 1 to 6 in this order, in jobs 1 1 2 3 3 4."""


def two() -> Floor:
    floor = Floor(strategy="launch")
    floor.submit(SHARED, "x")
    floor.submit(BELOW, "y")
    assert {1: [1, 2, 3], 2: [4, 5]} == floor.layout()
    return floor


def diamond() -> Floor:
    floor = Floor(strategy="launch", work={"map": 0.3, "window": 0.3, "scale": 0.3, "join": 0.2, "sink": 0.2})
    floor.submit(DIAMOND, "x")
    assert {1: [1, 2], 2: [3], 3: [4, 5], 4: [6]} == floor.layout()
    return floor


def both(floor: Floor, after: str, *, unfit: str = "", apart: str = "") -> list[Edit]:
    """Both dataflows of `two`, of which the lower one is edited like this, and the other alike."""
    above = "s:source > a:map{'add': 1} > k:sink" if "a:map{" in after else SHARED
    return [
        edit(floor, "x", SHARED, above, apart={*apart.split()} & {"s", "a", "k"}),
        edit(floor, "y", BELOW, after, unfit=unfit.split(), apart=apart.split()),
    ]


def switching(
    floor: Floor, *edits: Edit, scheduler: Scheduler = Scheduler.FRIES, earlier: frozenset[Instance] = frozenset()
) -> Switches:
    by = alteration(floor.running, edits, NOW)
    return switches(floor.running, floor.jobs, by, earlier=earlier, scheduler=scheduler)


def ends(*streams: tuple[int, str]) -> frozenset[StreamEnd]:
    return frozenset(StreamEnd(Instance(instance), port) for instance, port in streams)


def scopes(found: Switches) -> list[tuple[str, str]]:
    """The tasks and the heads of each component."""
    return [(" ".join(sorted(part.scope)), " ".join(sorted(part.heads))) for part in found.components]


OTHER = "s:source > a:map{'add': 1} > b:window > l:sink"
BOTH = "s:source > a:map{'add': 1} > b:window{'size': 5} > l:sink"


def test_a_job_below_waits_for_the_marker_of_the_one_above() -> None:
    """The head's job announces it in the stream between two changed tasks, and the other job awaits it there."""
    floor = two()
    found = switching(floor, *both(floor, BOTH))
    assert [("2 4", "2")] == scopes(found)
    assert {
        ONE: JobSwitch(job=ONE, announces=ends((2, "out"))),
        TWO: JobSwitch(job=TWO, awaits=ends((2, "out"))),
    } == found.jobs
    assert found.is_coordinated
    assert [True, False] == [found.jobs[job].is_head for job in (ONE, TWO)]


def test_what_is_below_without_a_change_does_not_switch() -> None:
    """A task that keeps its config goes on, and no marker is needed for one job."""
    floor = two()
    found = switching(floor, *both(floor, OTHER))
    assert [("2", "2")] == scopes(found)
    assert {ONE: JobSwitch(job=ONE)} == found.jobs
    assert not found.is_coordinated


def test_a_state_that_is_dropped_switches_in_step() -> None:
    """It is dropped where the events change, though the task keeps its config."""
    floor = two()
    found = switching(floor, *both(floor, OTHER, unfit="b"))
    assert [("2 4", "2")] == scopes(found)
    assert ends((2, "out")) == found.jobs[TWO].awaits


def test_what_changed_a_moment_ago_is_covered_again() -> None:
    """Events that met it before its change may be under way; what is not of these dataflows does not matter."""
    floor = two()
    found = switching(floor, *both(floor, OTHER), earlier=frozenset({Instance(4), Instance(99)}))
    assert [("2 4", "2")] == scopes(found)
    assert ends((2, "out")) == found.jobs[ONE].announces
    # A component of earlier changes alone is none of this reconfiguration's.
    floor = two()
    found = switching(floor, *both(floor, OTHER), earlier=frozenset({Instance(3)}))
    assert [("2 3", "2")] == scopes(found)


def test_earlier_changes_alone_need_no_switch() -> None:
    """Only components in which something changes now are covered."""
    floor = two()
    after = "s:source > a:map > b:window{'size': 5} > l:sink"
    found = switching(floor, edit(floor, "y", BELOW, after), earlier=frozenset({Instance(2)}))
    assert [("2 4", "2")] == scopes(found)
    floor = diamond()
    after = DIAMOND.replace("b:window", "b:window{'size': 5}")
    found = switching(floor, edit(floor, "x", DIAMOND, after), earlier=frozenset({Instance(3)}))
    assert [("2 3 4", "2")] == scopes(found)
    found = switching(floor, edit(floor, "x", DIAMOND, after))
    assert [("4", "4")] == scopes(found)
    assert {THREE: JobSwitch(job=THREE)} == found.jobs


def test_tasks_apart_switch_when_they_like() -> None:
    """They are in no component, but their jobs switch, each at its next batch."""
    floor = two()
    found = switching(floor, *both(floor, BOTH, apart="a b"))
    assert [] == scopes(found)
    assert {ONE: JobSwitch(job=ONE), TWO: JobSwitch(job=TWO)} == found.jobs


def test_unfit_tasks_are_not_apart() -> None:
    """A state is dropped in step with the events, whatever is said of the task."""
    floor = two()
    assert [("4", "4")] == scopes(switching(floor, *both(floor, BOTH, unfit="b", apart="a b")))


def test_who_takes_up_a_state_switches_with_the_one_it_is_of() -> None:
    """The origins of forks switch, even if they themselves stay as they are."""
    floor = two()
    floor.submit(BELOW, "z")
    found = switching(floor, edit(floor, "z", BELOW, "s:source > a:map > b:window{'size': 5} > l:sink", apart=["b"]))
    assert [("4 5", "4")] == scopes(found)
    assert {TWO: JobSwitch(job=TWO)} == found.jobs


def test_an_inserted_task_goes_with_what_it_feeds() -> None:
    """Its place is that of the task below, which switches."""
    floor = two()
    found = switching(floor, edit(floor, "y", BELOW, "s:source > a:map > m:scale > b:window > l:sink"))
    assert [("4", "4")] == scopes(found)
    assert {TWO: JobSwitch(job=TWO)} == found.jobs


def test_a_task_that_is_taken_out_switches_too() -> None:
    """Events that passed it meet the task below as it was."""
    floor = diamond()
    found = switching(floor, edit(floor, "x", DIAMOND, DIAMOND.replace("a:scale > ", "")))
    assert "3" in found.components[0].scope
    assert {ONE, TWO, THREE} == found.jobs.keys()


@pytest.mark.parametrize("scheduler", [Scheduler.FRIES, Scheduler.UNPRUNED])
def test_each_port_and_each_job_gets_its_marker(scheduler: Scheduler) -> None:
    """A job that feeds two others announces to both, by the ports that feed them."""
    line = "s:source > p:split p..even > a:map > k:sink p..odd > b:window > l:sink"
    floor = Floor(strategy="launch", work={"map": 0.3, "window": 0.3, "split": 0.3, "sink": 0.2})
    floor.submit(line, "x")
    assert {1: [1, 2], 2: [3], 3: [4, 5], 4: [6]} == floor.layout()
    after = line.replace("a:map", "a:map{'add': 1}").replace("b:window", "b:window{'size': 5}")
    found = switching(floor, edit(floor, "x", line, after), scheduler=scheduler)
    assert [("2 3 4", "2")] == scopes(found)
    assert {
        ONE: JobSwitch(job=ONE, announces=ends((2, "even"), (2, "odd"))),
        TWO: JobSwitch(job=TWO, awaits=ends((2, "even"))),
        THREE: JobSwitch(job=THREE, awaits=ends((2, "odd"))),
    } == found.jobs


def test_pruning_leaves_out_what_cannot_meet() -> None:
    """Of two ways from one task only one leads to the change, so events meet it once; without pruning both count."""
    floor = diamond()
    asked = edit(floor, "x", DIAMOND, DIAMOND.replace("a:scale", "a:scale{'factor': 2}"))
    assert [("3", "3")] == scopes(switching(floor, asked))
    found = switching(floor, asked, scheduler=Scheduler.UNPRUNED)
    assert [("2 3", "2")] == scopes(found)
    assert {
        ONE: JobSwitch(job=ONE, announces=ends((2, "out"))),
        TWO: JobSwitch(job=TWO, awaits=ends((2, "out"))),
    } == found.jobs


def test_a_task_that_emits_many_is_never_pruned() -> None:
    """Several events of one come to the change, so the markers begin where they are made."""
    line = "s:source > e:echo > b:window > c:count > l:sink"
    floor = Floor(strategy="launch")
    floor.submit("s:source > e:echo > k:sink", "x")
    floor.submit(line, "y")
    found = switching(floor, edit(floor, "y", line, line.replace("c:count", "c:count{'by': 'value'}")))
    assert [("2 4 5", "2")] == scopes(found)
    assert {
        ONE: JobSwitch(job=ONE, announces=ends((2, "out"))),
        TWO: JobSwitch(job=TWO, awaits=ends((2, "out"))),
    } == found.jobs


def test_jobs_that_read_one_source_switch_at_one_place_in_it() -> None:
    """Both await the marker in the source, which no job announces; one that reads it alone needs none."""
    left, right = "s:source > a:map > k:sink", "s:source > b:window > k:sink"
    line = "s:source > a:map > j:join.left s > b:window > j.right j > k:sink"
    floor = Floor(strategy="launch")
    for dataflow, submitted in (("x", left), ("y", right), ("z", line)):
        floor.submit(submitted, dataflow)
    assert {1: [1, 2, 3], 2: [4, 5], 3: [6, 7]} == floor.layout()
    after = line.replace("a:map", "a:map{'add': 1}").replace("b:window", "b:window{'size': 5}")
    found = switching(
        floor,
        edit(floor, "x", left, left.replace("a:map", "a:map{'add': 1}")),
        edit(floor, "y", right, right.replace("b:window", "b:window{'size': 5}")),
        edit(floor, "z", line, after),
    )
    assert [("1 2 4", "1")] == scopes(found)
    source = frozenset({Instance(1)})
    assert {ONE: JobSwitch(job=ONE, sources=source), TWO: JobSwitch(job=TWO, sources=source)} == found.jobs
    assert found.is_coordinated
    # Forks of them all make the job below wait for both.
    found = switching(floor, edit(floor, "z", line, after))
    assert [("1 2 4 6 7", "1")] == scopes(found)
    assert {
        ONE: JobSwitch(job=ONE, sources=source, announces=ends((2, "out"))),
        TWO: JobSwitch(job=TWO, sources=source, announces=ends((4, "out"))),
        THREE: JobSwitch(job=THREE, awaits=ends((2, "out"), (4, "out"))),
    } == found.jobs


def test_epochs_go_through_all() -> None:
    """Every source of the dataflow carries a marker, and every job of it passes it on."""
    floor = two()
    found = switching(floor, *both(floor, OTHER), scheduler=Scheduler.EPOCH)
    assert [("1 2 3 4 5", "1")] == scopes(found)
    assert {
        ONE: JobSwitch(job=ONE, sources=frozenset({Instance(1)}), announces=ends((2, "out"))),
        TWO: JobSwitch(job=TWO, awaits=ends((2, "out"))),
    } == found.jobs


def test_no_change_needs_no_switch() -> None:
    """Where nothing changes no job does."""
    floor = two()
    assert Switches(components=(), jobs={}) == switching(floor, *both(floor, BELOW))
