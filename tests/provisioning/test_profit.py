"""What value is worth, what machines cost, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.figures import HOUR, DataflowFigures, ProfitGoal, Rental, TaskFigures, union
from tests.provisioning.scenes import CHAIN, SMALL, task


def test_both_break_even_points_are_a_profit_of_nothing() -> None:
    """The best alternates at the most they may cost, the worst at theirs."""
    goal = ProfitGoal(best_cost=60.0, least_cost=30.0)
    assert goal.theta(CHAIN, 1.0, 60.0) == pytest.approx(0)
    assert goal.theta(CHAIN, CHAIN.least_gamma(), 30.0) == pytest.approx(0)
    assert goal.theta(CHAIN, 1.0, 59.0) > 0


@given(st.floats(1, 10 * HOUR))
def test_started_hours_are_paid(seconds: float) -> None:
    """Each counts from its beginning, and what is left of it is known."""
    rental = Rental(number=0, machine_class=SMALL)
    hours = rental.cost(seconds) / SMALL.price
    assert hours == pytest.approx(round(hours))
    assert hours * HOUR >= seconds - 1e-3
    assert (hours - 1) * HOUR < seconds
    assert rental.paid_left(seconds) == pytest.approx(hours * HOUR - seconds)


def test_an_hour_that_ends_is_not_followed_by_another_cost() -> None:
    """Who lets a machine go at its hour's end pays for that hour alone."""
    assert SMALL.price == Rental(number=0, machine_class=SMALL, since=300.0).cost(300.0 + HOUR)


def test_a_shared_task_counts_once() -> None:
    """The union of tenants has it once, with all that use it; what differs is theirs."""
    other = DataflowFigures(tasks=(*CHAIN.tasks[:2], task("alert", (1.0, 0.01, 1.0), after=("score",))))
    both = union([CHAIN, other])
    assert [("read", 2), ("score", 2), ("write", 1), ("alert", 1)] == [(one.name, one.tenants) for one in both.tasks]
    assert both.gamma((0, 1, 0, 0)) == pytest.approx(0.7)


def test_equal_names_with_unequal_figures_are_refused() -> None:
    """A name stands for what a task computes."""
    other = DataflowFigures(tasks=(task("read", (1.0, 0.5, 1.0)),))
    with pytest.raises(ValueError, match="read differs between two dataflows"):
        union([CHAIN, other])


@pytest.mark.parametrize(
    ("tasks", "match"),
    [
        ((task("a", (1.0, 1.0, 1.0), after=("b",)), task("b", (1.0, 1.0, 1.0))), "must stand before it"),
        ((task("a", (1.0, 1.0, 1.0)), task("a", (1.0, 1.0, 1.0))), "there twice"),
        ((TaskFigures(name="a", alternates=()),), "a needs an alternate; give it one"),
    ],
)
def test_figures_that_cannot_be_are_refused(tasks: tuple[TaskFigures, ...], match: str) -> None:
    """The message names the task, and what it needs."""
    with pytest.raises(ValueError, match=match):
        DataflowFigures(tasks=tasks)


@pytest.mark.parametrize(
    "goal",
    [{"omega": 0.0}, {"omega": 1.5}, {"tolerance": 0.9}, {"hours": 0.0}, {"least_cost": 60.0}],
)
def test_goals_that_nothing_can_be_judged_by_are_refused(goal: dict[str, float]) -> None:
    """A goal has a throughput, a period, and two break-even points."""
    with pytest.raises(ValueError, match=r"goal needs|worth more|this is no goal: \w+ is"):
        ProfitGoal(**{"best_cost": 60.0, "least_cost": 30.0, **goal})
