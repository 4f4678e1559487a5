"""Estimates and work: what a task is taken to need, and which of sharing and packing saves most."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merge import (
    ASSUMED_BUSY,
    Basis,
    Conditions,
    Host,
    Instance,
    Jobs,
    MeasuredCosts,
    Regime,
    RunningGraph,
    Submit,
    decide,
)
from merge.work import EVENT_SECONDS, LEAST_BUSY, TaskEstimate, estimated, placed_busy
from tests.notation import flow
from tests.strategies import START

CHAIN = flow("s:source > a:map > b:count > k:sink")
AT = CHAIN.places
HOST = Host(name="h", cores=8.0)


def estimates(measured: MeasuredCosts, **runs: int) -> dict[str, TaskEstimate]:
    """The estimate of each task of the chain, of which some run as these instances."""
    instances: list[Instance | None] = [None] * len(CHAIN.tasks)
    for task, instance in runs.items():
        instances[AT[task]] = Instance(instance)
    found = estimated(CHAIN, instances, measured)
    return {task: found[AT[task]] for task in AT}


def test_a_task_that_runs_is_measured_where_it_runs() -> None:
    """Whatever others of its type cost, and however few of its sources' events come to it."""
    measured = MeasuredCosts(busy={2: 0.05}, by_type={"map": 9.0}, rates={"weather": 100.0})
    found = estimates(measured, a=2)["a"]
    assert (0.05, Basis.MEASURED) == (found.busy, found.basis)


def test_the_type_stands_in_for_a_task_that_would_start() -> None:
    """The cost of an event to its type, times the events of its source that come to it."""
    measured = MeasuredCosts(
        by_type={"map": 0.001, "count": 0.002}, rates={"weather": 100.0}, selectivity={2: Fraction(1, 4)}
    )
    found = estimates(measured, a=2)
    assert pytest.approx(0.1) == found["a"].busy
    assert pytest.approx(0.05) == found["b"].busy
    assert {Basis.TYPE} == {found["a"].basis, found["b"].basis}


def test_what_was_not_measured_is_assumed() -> None:
    """An event costs something to a type that never ran; of an unknown source not even the rate is known."""
    known = estimates(MeasuredCosts(rates={"weather": 100.0}))["b"]
    unknown = estimates(MeasuredCosts(rates={"traffic": 100.0}))["b"]
    assert (EVENT_SECONDS * 100.0, Basis.ASSUMED, True) == (known.busy, known.basis, known.known)
    assert (ASSUMED_BUSY, Basis.ASSUMED, False) == (unknown.busy, unknown.basis, unknown.known)


def test_events_that_meet_add_up() -> None:
    """An unknown source sends one event, so that a task where streams meet counts more than those above it."""
    meets = flow("s:source > a:map > k:sink s > b:map{'add': 1} > k t:source{'source': 'traffic'} > b")
    found = estimated(meets, [None] * len(meets.tasks), MeasuredCosts())
    assert {"a": 1.0, "b": 2.0, "k": 3.0} == {
        task: found[meets.places[task]].busy / ASSUMED_BUSY for task in ("a", "b", "k")
    }


@pytest.mark.parametrize(
    ("busy", "basis", "known", "placed"),
    [
        (0.25, Basis.MEASURED, True, 0.25),
        (0.25, Basis.MEASURED, False, 0.25),
        (0.1, Basis.TYPE, True, round(0.1 * 2**20) / 2**20),
        (1e-9, Basis.TYPE, True, LEAST_BUSY),
        (3 * ASSUMED_BUSY, Basis.ASSUMED, False, ASSUMED_BUSY),
    ],
)
def test_placement_counts_in_exact_parts(busy: float, basis: Basis, *, known: bool, placed: float) -> None:
    """Sums of them are the same in any order; a task counts for something in any case."""
    assert placed == placed_busy(TaskEstimate(busy=busy, basis=basis, known=known))


@pytest.mark.parametrize(("rate", "jobs"), [(None, 1), (1.0, 1), (400.0, 2), (1_000.0, 4)])
def test_what_starts_is_placed_by_what_was_measured(rate: float | None, jobs: int) -> None:
    """The faster the source, the fewer of the same tasks one job takes; a count costs a thousandth of a second."""
    text = "s:source > a:count{'by': 'place'} > k:sink s > b:count{'by': 'value'} > k"
    measured = MeasuredCosts(by_type={"count": 0.001}, rates={} if rate is None else {"weather": rate})
    conditions = Conditions(now=START, hosts=(HOST,), measured=measured)
    step = decide(RunningGraph(), Jobs(), Submit(dataflow=flow(text)), conditions)
    assert jobs == len(step.opens)


SCATTERED = Regime(dataflows=20.0, work=0.2, shared=0.15, jobs=20.0, bridges=10.0, pace=10.0, batch=0.06, bridge=0.001)
"""A batch costs 60 ms and holds 100 ms of work, of which sharing saves a quarter."""


def test_each_saves_what_it_is_for() -> None:
    """Sharing work, less its bridges; packing the batches of all jobs but one; defragmenting those and the bridges."""
    found = SCATTERED.saves
    assert 0.1 == pytest.approx(SCATTERED.per_batch)
    assert 0.05 - 0.01 == pytest.approx(found.sharing)
    assert 19 * 0.006 == pytest.approx(found.packing)
    assert 19 * 0.006 + 0.01 == pytest.approx(found.defragmenting)
    assert "defragmenting" == found.most
    assert 0.05 - 0.01 + 3 * 0.006 == pytest.approx(replace(SCATTERED, jobs=17.0, spared=3.0).saves.sharing)


def test_sharing_counts_most_beyond_the_crossover_and_packing_before_it() -> None:
    """With little work in a batch sharing costs more than it saves."""
    over = SCATTERED.crossover
    assert over is not None
    before, after = (SCATTERED.at(times * over).saves for times in (0.99, 1.01))
    assert before.packing > before.sharing
    assert after.sharing > after.packing
    assert SCATTERED.at(0.001).saves.sharing < 0.0


def test_full_jobs_cannot_be_packed() -> None:
    """A job may be busy for half its pace, so that much work needs many of them."""
    assert 0.0 == SCATTERED.at(8.0).saves.packing
    assert SCATTERED.at(0.1).saves.packing > SCATTERED.at(1.0).saves.packing > 0.0


def test_where_nothing_is_shared_sharing_never_comes_to_count() -> None:
    """And where nothing runs nothing saves anything."""
    assert None is replace(SCATTERED, shared=SCATTERED.work).crossover
    nothing = replace(SCATTERED, dataflows=0.0, work=0.0, shared=0.0, jobs=0.0, bridges=0.0)
    assert "" == nothing.saves.most
    assert (0.0, 0.0, None) == (nothing.per_batch, nothing.at(1.0).work, nothing.crossover)


@given(
    dataflows=st.integers(1, 1_000),
    kept=st.floats(0.0, 1.0),
    jobs=st.integers(1, 1_000),
    bridges=st.integers(0, 1_000),
    one=st.floats(1e-4, 5.0),
    other=st.floats(1e-4, 5.0),
)
def test_what_sharing_is_ahead_grows_with_the_work(  # noqa: PLR0913 - what a regime is made of
    *, dataflows: int, kept: float, jobs: int, bridges: int, one: float, other: float
) -> None:
    """So there is at most one crossover."""
    regime = replace(
        SCATTERED, dataflows=dataflows, work=1.0, shared=kept, jobs=jobs, spared=dataflows - jobs, bridges=bridges
    )
    less, more = sorted((one, other))
    assert regime.at(less).ahead <= regime.at(more).ahead + 1e-9
