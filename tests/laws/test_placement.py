"""Laws of placement and release, after every step of random walks; consolidations are thrown in at random."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merge import Instance, JobId, place
from merge.grouping import cost_of, problems_of
from merge.placement.board import Group, PlacementBoard, anew
from merge.placement.planned import groups_on, problem_of
from merge.placement.strategies import STRATEGIES
from merge.tasks import downwards
from tests.laws.moves import (
    HOSTS,
    Move,
    Terms,
    at_home,
    bridges,
    coded,
    has_room_or_none_helps,
    is_acyclic,
    moves,
    otherwise_ordered,
    owners,
    parts,
    seen,
    tags,
    terms,
    work,
)
from tests.strategies import Walk, walks

TAGS = {host.name: host.tags for host in HOSTS}


@given(walk=walks(), terms=terms())
def test_graph_of_jobs_is_acyclic(walk: Walk, terms: Terms) -> None:
    """In whichever mix and order dataflows are placed, removed and consolidated, the graph of jobs has no cycles."""
    for move in moves(walk, terms):
        assert is_acyclic(move.running, at_home(move.jobs))


@given(walk=walks(confined=True), terms=terms())
def test_every_running_task_is_active_in_one_job(walk: Walk, terms: Terms) -> None:
    """What runs has a home, in the one job that lists it as active; nothing else is active, and no job is without."""
    for move in moves(walk, terms):
        active: defaultdict[JobId, set[Instance]] = defaultdict(set)
        for instance, home in move.jobs.homes.items():
            active[home.job].add(instance)
        assert set(move.running.tasks) == set(move.jobs.homes)
        assert active == {job.id: set(job.active) for job in move.jobs.jobs.values()}
        assert set(move.jobs.jobs) == {job.id for job in move.jobs.jobs.values()}


@given(walk=walks(), terms=terms())
def test_paused_tasks_are_those_that_stopped_in_a_job_that_goes_on(walk: Walk, terms: Terms) -> None:
    """A task is paused from its release until its job stops, and never runs again."""
    paused: dict[Instance, JobId] = {}
    for move in moves(walk, terms):
        paused |= {instance: move.before.homes[instance].job for instance in move.assignment.pauses}
        paused = {instance: job for instance, job in paused.items() if job not in move.assignment.stops}
        assert paused == {instance: job.id for job in move.jobs.jobs.values() for instance in job.paused}
        assert move.running.tasks.keys().isdisjoint(paused)


@given(walk=walks(), terms=terms())
def test_bridges_are_what_the_homes_require(walk: Walk, terms: Terms) -> None:
    """There is a bridge exactly where a stream enters another job, counted by the inputs that it feeds there."""
    for move in moves(walk, terms):
        assert bridges(move.running, at_home(move.jobs)) == dict(move.jobs.bridges)


@given(walk=walks(), terms=terms())
def test_jobs_stay_within_capacity(walk: Walk, terms: Terms) -> None:
    """A job is as busy as its tasks together, and too busy only because of a task that is so for any job."""
    for move in moves(walk, terms):
        for job in move.jobs.jobs.values():
            assert work(job.active, move.costs) == job.busy
            assert has_room_or_none_helps(job.active, move.costs)
        assert {job.id: job.busy for job in move.jobs.jobs.values()} == move.jobs.loads


@given(walk=walks(), terms=terms(unit=0.01))
def test_work_of_a_job_survives_rounding(walk: Walk, terms: Terms) -> None:
    """However often tasks come and go, a job's work stays the sum of theirs but for rounding."""
    for move in moves(walk, terms):
        for job in move.jobs.jobs.values():
            assert work(job.active, move.costs) == pytest.approx(job.busy, abs=1e-12)


@given(walk=walks(), terms=terms())
def test_hosts_offer_the_tags_of_their_jobs(walk: Walk, terms: Terms) -> None:
    """A job's host offers every tag of its tasks, and nothing is placed on a host that is not there."""
    for move in moves(walk, terms):
        for job in move.jobs.jobs.values():
            assert tags(job.active, move.running) <= TAGS[job.host]
        here = {host.name for host in move.hosts}
        assert {move.jobs.jobs[home.job].host for _, home in move.assignment.places} <= here


@given(walk=walks(), terms=terms())
def test_code_of_two_owners_is_never_in_one_job(walk: Walk, terms: Terms) -> None:
    """Whatever places or consolidates them; the graph of jobs stays acyclic, and jobs within capacity."""
    for move in moves(coded(walk), terms, often=0.4):
        for job in move.jobs.jobs.values():
            assert len(owners(job.active, move.running)) <= 1
            assert has_room_or_none_helps(job.active, move.costs)
        assert is_acyclic(move.running, at_home(move.jobs))


