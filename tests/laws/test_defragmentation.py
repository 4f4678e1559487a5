"""Laws of consolidation, of isolation and of fragmentation, at random moments of random walks."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from random import Random

import networkx as nx
import pytest
from hypothesis import given, settings

from merge import (
    Assignment,
    Costs,
    Host,
    Instance,
    JobId,
    Jobs,
    Region,
    RunningGraph,
    consolidate,
    fragmentation,
    gain,
    isolate,
    regions,
)
from merge.consolidation.defragmentation import as_grouped, problem_anew
from merge.consolidation.isolation import overloaded
from merge.grouping import cost_of, problems_of
from merge.placement.board import PlacementBoard
from merge.tasks import downwards
from tests.graphs import streams_of
from tests.laws.moves import (
    Move,
    Terms,
    at_home,
    bridges,
    coded,
    components,
    has_room_or_none_helps,
    is_acyclic,
    moves,
    owners,
    tags,
    terms,
    work,
)
from tests.strategies import Walk, walks


@given(walk=walks(), terms=terms())
def test_consolidation_consolidates(walk: Walk, terms: Terms) -> None:
    """Afterwards nothing is paused, every job has a host that is there, and has room or could not be helped."""
    for move in consolidations(walk, terms):
        hosts = {host.name: host.tags for host in move.hosts}
        assert set(move.running.tasks) == set(move.jobs.homes)
        assert is_acyclic(move.running, at_home(move.jobs))
        for job in move.jobs.jobs.values():
            assert frozenset() == job.paused
            assert tags(job.active, move.running) <= hosts[job.host]
            assert has_room_or_none_helps(job.active, move.costs)


@given(walk=walks(), terms=terms())
def test_second_consolidation_does_nothing(walk: Walk, terms: Terms) -> None:
    """Right after a consolidation there is nothing to consolidate."""
    for move in consolidations(walk, terms):
        assert Assignment(base=move.jobs.version) == replace(move, before=move.jobs).assignment


@given(walk=walks(), terms=terms())
def test_consolidation_gains_something_or_moves_nothing(walk: Walk, terms: Terms) -> None:
    """Where hosts and capacity hold, there are fewer jobs or fewer bridges afterwards, or the same tasks together."""
    for move in consolidations(walk, terms):
        if all(len(job.active) == 1 or move.fits_a_job(job.active) for job in move.before.jobs.values()):
            fewer_jobs = len(move.jobs.jobs) < len(move.before.jobs)
            fewer_bridges = len(move.jobs.bridges) < len(move.before.bridges)
            assert fewer_jobs or fewer_bridges or together(move.before) == together(move.jobs)


@given(walk=walks(), terms=terms())
def test_jobs_that_may_stay_stay(walk: Walk, terms: Terms) -> None:
    """A job that has nothing paused goes on if it should hold what it holds and its host is there; others stop."""
    for move in consolidations(walk, terms):
        hosts = {host.name: host.tags for host in move.hosts}
        stay = {
            job.id
            for job in move.before.jobs.values()
            if not job.paused
            and job.active in together(move.jobs)
            and job.host in hosts
            and tags(job.active, move.running) <= hosts[job.host]
        }
        assert sorted(set(move.before.jobs) - stay) == list(move.assignment.stops)
        assert all(move.before.jobs[job] == move.jobs.jobs[job] for job in stay)


@given(walk=walks(), terms=terms())
def test_running_dags_that_fit_a_job_stay_whole(walk: Walk, terms: Terms) -> None:
    """Bridges are left only where some running DAG is too much for one job."""
    for move in consolidations(walk, terms):
        if all(move.fits_a_job(dag) for dag in components(move.running)):
            assert {} == dict(move.jobs.bridges)


@given(walk=walks(), terms=terms())
def test_packing_leaves_no_two_jobs_that_fit_into_one(walk: Walk, terms: Terms) -> None:
    """Where tasks come together otherwise than before and running DAGs stay whole, no job has room for another."""
    for move in consolidations(walk, terms):
        whole = all(move.fits_a_job(dag) for dag in components(move.running))
        if whole and together(move.before) != together(move.jobs):
            pairs = combinations(together(move.jobs), 2)
            assert not any(move.fits_a_job(one | other) for one, other in pairs)


@given(walk=walks(), terms=terms())
def test_fragmentation_is_what_can_be_counted(walk: Walk, terms: Terms) -> None:
    """Jobs, paused tasks, and bridges not from sources are those there are; the fewest are those left, if fewer."""
    for move in consolidations(walk, terms):
        found = fragmentation(move.running, move.before, move.hosts, move.costs)
        assert len(move.before.jobs) == found.jobs
        assert min(len(move.before.jobs), len(move.jobs.jobs)) == found.fewest
        crossing = bridges(move.running, at_home(move.before))
        assert sum(bool(move.running.tasks[bridge.parent].inputs) for bridge in crossing) == found.bridges
        assert sum(len(job.paused) for job in move.before.jobs.values()) == found.paused
        assert bridges_in_a_row(move.running, move.before) == found.hops
        assert found.hops * move.costs.pace == found.latency
        beyond = (found.jobs - found.fewest) * move.costs.batch / move.costs.pace
        assert beyond + found.bridges * 0.25 + found.paused * 0.125 == found.cores


@given(walk=walks(), terms=terms())
def test_nothing_is_left_of_fragmentation_but_bridges(walk: Walk, terms: Terms) -> None:
    """Consolidated jobs are the fewest, with nothing paused; they cost what their bridges cost."""
    for move in consolidations(walk, terms):
        found = fragmentation(move.running, move.jobs, move.hosts, move.costs)
        assert (found.jobs, 0) == (found.fewest, found.paused)
        assert found.bridges * move.costs.bridge == found.cores


@given(walk=walks(), terms=terms())
def test_jobs_that_are_apart_are_as_if_they_were_not_there(walk: Walk, terms: Terms) -> None:
    """They, and those that bridges join to them, stay as they are; the others come together as they would alone."""
    chance = Random(terms.seed)
    for move in consolidations(walk, terms):
        apart = {job for job in move.before.jobs if chance.random() < 0.3}
        assignment = consolidate(move.running, move.before, move.hosts, move.costs, apart)
        after = move.before.apply(assignment)
        joined = {job for each in joined_jobs(move.before) if each & apart for job in each}
        assert all(move.before.jobs[job] == after.jobs[job] for job in joined)
        assert is_acyclic(move.running, at_home(after))
        found = fragmentation(move.running, move.before, move.hosts, move.costs, apart)
        assert min(len(move.before.jobs), len(after.jobs)) == found.fewest
        alone = without(move, joined)
        assert together(alone.jobs) == {after.jobs[job].active for job in after.jobs if job not in joined}


@given(walk=walks(), terms=terms())
def test_an_overloaded_job_gets_within_capacity(walk: Walk, terms: Terms) -> None:
    """By isolation its batches come to take half its pace at most, and it still has something to do."""
    for each in isolations(walk, terms):
        rest, before = each.after.jobs[each.job].active, each.jobs.jobs[each.job].active
        assert each.job in overloaded(each.running, each.jobs, each.costs, each.measured)
        share = work(rest, each.costs) / work(before, each.costs)
        left = each.costs.batch + (each.measured[each.job] - each.costs.batch) * share
        assert left <= each.costs.pace / 2 + 1e-9
        assert each.costs.fits(work(rest, each.costs))
        assert any(each.running.tasks[instance].inputs for instance in rest)


@given(walk=walks(), terms=terms())
def test_isolation_touches_no_other_job(walk: Walk, terms: Terms) -> None:
    """What moves goes from one job to new ones, which have room or cannot be helped; every task has one home."""
    for each in isolations(walk, terms):
        moved = {instance for instance, _ in each.assignment.places}
        assert ((), ()) == (each.assignment.stops, each.assignment.pauses)
        assert each.jobs.jobs[each.job].active - moved == each.after.jobs[each.job].active
        assert all(each.jobs.jobs[job] == each.after.jobs[job] for job in each.jobs.jobs if job != each.job)
        assert set(each.running.tasks) == set(each.after.homes)
        assert bridges(each.running, at_home(each.after)) == dict(each.after.bridges)
        assert is_acyclic(each.running, at_home(each.after))
        hosts = {host.name: host.tags for host in each.hosts}
        for job, host in each.assignment.opens:
            active = each.after.jobs[job].active
            assert has_room_or_none_helps(active, each.as_measured)
            assert tags(active, each.running) <= hosts[host]


@given(walk=walks(), terms=terms())
def test_no_overloaded_job_is_left_that_could_be_helped(walk: Walk, terms: Terms) -> None:
    """Nothing is isolated only where no job is overloaded, or where even the newest task of each would be too much."""
    for each in overloads(walk, terms):
        if each.target is None:
            for job in overloaded(each.running, each.jobs, each.costs, each.measured):
                active = each.jobs.jobs[job].active
                if not each.running.tasks[max(active)].inputs:
                    continue
                newest = each.costs.busy[max(active)] / work(active, each.costs)
                measured = max(each.measured[job], each.costs.batch_of(work(active, each.costs)))
                takes = each.costs.batch + (measured - each.costs.batch) * newest
                assert len(active) == 1 or takes > each.costs.pace / 2 - 1e-9


@given(walk=walks(), terms=terms())
def test_consolidation_does_not_undo_isolation(walk: Walk, terms: Terms) -> None:
    """At the same costs what was too much for one job does not come together again."""
    for each in isolations(walk, terms):
        again = each.after.apply(consolidate(each.running, each.after, each.hosts, each.costs))
        assert not any(each.jobs.jobs[each.job].active <= active for active in together(again))


@given(walk=walks(), terms=terms())
def test_gain_is_the_difference_of_what_jobs_take(walk: Walk, terms: Terms) -> None:
    """Where all running DAGs come to be whole, what is gained are the cores of fragmentation, and all its latency."""
    for move in consolidations(walk, terms):
        found = fragmentation(move.running, move.before, move.hosts, move.costs)
        gained = gain(move.running, move.before, move.assignment, move.costs)
        assert found.hops == gained.hops_before
        if not move.jobs.bridges and len(move.jobs.jobs) <= len(move.before.jobs):
            assert 0 == gained.hops_after
            assert found.cores == gained.cores


def consolidations(walk: Walk, terms: Terms) -> Iterator[Move]:
    """The consolidations of a walk that has many."""
    return (move for move in moves(walk, terms, often=0.5) if move.by == "consolidate")


@dataclass(frozen=True, kw_only=True)
class Overload:
    """A moment at which some tasks are dearer than when they were placed."""

    running: RunningGraph
    jobs: Jobs
    hosts: tuple[Host, ...]
    costs: Costs
    measured: dict[JobId, float]
    """What batches take."""

    @cached_property
    def target(self) -> Assignment | None:
        """What isolation does about it."""
        return isolate(self.running, self.jobs, self.hosts, self.costs, self.measured)

    @cached_property
    def assignment(self) -> Assignment:
        """The same, where it does anything."""
        assert self.target is not None
        return self.target

    @cached_property
    def after(self) -> Jobs:
        """The jobs then."""
        return self.jobs.apply(self.assignment)

    @property
    def as_measured(self) -> Costs:
        """The costs by which the job that was relieved takes as long as was measured, if that is more."""
        active = self.jobs.jobs[self.job].active
        measured = (self.measured[self.job] - self.costs.batch) / self.costs.pace
        dearer = max(1.0, measured / work(active, self.costs))
        return replace(
            self.costs, busy={**self.costs.busy, **{each: self.costs.busy[each] * dearer for each in active}}
        )

    @cached_property
    def job(self) -> JobId:
        """The job that was relieved."""
        (job,) = {self.jobs.homes[instance].job for instance, _ in self.assignment.places}
        return job


def overloads(walk: Walk, terms: Terms) -> Iterator[Overload]:
    """Every moment of a walk, with costs that have risen since."""
    chance = Random(terms.seed)
    for move in moves(walk, terms):
        dearer = {task: busy * chance.choice((1.0, 1.0, 2.0, 4.0)) for task, busy in move.costs.busy.items()}
        costs = replace(move.costs, busy=dearer)
        measured = {
            job.id: (costs.batch + costs.pace * work(job.active, costs)) * chance.choice((0.5, 1.0, 1.5))
            for job in move.jobs.jobs.values()
        }
        yield Overload(running=move.running, jobs=move.jobs, hosts=move.hosts, costs=costs, measured=measured)


def isolations(walk: Walk, terms: Terms) -> Iterator[Overload]:
    """Those of them at which something is isolated."""
    return (each for each in overloads(walk, terms) if each.target is not None)


def joined_jobs(jobs: Jobs) -> list[set[JobId]]:
    """The jobs in groups between which no bridge leads."""
    return list(nx.weakly_connected_components(jobs.streams_between()))


def without(move: Move, left_out: set[JobId]) -> Move:
    """The same moment in a world without these jobs and what they run."""
    homes = {instance: home for instance, home in move.before.homes.items() if home.job not in left_out}
    tasks = {instance: task for instance, task in move.running.tasks.items() if instance in homes}
    jobs = Jobs.of(
        [job for job in move.before.jobs.values() if job.id not in left_out],
        homes,
        {bridge: count for bridge, count in move.before.bridges.items() if bridge.to not in left_out},
        move.before.next_job,
    )
    return replace(move, running=replace(move.running, tasks=tasks), before=jobs)


def together(jobs: Jobs) -> set[frozenset[Instance]]:
    """What runs together in each job."""
    return {job.active for job in jobs.jobs.values()}


def bridges_in_a_row(running: RunningGraph, jobs: Jobs) -> int:
    """The most bridges on any path through the running graph."""
    homes = at_home(jobs)
    streams: nx.DiGraph[Instance] = nx.DiGraph()
    streams.add_nodes_from(running.tasks)
    for parent, child in streams_of(running).edges():
        crosses = homes[parent] != homes[child] and bool(running.tasks[parent].inputs)
        streams.add_edge(parent, child, weight=int(crosses))
    return nx.dag_longest_path_length(streams)


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


_FEW = settings(max_examples=25)
"""Each example solves several problems."""


@_FEW
@given(walk=walks() | walks().map(coded), terms=terms())
def test_a_planned_consolidation_is_sound(walk: Walk, terms: Terms) -> None:
    """Every task runs in one job, which has room for it, its tags, and code of one owner; and nothing is paused."""
    for move in by_thumb(walk, terms):
        after = move.before.apply(planned(move))
        hosts = {host.name: host.tags for host in move.hosts}
        assert set(move.running.tasks) == set(after.homes)
        assert is_acyclic(move.running, at_home(after))
        assert bridges(move.running, at_home(after)) == dict(after.bridges)
        for job in after.jobs.values():
            assert frozenset() == job.paused
            assert tags(job.active, move.running) <= hosts[job.host]
            assert has_room_or_none_helps(job.active, move.costs)
            assert len(owners(job.active, move.running)) <= 1


@_FEW
@given(walk=walks() | walks().map(coded), terms=terms())
def test_a_planned_consolidation_costs_no_more_than_the_rule(walk: Walk, terms: Terms) -> None:
    """By the model's jobs, bridges and slowest path, wherever the model can judge what the rule of thumb found."""
    for move in by_thumb(walk, terms):
        by_rule, by_plan = (cost(move, move.before.apply(each)) for each in (move.assignment, planned(move)))
        if by_rule is not None:
            assert by_plan is not None
            assert by_plan <= by_rule + 1e-9


