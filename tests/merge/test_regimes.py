"""Which of sharing, packing and defragmenting saves most: by how much work a batch holds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merge import Regime

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
