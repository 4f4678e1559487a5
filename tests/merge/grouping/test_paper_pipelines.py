"""The pipelines of the benchmark: whatever cuts them, the jobs that it runs are plans that hosts take."""

from itertools import pairwise, product

import pytest

from benchmarks.placement.baselines import at_random
from benchmarks.placement.pipelines import TERMINATOR, PaperPipeline
from engine.plan_messages import read_plan, written_plan
from merge.grouping import GROUPING_STRATEGIES, Effort

PIPELINES = [PaperPipeline(lines=lines, special=special, step=2) for lines, special in product((1, 3), (2, 4))]


@pytest.mark.parametrize("strategy", ["random", "node", "connection", "hybrid", "optimal"])
@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.name)
def test_groups_become_plans(strategy: str, pipeline: PaperPipeline) -> None:
    """Each task that computes and the terminator have one slot; what one job forwards is what others take."""
    problem = pipeline.problem()
    groups = (at_random(problem) if strategy == "random" else GROUPING_STRATEGIES[strategy](problem, Effort())).groups
    plans = pipeline.plans(groups, run=7)
    assert plans == [read_plan(written_plan(plan)) for plan in plans]
    assert list(range(701, 701 + TERMINATOR)) == sorted(slot.instance for plan in plans for slot in plan.slots)
    forwarded = {f"bridge/{each.instance}:out" for plan in plans for each in plan.forwards}
    assert forwarded == {stream for plan in plans for stream in plan.bridged}
    assert 1 == sum(len(plan.deliveries) for plan in plans)


def test_work_grows_along_a_line_as_in_the_paper() -> None:
    """By the squared golden ratio where each task is two steps further, and it begins anew in each of three lines."""
    line, three = (PaperPipeline(lines=lines, special=2, step=2) for lines in (1, 3))
    squares = [line.iterations(task) ** 2 for task in range(8, 13)]
    assert [pytest.approx(2.618, rel=0.1)] * 4 == [after / before for before, after in pairwise(squares)]
    assert [three.iterations(task) for task in range(1, 5)] == [three.iterations(task) for task in range(9, 13)]
