"""Gain, disruption and worth, with exact numbers."""

import pytest

from merge import Instance, JobId, disruption, gain, worth
from merge.consolidation.cost_benefit import Disruption, Gain
from tests.merge.floor import Floor


def scattered() -> Floor:
    """Three jobs in a chain, with two paused tasks."""
    floor = Floor(strategy="launch", pace=2.0, batch=0.25, bridge=0.0625, paused=0.03125, work={"window": 0.25})
    floor.start, floor.interruption, floor.moving = 6.625, 1.5, 2.0**-20
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    floor.submit("s:source > a:map > b:window > c:count > m:sink", "z")
    floor.strategy = "graft"
    floor.submit("s:source > a:map > d:echo > n:sink", "v")
    floor.remove("v")
    return floor


def test_gain_of_a_consolidation() -> None:
    """All jobs but one, all bridges and paused tasks; the work of the tasks stays."""
    floor = scattered()
    costs, before, running = floor.costs(), floor.jobs, floor.running
    expected = Gain(
        cores_before=3 * 0.125 + 2 * 0.0625 + 2 * 0.03125 + 0.25,
        cores_after=0.125 + 0.25,
        hops_before=2,
        hops_after=0,
    )
    found = gain(running, before, floor.consolidate(), costs)
    assert expected == found
    assert 2 * 0.125 + 2 * 0.0625 + 2 * 0.03125 == found.cores


def test_gain_of_bringing_idle_jobs_together_is_small() -> None:
    """A job that has nothing to do does few batches, and the one that follows on several does as many as they did."""
    floor = scattered()
    costs, before, running = floor.costs(), floor.jobs, floor.running
    rates = {JobId(1): 0.125, JobId(2): 0.0625, JobId(3): 0.0}
    target = floor.consolidate()
    found = gain(running, before, target, costs, rates)
    assert 2 * 0.0625 + 2 * 0.03125 == found.cores
    assert 0.1875 * 0.25 + 0.25 == found.cores_after
    # One that answers plans at once may for a moment do more than its pace allows.
    assert gain(running, before, target, costs) == gain(running, before, target, costs, {JobId(1): 9.0})


def test_disruption_of_a_consolidation() -> None:
    """What moves waits as long as the interruption takes; state counts as far as it is known, of what moves only."""
    floor = scattered()
    costs, before = floor.costs(), floor.jobs
    found = disruption(before, floor.consolidate(), costs, {Instance(4): 3 * 2**20, Instance(99): 2**30})
    expected = Disruption(jobs=1, starting=6.625, tasks=7, interruption=1.5, waiting=0.375, state=3 * 2**20, moving=3.0)
    assert expected == found
    assert 10.0 == found.cpu


def test_nothing_is_disrupted_where_nothing_moves() -> None:
    """Nor gained; and that is not worth anything."""
    floor = Floor(start=8.0, interruption=1.5, batch=0.25)
    floor.submit("s:source > k:sink", "x")
    costs, before = floor.costs(), floor.jobs
    target = floor.consolidate()
    assert 0.0 == disruption(before, target, costs).cpu == disruption(before, target, costs).interruption
    assert 0.0 == gain(floor.running, before, target, costs).cores
    assert not worth(gain(floor.running, before, target, costs), disruption(before, target, costs), 3_600.0).kept


@pytest.mark.parametrize(("horizon", "kept"), [(16.0, False), (16.25, True)])
def test_worth_is_to_save_more_than_is_spent_before_the_horizon(horizon: float, kept: bool) -> None:  # noqa: FBT001 - a case
    """As much is not enough."""
    floor = scattered()
    costs, before = floor.costs(), floor.jobs
    target = floor.consolidate()
    gained = gain(floor.running, before, target, costs)
    found = worth(gained, disruption(before, target, costs), horizon)
    assert (kept, 0.4375 * horizon, 7.0) == (found.kept, found.saved, found.spent)


def test_worth_says_both() -> None:
    """In a sentence for the operation's record."""
    floor = scattered()
    costs, before = floor.costs(), floor.jobs
    target = floor.consolidate()
    found = worth(gain(floor.running, before, target, costs), disruption(before, target, costs), 3_600.0)
    assert found.says == (
        "It is worth it: 0.812 cores become 0.375 and 2 bridges in a row become 0, which saves 1575.0 CPU seconds in"
        " 3600 s. Jobs to start: 1, tasks to move: 7, which costs 7.0 CPU seconds and interrupts these for 1.5 s."
    )
