"""Laws of consolidations that are planned, at random moments of random walks."""

from collections.abc import Iterator

from hypothesis import given, settings

from merge import Assignment, Jobs, consolidate
from merge.consolidation.defragmentation import as_grouped, problem_anew
from merge.grouping import cost_of, problems_of
from merge.placement.board import PlacementBoard
from merge.tasks import downwards
from tests.laws.moves import (
    Move,
    Terms,
    at_home,
    bridges,
    coded,
    has_room_or_none_helps,
    is_acyclic,
    moves,
    owners,
    tags,
    terms,
)
from tests.strategies import Walk, walks

_FEW = settings(max_examples=25)
"""Each example solves several problems."""


@_FEW
@given(walk=walks() | walks().map(coded), terms=terms())
def test_a_planned_consolidation_is_sound(walk: Walk, terms: Terms) -> None:
    """Every task runs in one job, which has room for it, its tags, and code of one owner; and nothing is paused."""
    for move in consolidations(walk, terms):
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
    for move in consolidations(walk, terms):
        by_rule, by_plan = (cost(move, move.before.apply(each)) for each in (move.assignment, planned(move)))
        if by_rule is not None:
            assert by_plan is not None
            assert by_plan <= by_rule + 1e-9


@_FEW
@given(walk=walks(), terms=terms())
def test_a_second_planned_consolidation_does_nothing(walk: Walk, terms: Terms) -> None:
    """Right after one there is nothing to move."""
    for move in consolidations(walk, terms):
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


def consolidations(walk: Walk, terms: Terms) -> Iterator[Move]:
    """The moments of a walk at which jobs are consolidated, by the rule of thumb."""
    return (move for move in moves(walk, terms, "launch", "graft", often=0.5) if move.by == "consolidate")