@given(walk=walks(), terms=terms())
def test_placement_changes_nothing_but_what_it_places(walk: Walk, terms: Terms) -> None:
    """A placement places exactly the residue at its cost, pauses and stops nothing, and numbers new jobs in order."""
    for move in placements(moves(walk, terms)):
        placed = [(instance, home.busy) for instance, home in move.assignment.places]
        assert [(instance, move.costs.busy[instance]) for instance in move.change.residue] == placed
        assert ((), ()) == (move.assignment.pauses, move.assignment.stops)
        first = move.before.next_job
        opened = [job for job, _ in move.assignment.opens]
        assert (list(range(first, first + len(opened))), first + len(opened)) == (opened, move.jobs.next_job)
        assert all(count > 0 for _, count in move.assignment.crossings)


@given(walk=walks(), terms=terms())
def test_computing_and_applying_leave_the_jobs_before_alone(walk: Walk, terms: Terms) -> None:
    """Neither computing an assignment nor applying it changes the jobs that it was computed from."""
    for move in moves(walk, terms, often=0.5):
        jobs = seen(move.before)
        fresh = replace(move)
        assert fresh.jobs is not move.jobs
        assert jobs == seen(fresh.before)


@given(walk=walks(), terms=terms(unit=0.01), chance=st.randoms(use_true_random=True))
def test_order_decides_nothing(walk: Walk, terms: Terms, chance: Random) -> None:
    """The same jobs, hosts and costs give the same assignment, in whichever order they are held or given."""
    for move in moves(walk, terms, often=0.5):
        assert move.assignment == otherwise_ordered(move, chance).assignment


@given(walk=walks(), terms=terms())
def test_launch_opens_jobs_for_everything(walk: Walk, terms: Terms) -> None:
    """By `launch` the whole residue runs in new jobs, one if it fits; they follow each other in topological order."""
    for move in placements(moves(walk, terms, "launch")):
        residue = frozenset(move.change.residue)
        opened = [job for job, _ in move.assignment.opens]
        jobs = [home.job for _, home in move.assignment.places]
        assert sorted(jobs) == jobs
        assert opened == sorted(set(jobs))
        assert len(opened) == bool(residue) or not move.fits_a_job(residue)


@given(walk=walks(), terms=terms())
def test_graft_bridges_only_into_new_jobs(walk: Walk, terms: Terms) -> None:
    """By `graft` nothing that joins a job needs a bridge, and every new job holds tasks of one part of the residue."""
    for move in placements(moves(walk, terms, "graft")):
        new = {job for job, _ in move.assignment.opens}
        assert {bridge.to for bridge, _ in move.assignment.crossings} <= new
        for part in parts(move.change.residue, move.running):
            jobs = {move.jobs.homes[instance].job for instance in part}
            assert jobs <= new or len(jobs) == 1
            new -= jobs
        assert not new


@pytest.mark.parametrize("strategy", ["launch", "graft", "pack"])
@given(walk=walks() | walks().map(coded), terms=terms())
def test_placement_agrees_with_its_definition(strategy: str, walk: Walk, terms: Terms) -> None:
    """Jobs and hosts are chosen as the strategies are defined, found by trying out each choice on all that runs."""
    for move in placements(moves(walk, terms)):
        homes, hosts = by_definition(strategy, move)
        assignment = replace(move, by=strategy).assignment
        assert homes == {instance: home.job for instance, home in assignment.places}
        assert hosts == dict(assignment.opens)


@given(walk=walks(), terms=terms())
def test_a_plan_costs_no_more_than_packing(walk: Walk, terms: Terms) -> None:
    """By the costs that it plans with: jobs, bridges, and the slowest path."""
    for move in placements(moves(walk, terms, "plan")):
        ground, started = board_of(move)
        packed = STRATEGIES["pack"](anew(ground), started)
        if started and not packed.shards:
            problem = problem_of(ground, started, packed)
            one, other = (
                cost_of(problem, groups_on(board, started, problem)).total
                for board in (STRATEGIES["plan"](anew(ground), started), packed)
            )
            assert one <= other + 1e-9


@given(walk=walks(), terms=terms())
def test_a_plan_is_sound(walk: Walk, terms: Terms) -> None:
    """By the checks that any answer to its problem has to pass; so no job runs the code of two owners."""
    for move in placements(moves(walk, terms, "plan")):
        ground, started = board_of(move)
        packed = STRATEGIES["pack"](anew(ground), started)
        if started and not packed.shards:
            problem = problem_of(ground, started, packed)
            board = STRATEGIES["plan"](anew(ground), started)
            assert () == problems_of(problem, groups_on(board, started, problem))


