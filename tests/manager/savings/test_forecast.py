"""The forecast of a saving, and the estimates that it rests on."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.savings.use_cases import saving
from merge import Basis, Instance, MeasuredCosts
from merge.work import EVENT_SECONDS
from tests.notation import flow

CHAIN = flow("s:source > a:map > b:count > k:sink")
NOTHING = flow("s:source > k:sink")


def instances(*running: str) -> list[Instance | None]:
    """Return the instances of the chain, of whose tasks these run."""
    found: list[Instance | None] = [None] * len(CHAIN.tasks)
    for task in running:
        found[CHAIN.places[task]] = Instance(CHAIN.places[task] + 1)
    return found


def test_only_running_tasks_save_something() -> None:
    """New tasks save nothing, and a source does no work."""
    measured = MeasuredCosts(busy={CHAIN.places["a"] + 1: 0.05, CHAIN.places["s"] + 1: 9.0})
    found = saving(CHAIN, instances("s", "a"), measured, opened=1, job=0.06)
    assert (0.05, 0.0) == (found.cores_by_sharing, found.cores_by_packing)
    assert (2, 4) == (found.tasks, found.of_tasks)
    assert {Basis.MEASURED: 1, Basis.TYPE: 0, Basis.ASSUMED: 0} == found.rests_on
    assert {Basis.MEASURED: 1, Basis.TYPE: 0, Basis.ASSUMED: 2} == found.work_rests_on


@pytest.mark.parametrize(("opened", "cores"), [(0, 0.06), (1, 0.0), (2, 0.0)])
def test_a_dataflow_that_opens_no_job_saves_its_batches(opened: int, cores: float) -> None:
    """By packing, even if no task is reused; then nothing is said of sharing."""
    found = saving(CHAIN, instances(), MeasuredCosts(), opened=opened, job=0.06)
    assert (cores, None, None) == (found.cores_by_packing, found.cores_by_sharing, found.work_by_sharing)


@given(st.lists(st.sampled_from(["a", "b", "k"]), unique=True), st.integers(0, 2))
def test_a_saving_is_the_sum_over_the_reused_tasks(reused: list[str], opened: int) -> None:
    """Each reused task adds its load, and counts for its kind of estimate."""
    measured = MeasuredCosts(busy={CHAIN.places["b"] + 1: 0.5}, by_type={"map": 0.001}, rates={"weather": 10.0})

    def cores(*running: str) -> float:
        return saving(CHAIN, instances(*running), measured, opened=opened, job=0.06).cores_by_sharing or 0.0

    assert sum(map(cores, reused)) == pytest.approx(cores(*reused))
    found = saving(CHAIN, instances(*reused), measured, opened=opened, job=0.06)
    assert len(reused) == sum(found.rests_on.values())


def test_the_work_saved_is_the_part_of_reused_tasks() -> None:
    """New tasks are estimated from their type and their events."""
    a = CHAIN.places["a"] + 1
    measured = MeasuredCosts(
        busy={a: 0.5}, by_type={"count": 0.001}, rates={"weather": 100.0}, selectivity={a: Fraction(4)}
    )
    found = saving(CHAIN, instances("s", "a"), measured, opened=1, job=0.06)
    sink = 400 * EVENT_SECONDS
    assert round(0.5 / (0.5 + 0.4 + sink), 6) == found.work_by_sharing
    assert {Basis.MEASURED: 1, Basis.TYPE: 1, Basis.ASSUMED: 1} == found.work_rests_on


def test_without_work_no_part_of_it_is_saved() -> None:
    """Events that cost nothing leave nothing to save."""
    measured = MeasuredCosts(by_type={"sink": 0.0}, rates={"weather": 10.0})
    assert saving(NOTHING, [None, None], measured, opened=1, job=0.06).work_by_sharing is None
