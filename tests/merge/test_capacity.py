"""Capacity by example: which figures are right, and when one job shall run tasks together."""

import math

import pytest

from merge import Costs
from merge.capacity import Beat, refuse, wrong_figure

COSTS = Costs(pace=2.0, batch=0.25, busy={})
"""A job fits up to 3/8 of a core, and its pace bears 27/40."""


@pytest.mark.parametrize(
    ("work", "busiest", "expected"),
    [
        pytest.param(0.375, 0.1, True, id="within capacity"),
        pytest.param(0.4, 0.375, False, id="beyond it, with no task that is alone"),
        pytest.param(0.4, 0.4, True, id="only one that is beyond it alone"),
        pytest.param(0.7, 0.7, True, id="the same beyond what the pace bears"),
        pytest.param(0.67, 0.4, True, id="with others as far as the pace bears them"),
        pytest.param(0.68, 0.4, False, id="and no further"),
    ],
)
def test_a_job_shall_hold(work: float, busiest: float, expected: bool) -> None:  # noqa: FBT001 - it is a column of the table
    """What fits, and else a task beyond any capacity, with idle others or bearable ones."""
    assert expected is COSTS.holds(work, busiest)


@pytest.mark.parametrize(
    ("figure", "whole", "expected"),
    [
        (0, False, ()),
        (0.5, False, ()),
        (1_000_000, True, ()),
        (1_000_000.0, False, ()),
        (-0.1, False, ("f is -0.1; give a number from 0 to 1,000,000",)),
        (1_000_000.5, False, ("f is 1000000.5; give a number from 0 to 1,000,000",)),
        (math.nan, False, ("f is nan; give a number from 0 to 1,000,000",)),
        (True, False, ("f is True; give a number from 0 to 1,000,000",)),
        ("1", False, ("f is '1'; give a number from 0 to 1,000,000",)),
        (0.5, True, ("f is 0.5; give a whole number from 0 to 1,000,000",)),
        (True, True, ("f is True; give a whole number from 0 to 1,000,000",)),
        (10**30, True, (f"f is {10**30}; give a whole number from 0 to 1,000,000",)),
        (10**30 + 1, True, ("f is a number of 100 bits; give a whole number from 0 to 1,000,000",)),
        (-(10**31), False, ("f is a number of 103 bits; give a number from 0 to 1,000,000",)),
    ],
)
def test_figures(figure: object, whole: bool, expected: tuple[str, ...]) -> None:  # noqa: FBT001 - likewise
    """Both ends are right, what is no number is not, and a number of very many digits is not written out."""
    assert expected == wrong_figure("f", figure, whole=whole)


def test_bounds_of_a_figure() -> None:
    """They may be others than the usual ones, and belong to it."""
    assert [(), ()] == [wrong_figure("f", figure, least=1.5, most=2.5) for figure in (1.5, 2.5)]
    assert ("f is 1; give a number from 1.5 to 2",) == wrong_figure("f", 1, least=1.5, most=2.4)


def test_impossible_costs_are_refused() -> None:
    """With all that is wrong at once; a pace is divided by, so it is never 0."""
    with pytest.raises(ValueError, match="no costs") as refused:
        Beat(pace=0.0, batch=-1)
    assert (
        "these are no costs: pace is 0.0; give a number from 1e-06 to 1,000,000; "
        "batch is -1; give a number from 0 to 1,000,000"
    ) == str(refused.value)
    Beat(pace=1e-6, batch=0.0)
    refuse("nothing", ())
