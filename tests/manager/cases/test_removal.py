"""What a removal is said to do: as it then does, and nothing of others but a count."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manager.answers.dataflows import Stop
from manager.problem import Conflict, NotFound
from manager.use_case import Paging
from tests.manager.cases.pages import every
from tests.manager.managers import OPERATOR, Manager, caller

ANN, BOB = caller("ann"), caller("bob")
LONG = "s:source > w:window > k:sink"
LONGER = "s:source > w:window > x:map > k:sink w > l:sink"
FLOWS = (
    LONG,
    LONGER,
    "s:source > m:map > k:sink",
    "s:source > w:window > x:map > z:window > k:sink",
    "s:source > w:window > y:map{'add': 7} > k:sink",
    "s:source > k:sink",
)


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    # A job for each dataflow, so that what they share crosses jobs.
    made = Manager(sqlite, strategy="launch").lead()
    made.admit("ann", "bob")
    made.register("weather", "traffic", "power")
    yield made
    made.close()


def test_what_nobody_else_needs_stops(manager: Manager) -> None:
    """Of a dataflow that runs by itself everything; of one that shares only the rest, and the streams to that end."""
    first = manager.submit("ann", LONG)
    alone = manager.service.dataflows.preview_removal(ANN, first)
    assert ({"k", "s", "w"}, 0, ()) == ({task.id for task in alone.stops}, alone.goes_on, alone.streams)
    second = manager.submit("bob", "s:source > w:window > x:map > l:sink")
    shared = manager.service.dataflows.preview_removal(BOB, second)
    assert ({"x", "l"}, 2) == ({task.id for task in shared.stops}, shared.goes_on)
    assert [("w", "out")] == [(stream.task, stream.port) for stream in shared.streams]
    assert shared == manager.service.dataflows.preview_removal(OPERATOR, second)
    manager.submit("ann", "s:source > w:window > y:map{'add': 7} > k:sink")
    assert () == manager.service.dataflows.preview_removal(BOB, second).streams


def test_only_its_owner_and_operators_see_it(manager: Manager) -> None:
    """To others it is not there, and one that was removed has nothing to stop."""
    first = manager.submit("ann", LONG)
    with pytest.raises(NotFound):
        manager.service.dataflows.preview_removal(BOB, first)
    manager.service.dataflows.remove(ANN, first, Stop.NOW)
    with pytest.raises(Conflict, match="was removed"):
        manager.service.dataflows.preview_removal(ANN, first)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(FLOWS), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_it_comes_as_it_was_previewed(manager: Manager, flows: list[str], random: Random) -> None:
    """Whatever runs: the tasks that stop and the streams that end are those that were named, and no others."""
    submitted = [manager.submit("ann" if number % 2 else "bob", flow) for number, flow in enumerate(flows)]
    random.shuffle(submitted)
    for dataflow in submitted:
        preview = manager.service.dataflows.preview_removal(OPERATOR, dataflow)
        tasks, streams = _tasks(manager), _streams(manager)
        assert preview == manager.service.dataflows.preview_removal(OPERATOR, dataflow)
        manager.service.dataflows.remove(OPERATOR, dataflow, Stop.NOW)
        assert tasks - _tasks(manager) == {task.instance for task in preview.stops}
        assert streams - _streams(manager) == {(stream.instance, stream.port) for stream in preview.streams}


def _tasks(manager: Manager) -> set[int]:
    tasks = every(lambda paging: manager.service.running.tasks(OPERATOR, paging), 100)
    return {task.instance for task in tasks}


def _streams(manager: Manager) -> set[tuple[int, str]]:
    return {
        (stream.instance, stream.port) for stream in manager.service.running.streams(OPERATOR, Paging(limit=500)).items
    }
