"""Laws of consolidation and of the fragmentation that it cures, at random moments of random walks."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import networkx as nx
from hypothesis import given

from merge import Assignment, Instance, Jobs, RunningGraph, fragmentation
from tests.laws.moves import Move, Terms, at_home, bridges, is_acyclic, moves, tags, terms, work
from tests.laws.pictures import components
from tests.strategies import Walk, walks


@given(walk=walks(), terms=terms())
def test_consolidation_consolidates(walk: Walk, terms: Terms) -> None:
    """Afterwards nothing is paused, every job has a host that is there, and has room or runs a single task."""
    for move in consolidations(walk, terms):
        hosts = {host.name: host.tags for host in move.hosts}
        assert set(move.running.tasks) == set(move.jobs.homes)
        assert is_acyclic(move.running, at_home(move.jobs))
        for job in move.jobs.jobs.values():
            assert frozenset() == job.paused
            assert tags(job.active, move.running) <= hosts[job.host]
            assert move.costs.fits(work(job.active, move.costs)) or len(job.active) == 1


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
    """Jobs, bridges, paused tasks and bridges in a row are those there are; the fewest are those left, if fewer."""
    for move in consolidations(walk, terms):
        found = fragmentation(move.running, move.before, move.hosts, move.costs)
        assert len(move.before.jobs) == found.jobs
        assert min(len(move.before.jobs), len(move.jobs.jobs)) == found.fewest
        assert len(bridges(move.running, at_home(move.before))) == found.bridges
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


def consolidations(walk: Walk, terms: Terms) -> Iterator[Move]:
    """The consolidations of a walk that has many."""
    return (move for move in moves(walk, terms, often=0.5) if move.by == "consolidate")


def together(jobs: Jobs) -> set[frozenset[Instance]]:
    """What runs together in each job."""
    return {job.active for job in jobs.jobs.values()}


def bridges_in_a_row(running: RunningGraph, jobs: Jobs) -> int:
    """The most bridges on any path through the running graph."""
    homes = at_home(jobs)
    streams: nx.DiGraph[Instance] = nx.DiGraph()
    streams.add_nodes_from(running.tasks)
    for parent, child in running.to_networkx().edges():
        streams.add_edge(parent, child, weight=int(homes[parent] != homes[child]))
    return nx.dag_longest_path_length(streams)