@_FEW
@given(walk=walks(), terms=terms())
def test_a_second_planned_consolidation_does_nothing(walk: Walk, terms: Terms) -> None:
    """Right after one there is nothing to move."""
    for move in by_thumb(walk, terms):
        after = move.before.apply(planned(move))
        again = consolidate(move.running, after, move.hosts, move.costs, planned=True)
        assert Assignment(base=after.version) == again


def planned(move: Move) -> Assignment:
    """The consolidation of that moment by planning."""
    return consolidate(move.running, move.before, move.hosts, move.costs, planned=True)


def cost(move: Move, jobs: Jobs) -> float | None:
    """What jobs cost by the model; None if it has no such groups."""
    ground = PlacementBoard(move.running.tasks, jobs, move.hosts, move.costs)
    problem = problem_anew(ground, move.running.tasks.values())
    groups = [downwards(move.running.tasks[each] for each in job.active) for job in jobs.jobs.values()]
    grouped = as_grouped(problem, groups)
    return None if grouped is None or problems_of(problem, grouped) else cost_of(problem, grouped).total


def by_thumb(walk: Walk, terms: Terms) -> Iterator[Move]:
    """The moments of a walk at which jobs are consolidated, by the rule of thumb."""
    return (move for move in moves(walk, terms, "launch", "graft", often=0.5) if move.by == "consolidate")
