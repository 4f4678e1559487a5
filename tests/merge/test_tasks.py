"""Running tasks by example: their order, and how many there are of each kind."""

from datetime import timedelta

from merge import Instance, RunningGraph, merge
from merge.merger import swap
from merge.reconfiguration.alteration import alteration
from merge.tasks import TaskCounts, counted, downwards
from tests.catalogue import type_of
from tests.graphs import applied
from tests.merge.alterations import edit
from tests.merge.floor import NOW, Floor
from tests.notation import flow

LINE = "s:source > a:map > b:window > k:sink"


def test_tasks_are_counted_by_kind() -> None:
    """Sources, outputs and what is between them; counts add up and are taken away kind by kind."""
    found = counted(type_of(name, {}) for name in ("map", "sink", "clock", "window", "join", "sink"))
    assert TaskCounts(sources=1, steps=3, outputs=2) == found
    more = TaskCounts(sources=10, steps=20, outputs=40)
    assert TaskCounts(sources=11, steps=23, outputs=42) == found.plus(more)
    assert TaskCounts(sources=9, steps=17, outputs=38) == more.minus(found)
    assert [6, 70, 0] == [counts.total for counts in (found, more, TaskCounts())]


def test_an_inserted_task_is_before_those_it_feeds() -> None:
    """Although its number is larger; without its neighbours tasks are in the order of their numbers."""
    floor = Floor()
    floor.submit(LINE, "x")
    after = edit(floor, "x", LINE, "s:source > a:map > m:scale > b:window > k:sink")
    by = alteration(floor.running, [after], NOW)
    tasks = {task.instance: task for task in (*floor.running.tasks.values(), *by.alters)}
    tasks |= {fork.task.instance: fork.task for fork in by.forks}
    assert [1, 2, 5, 3, 4] == [task.instance for task in downwards(tasks.values())]
    assert [3, 4] == [task.instance for task in downwards(tasks[Instance(number)] for number in (4, 3))]
    assert [5, 3] == [task.instance for task in downwards(tasks[Instance(number)] for number in (3, 5))]


def test_a_swap_starts_at_its_own_time() -> None:
    """What both dataflows have goes on, and the rest of the new one is as old as the swap."""
    running = applied(RunningGraph(), merge(RunningGraph(), flow(LINE, "x"), NOW))
    later = NOW + timedelta(hours=1)
    change = swap(running, "x", flow("s:source > a:map > c:count > k:sink", "y"), later)
    assert {("count", later), ("sink", later)} == {(task.type.name, task.since) for task in change.starts}
    assert {"window", "sink"} == {task.type.name for task in change.stops}