@pytest.mark.parametrize("strategy", ["launch", "graft"])
@given(walk=walks(), terms=terms())
def test_placement_looks_only_at_the_residue(strategy: str, walk: Walk, terms: Terms) -> None:
    """Of all that runs, `launch` and `graft` look up the residue and the homes of its parents, nothing else."""
    for move in placements(moves(walk, terms)):
        tasks, homes = Counted(move.running.tasks), Counted(dict(move.before.homes))
        jobs: Any = homes
        place(
            strategy,
            residue=move.change.residue,
            running=tasks,
            jobs=replace(move.before, homes=jobs),
            hosts=move.hosts,
            costs=move.costs,
        )
        residue = set(move.change.residue)
        parents = {edge.parent for instance in residue for edge in move.running.tasks[instance].inputs} - residue
        assert (residue, parents) == (tasks.asked, homes.asked)


class Counted(dict[Instance, Any]):
    """A mapping that notes which keys it is asked for and may not be gone through."""

    def __init__(self, held: dict[Instance, Any]) -> None:
        super().__init__(held)
        self.asked: set[Instance] = set()

    def __getitem__(self, instance: Instance) -> Any:
        self.asked.add(instance)
        return super().__getitem__(instance)

    def __iter__(self) -> NoReturn:
        raise AssertionError("all that runs was gone through")

    keys = values = items = __iter__


def board_of(move: Move) -> tuple[PlacementBoard, Group]:
    """The board of a move before it, and the residue."""
    ground = PlacementBoard(move.running.tasks, move.before, move.hosts, move.costs)
    return ground, downwards(move.running.tasks[instance] for instance in move.change.residue)


def placements(steps: Iterable[Move]) -> Iterable[Move]:
    """Those of the steps that place something new."""
    return (move for move in steps if move.by in STRATEGIES)


def by_definition(strategy: str, move: Move) -> tuple[dict[Instance, JobId], dict[JobId, str]]:
    """Where the residue shall run and which jobs open on which hosts, slowly."""
    homes, here = at_home(move.before), {host.name: host for host in move.hosts}
    hosts = {job.id: job.host for job in move.before.jobs.values()}
    residue = tuple(sorted(move.change.residue))
    groups = [frozenset(residue)] if strategy == "launch" else parts(residue, move.running)

    def busy(job: JobId) -> float:
        return work(frozenset(instance for instance in homes if homes[instance] == job), move.costs)

    def takes(job: JobId, group: frozenset[Instance]) -> bool:
        tried = homes | dict.fromkeys(group, job)
        running = replace(move.running, tasks={instance: move.running.tasks[instance] for instance in tried})
        offered = here[hosts[job]].tags if hosts[job] in here else None
        room = move.costs.fits(busy(job) + work(group, move.costs))
        trusted = len(owners((each for each in tried if tried[each] == job), running)) <= 1
        return (
            room
            and trusted
            and offered is not None
            and tags(group, move.running) <= offered
            and is_acyclic(running, tried)
        )

    def open_job(group: frozenset[Instance]) -> None:
        offering = [host for host in move.hosts if tags(group, move.running) <= host.tags]
        batch = move.costs.batch / move.costs.pace
        taken = {host.name: sum(batch + busy(job) for job in hosts if hosts[job] == host.name) for host in move.hosts}
        spare = {host.name: host.cores - taken[host.name] for host in offering}
        job = JobId(1 + max((move.before.next_job - 1, *hosts)))
        hosts[job] = min(spare, key=lambda name: (-spare[name], taken[name], name))
        homes.update(dict.fromkeys(group, job))

    for group in groups if residue else []:
        streams = {(e.parent, e.parent_port) for i in group for e in move.running.tasks[i].inputs}
        entered = Counter(homes[Instance(parent)] for parent, _ in streams if parent not in group)
        liked: list[JobId] = []
        if strategy == "graft" and len(entered) == 1:
            liked = list(entered)
        elif strategy == "pack":
            liked = sorted(hosts, key=lambda job: (-entered[job], 0.0 if job in entered else -busy(job), job))
        job = next((job for job in liked if takes(job, group)), None)
        if job is not None:
            homes.update(dict.fromkeys(group, job))
            continue
        run: frozenset[Instance] = frozenset()
        for instance in sorted(group):
            if run and not move.fits_a_job(run | {instance}):
                open_job(run)
                run = frozenset()
            run |= {instance}
        open_job(run)
    return {i: homes[i] for i in residue}, {job: hosts[job] for job in hosts if job not in move.before.jobs}
