"""Laws of regions: what is consolidated one after the other, at random moments of random walks."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given

from merge import Assignment, Instance, Region, consolidate, gain, regions
from tests.laws.moves import Move, Terms, at_home, bridges, is_acyclic, moves, tags, terms
from tests.strategies import Walk, walks


@dataclass(frozen=True, kw_only=True)
class Parted:
    """A moment of a walk, with the regions of so many tasks that there are at it."""

    move: Move
    most: int
    regions: tuple[Region, ...]

    def target(self, region: Region) -> Assignment:
        """Where the tasks of a region should run."""
        return consolidate(region.running, region.jobs, region.hosts, self.move.costs, shared=region.shared)


def parted(walk: Walk, terms: Terms) -> Iterator[Parted]:
    """Every moment of a walk, and regions of any size."""
    chance = Random(terms.seed)
    for move in moves(walk, terms):
        most = chance.choice((1, 3, 6, 12, 1_000))
        found = tuple(regions(move.running, move.jobs, move.hosts, move.costs, most=most))
        yield Parted(move=move, most=most, regions=found)


def cut_with(move: Move, instance: Instance) -> frozenset[Instance]:
    """What has to be cut where one task is: whatever streams and common sources connect with it."""
    tasks = move.running.tasks
    around: dict[object, set[object]] = {}
    for each, task in tasks.items():
        for other in [Instance(edge.parent) for edge in task.inputs] or [task.config["source"]]:
            around.setdefault(each, set()).add(other)
            around.setdefault(other, set()).add(each)
    found, ends = set[object](), list[object]([instance])
    while ends:
        found.add(end := ends.pop())
        ends += [other for other in around[end] if other not in found]
    return frozenset(each for each in tasks if each in found)


@given(walk=walks(), terms=terms())
def test_each_task_is_in_one_region_with_all_that_is_cut_with_it(walk: Walk, terms: Terms) -> None:
    """A region that has more than its bound is what emptying one job takes."""
    for each in parted(walk, terms):
        move = each.move
        assert sorted(move.running.tasks) == sorted(task for region in each.regions for task in region.running.tasks)
        bodies = {cut_with(move, task) for task in move.running.tasks}
        for region in each.regions:
            inside = frozenset(region.running.tasks)
            assert all(body <= inside or not body & inside for body in bodies)
            of_one_job = [
                frozenset().union(*(body for body in bodies if body & job.active)) for job in move.jobs.jobs.values()
            ]
            assert len(inside) <= each.most or any(inside <= those for those in of_one_job)


@given(walk=walks(), terms=terms())
def test_jobs_are_sound_after_each_region(walk: Walk, terms: Terms) -> None:
    """All homes, bridges and tags are right, no job comes before itself, and who has no part in it stays as it was."""
    for each in parted(walk, terms):
        move, offered = each.move, {host.name: host.tags for host in each.move.hosts}
        for region in each.regions:
            target = each.target(region)
            after = move.jobs.apply(target)
            assert set(move.running.tasks) == set(after.homes)
            assert bridges(move.running, at_home(after)) == dict(after.bridges)
            assert is_acyclic(move.running, at_home(after))
            assert all(tags(after.jobs[job].active, move.running) <= offered[host] for job, host in target.opens)
            inside = frozenset(region.running.tasks)
            for name, job in move.jobs.jobs.items():
                left = frozenset() if name not in after.jobs else after.jobs[name].active
                assert job.active - inside == left - inside
                # It runs on with what is paused in it, and stops only where nothing else is left.
                assert job.active <= inside or after.jobs[name].paused == job.paused


@given(walk=walks(), terms=terms())
def test_what_a_region_gains_all_gain(walk: Walk, terms: Terms) -> None:
    """What is worth it by itself is worth it for the service."""
    for each in parted(walk, terms):
        for region in each.regions:
            target = each.target(region)
            here = gain(region.running, region.jobs, target, each.move.costs)
            whole = gain(each.move.running, each.move.jobs, target, each.move.costs)
            assert pytest.approx(whole.cores) == here.cores


@given(walk=walks(), terms=terms())
def test_few_tasks_are_one_region(walk: Walk, terms: Terms) -> None:
    """Then there is nothing to choose."""
    for each in parted(walk, terms):
        if len(each.move.running.tasks) <= each.most:
            (region,) = each.regions
            assert (each.move.running, each.move.jobs, frozenset()) == (region.running, region.jobs, region.shared)
