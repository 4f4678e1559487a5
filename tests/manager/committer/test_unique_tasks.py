"""Reconfigurations below a task in which the pieces of an event meet again."""

from collections.abc import Iterator

import pytest

from manager.answers.reconfigurations import ReconfigurationForm, ReconfigurationScope, ReconfigurationState
from merge.reconfiguration.switches import Scheduler
from tests.manager.managers import OPERATOR, Manager, caller
from tests.unique_types import UNIQUE_TYPES

ANN = caller("ann")
FORK = "s:source > re:pass{'generation': 1}"
WAY = "fd3:pass{'generation': 2} > s1:pass{'generation': 3} > f3:pass{'generation': 4}"
OTHER_WAY = "f4:pass{'generation': 5} > fd4:pass{'generation': 6}"
MET = f"{FORK} > {WAY} > sj:once re > {OTHER_WAY} > sj"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """Each dataflow's residue has a job of its own."""
    made = Manager(sqlite, strategy="launch", catalogue=UNIQUE_TYPES).lead()
    made.admit("ann")
    made.register("weather")
    yield made
    made.close()


def spread_out(manager: Manager, join: str = "once") -> str:
    """The workflow W5 of the paper on Fries, whose fork, ways, join and task below have a job each."""
    met = MET.replace("once", join)
    for above in (FORK, f"{FORK} > {WAY}", f"{FORK} > {OTHER_WAY}"):
        manager.submit("ann", f"{above} > k:sink")
    manager.submit("ann", f"{met} sj > k:sink")
    return manager.submit("ann", f"{met} sj > e1:pass{{'generation': 7}} > k:sink")


def previewed(manager: Manager, flow: str, *tasks: str, scheduler: Scheduler = Scheduler.FRIES) -> ReconfigurationScope:
    changes: dict[str, dict[str, object]] = {task: {"config": {"generation": 9}} for task in tasks}
    form = ReconfigurationForm.model_validate({"tasks": changes, "scheduler": scheduler})
    scope = manager.service.reconfigurations.preview(OPERATOR, flow, form).scope
    assert scope is not None
    return scope


def test_a_task_below_a_unique_one_waits_for_no_other(manager: Manager) -> None:
    """A change below the join of W5 is one task in one job; by the other schedulers it is all eight, in five jobs."""
    flow = spread_out(manager)
    alone = previewed(manager, flow, "e1")
    assert ((("e1",),), 1, ()) == (tuple(part.tasks for part in alone.components), len(alone.jobs), alone.waiting)
    whole = previewed(manager, flow, "e1", scheduler=Scheduler.UNPRUNED)
    assert (("e1", "f3", "f4", "fd3", "fd4", "re", "s1", "sj"),) == tuple(part.tasks for part in whole.components)
    assert (5, 4) == (len(whole.jobs), len(whole.waiting))
    form = ReconfigurationForm.model_validate({"tasks": {"e1": {"config": {"generation": 9}}}})
    assert ReconfigurationState.SWITCHING == manager.service.reconfigurations.begin(ANN, flow, form).state


def test_a_task_below_one_that_emits_again_waits_for_all(manager: Manager) -> None:
    """By its config the same type is not unique, and pieces of one event may be on both ways."""
    flow = spread_out(manager, "once{'again': True}")
    assert 8 == len(previewed(manager, flow, "e1").components[0].tasks)
