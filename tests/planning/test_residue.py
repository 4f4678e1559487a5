"""The residue: what the planner says has to be started is what merging starts, and no plan starts less."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planning.planner import find_plan
from planning.problem import Criterion
from tests.planning.merged_residue import doubled, merged_problem


def _hold(seed: int) -> None:
    merged = merged_problem(seed)
    fewest = min((found for each in merged.choices() if (found := merged.residue(each)) is not None), default=None)
    impossible = tuple(
        {vertex: option.name for vertex, option in each.items()}
        for each in merged.choices()
        if doubled(merged.problem, each)
    )
    problem = merged.problem_without(impossible)
    plan = find_plan(problem, (Criterion.RESIDUE,))
    if plan is None:
        assert fewest is None
        return
    options = {
        vertex.id: next(each for each in vertex.options if each.name == plan.options[vertex.id])
        for vertex in problem.vertices
    }
    (reached,) = plan.reached
    assert (fewest, fewest, fewest, True) == (
        merged.residue(options),
        reached.value,
        reached.bound,
        plan.is_optimal,
    )


@settings(max_examples=60)
@given(st.integers(0, 2**32))
@example(37)
@example(61)
@example(124)
def test_the_residue_is_what_merging_starts(seed: int) -> None:
    """With places that hold nothing where streams meet, tasks that are not shared, and something running already."""
    _hold(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_residues_are_what_merging_starts(part: int) -> None:
    """The same, of thousands."""
    for seed in range(part * 500, (part + 1) * 500):
        _hold(seed)
