"""Learnt costs: they are stored regularly, and the next leading manager knows them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from manager.costs.choice import WRITE_EVERY, Chooser
from manager.costs.measured import (
    ASSUMED,
    FEWEST_DISRUPTIONS,
    FEWEST_SAMPLES,
    SHORTEST_SAMPLE,
    LearntCosts,
    LearntCostStore,
)
from manager.kernel.transitions import Ended, Phase
from manager.observations.reports import HostSeen
from manager.store.tables import LearntRow
from tests.manager.managers import Manager

NAME = "one"
NOW = datetime(2024, 3, 1, tzinfo=UTC)


class Learning:
    """A manager that looks at a host without jobs that takes a third of a core."""

    def __init__(self, manager: Manager, name: str = NAME) -> None:
        self.now = 0.0
        self._manager = manager
        self.chooser = Chooser(manager.seen, LearntCostStore(manager.store, name), clock=lambda: self.now)
        self.chooser.recall()

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += SHORTEST_SAMPLE
            host = HostSeen(host="north", alive=True, cpu={"driver": self.now / 3}, seen=NOW)
            self._manager.seen.every_host = (host,)
            self.chooser.learn({})


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    made = Manager(sqlite, NAME).lead()
    yield made
    made.close()


def written(manager: Manager) -> LearntCosts:
    return LearntCostStore(manager.store, NAME).read()


def test_prices_and_disruptions_are_known_after_a_restart(manager: Manager) -> None:
    """A restarted manager uses the costs that the one before it had measured."""
    learning = Learning(manager)
    learning.look(FEWEST_SAMPLES + 1)
    for move in range(FEWEST_DISRUPTIONS):
        learning.chooser.remember(Ended(move=move, phase=Phase.DONE, opened=1, interruption=7.0))
    learning.look()
    again = Learning(manager)
    assert learning.chooser.paid() == again.chooser.paid()
    assert ASSUMED != again.chooser.paid()[0]
    with manager.committer.looking() as state:
        picture = again.chooser.snapshot(state, manager.committer.ground)
    assert 7.0 == picture.costs.interruption


def test_samples_are_stored_regularly(manager: Manager) -> None:
    """They are not stored at each look."""
    learning = Learning(manager)
    learning.look(2)
    assert 1 == written(manager).calibration.samples
    looks = int(WRITE_EVERY / SHORTEST_SAMPLE)
    learning.look(looks - 1)
    assert 1 == written(manager).calibration.samples
    learning.look()
    assert 1 + looks == written(manager).calibration.samples


def test_a_manager_that_does_not_lead_stores_nothing(manager: Manager) -> None:
    """The leading manager has newer costs."""
    Learning(manager, "another").look(2)
    assert LearntCosts() == written(manager)


@pytest.mark.parametrize(
    "costs",
    [{"calibration": {"samples": "many"}}, {"calibration": {"samples": 50, "taken": [1.0], "products": [[1.0]]}}],
)
def test_costs_of_another_release_are_learnt_anew(manager: Manager, costs: dict[str, Any]) -> None:
    """They cause no error."""
    with manager.store.write() as session:
        session.add(LearntRow(at=0.0, costs=costs))
    assert LearntCosts() == written(manager)
