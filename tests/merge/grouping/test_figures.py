"""Figures of groups: none leads to anything but valid groups, or an error that names it."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merge.grouping import (
    GROUPING_STRATEGIES,
    Effort,
    GroupedStream,
    GroupedTask,
    GroupingCosts,
    GroupingProblem,
    Image,
    NoGrouping,
    PresentGroup,
    problems_of,
)

_NAMES = ("work", "stays", "pace", "batch", "bridge", "hop", "second", "start", "price")
_IMAGE_NAMES = ("cores", "image_start", "image_price", "most", "there")
_ANY: st.SearchStrategy[Any] = (
    st.sampled_from([0, -1, 1, 0.5, 1e-9, 1e300, -math.inf, math.inf, math.nan, 10**400, 5e-324, True, None, "1"])
    | st.floats()
    | st.integers()
)


def _problem(figures: Mapping[str, Any]) -> GroupingProblem:
    known = {"work": 0.1, "stays": 0.1, "pace": 1.0, "batch": 0.06, "cores": 2.0, "most": 2, "there": 1} | dict(figures)
    return GroupingProblem(
        tasks=tuple(GroupedTask(id=at, work=known["work"]) for at in range(3)),
        streams=(GroupedStream(parent=0, child=1), GroupedStream(parent="s", child=2)),
        images=(
            Image(
                name="a",
                tags=frozenset(),
                cores=known["cores"],
                start=known.get("image_start", 1.0),
                price=known.get("image_price", 1.0),
                most=known["most"],
                there=known["there"],
            ),
            Image(name="b", tags=frozenset(), cores=1.0, price=2.0),
        ),
        costs=GroupingCosts(**{name: known.get(name, 0.01) for name in _NAMES[2:]}),
        present=(PresentGroup(id="job", image="a", tasks=frozenset({"s"}), work=known["stays"]),),
    )


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(_NAMES + _IMAGE_NAMES), _ANY, max_size=2), st.sampled_from(["hybrid", "node"]))
def test_any_figures_lead_to_valid_groups_or_to_an_error(figures: Mapping[str, Any], name: str) -> None:
    """A problem with whatever figures has an answer that is valid, or none with the reason."""
    _hold(figures, name)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(_NAMES + _IMAGE_NAMES), _ANY, max_size=2))
def test_any_figures_can_be_planned_or_lead_to_an_error(figures: Mapping[str, Any]) -> None:
    """The same for what the solver computes with."""
    _hold(figures, "plan")


def _hold(figures: Mapping[str, Any], name: str) -> None:
    try:
        problem = _problem(figures)
    except ValueError as wrong:
        assert "; give" in str(wrong) or "smaller figures" in str(wrong)  # noqa: PT017 - some figures are right
        return
    try:
        found = GROUPING_STRATEGIES[name](problem, Effort(seconds=0.5))
    except NoGrouping:
        return
    assert () == problems_of(problem, found.groups)
    assert math.isfinite(found.cost.total)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"pace": 0.0}, r"these are no costs: pace is 0\.0; give a number from 1e-06 to 1,000,000"),
        ({"batch": math.nan}, "these are no costs: batch is nan; give"),
        ({"cores": 0}, "no image 'a' can be: cores is 0; give"),
        ({"work": -0.1}, r"no task 0 can be: work is -0\.1; give"),
        ({"stays": math.inf}, "no present group 'job' can be: work is inf; give"),
        ({"most": 1.5}, r"no image 'a' can be: most is 1\.5; give a whole number"),
        ({"second": 1e6, "pace": 1e6}, "second comes to .* cores at worst"),
    ],
)
def test_a_wrong_figure_is_named(figures: Mapping[str, Any], said: str) -> None:
    """The message has the record, the figure and what is possible."""
    with pytest.raises(ValueError, match=said):
        _problem(figures)


def test_an_effort_is_some_time() -> None:
    """Searching for no time, or for ever, is refused."""
    for seconds in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="this is no effort: seconds is"):
            Effort(seconds=seconds)


@pytest.mark.parametrize("batch", [0.5, 0.7])
@pytest.mark.parametrize("name", sorted(GROUPING_STRATEGIES))
def test_where_batches_take_half_of_the_pace_each_task_is_alone(batch: float, name: str) -> None:
    """A group has no room for work then, so each task that works has one to itself."""
    tasks = tuple(GroupedTask(id=at, work=0.1) for at in range(3))
    image = Image(name="a", tags=frozenset(), cores=2.0)
    problem = GroupingProblem(tasks=tasks, streams=(), images=(image,), costs=GroupingCosts(pace=1.0, batch=batch))
    found = GROUPING_STRATEGIES[name](problem, Effort(seconds=0.5))
    assert [(0,), (1,), (2,)] == sorted(group.tasks for group in found.groups)
