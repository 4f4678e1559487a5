"""The choice of an assignment: how much moves at a time."""

from collections.abc import Iterator

import pytest

from manager.costs import choice
from manager.costs.choice import Chooser
from manager.kernel.transitions import TransitionEvent
from manager.problem import Conflict
from merge import Home, Instance
from tests.manager.managers import Manager, take

SHORT = "s:source{{'source': '{0}'}} > a:map{{'add': 1}} > k:sink"
LONG = "s:source{{'source': '{0}'}} > a:map{{'add': 1}} > b:count > k:sink"
SOURCES = ("weather", "traffic", "power")
TOGETHER = 5
"""Tasks that two dataflows of one source are."""


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """A manager with two dataflows of each source that share tasks, with each residue in a job of its own."""
    made = Manager(sqlite, strategy="launch").lead()
    made.admit("ann", "bob")
    made.register(*SOURCES)
    for source in SOURCES:
        for text in (SHORT, LONG):
            made.submit("ann", text.format(source))
    yield made
    made.close()


def homes(manager: Manager) -> dict[Instance, Home]:
    with manager.committer.looking() as state:
        return dict(state.jobs.homes.items())


def moved(manager: Manager, chooser: Chooser) -> frozenset[Instance]:
    """Return the tasks that stood still in a move on request that succeeded; none if there is no move."""
    try:
        move = manager.changes.moves.begin(chooser.on_request, who="operator")
    except Conflict:
        return frozenset()
    take(manager.changes.moves, move.id, TransitionEvent.READY)
    take(manager.changes.moves, move.id, TransitionEvent.PASSED, passed={job: {} for job in move.left})
    take(manager.changes.moves, move.id, TransitionEvent.BEGUN)
    return frozenset(step.instance for step in move.steps)


def test_running_dags_that_share_nothing_move_one_after_the_other(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks that stand still at a time are limited; each moves once, and in the end nothing is scattered."""
    monkeypatch.setattr(choice, "MOST_TOGETHER", 2 * TOGETHER - 1)
    chooser = Chooser(manager.seen)
    done = frozenset[Instance]()
    for _ in SOURCES:
        before = homes(manager)
        stood = moved(manager, chooser)
        assert TOGETHER == len(stood)
        assert not stood & done
        assert all(home == before[task] for task, home in homes(manager).items() if task not in stood)
        done |= stood
    assert done == homes(manager).keys()
    assert frozenset() == moved(manager, chooser)


def test_few_tasks_move_together(manager: Manager) -> None:
    """One move is quicker than several, and unshared running DAGs may share a job."""
    assert homes(manager).keys() == moved(manager, Chooser(manager.seen))
    assert 1 == len({home.job for home in homes(manager).values()})
