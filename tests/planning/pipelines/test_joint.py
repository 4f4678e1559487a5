"""Planning together: as good as alone for each, and never more to start in all."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.pipelines.planned import InvalidDocuments, PlannedPipeline, joint_problem, plan_pipeline, plan_together
from planning.pipelines.reader import Pipeline
from tests.planning.pipelines.open_places import check, pipeline
from tests.planning.plan_validator import violations

CLEAN = [{"holds": {"clean": True}}]
LINES = (
    "s:source > p:point{'modules': ['wipe', 'clean']} > k:sink",
    "s:source > p:point{'modules': ['clean']} > k:sink",
    "s:source > p:point > q:point{'modules': ['wipe']} > k:sink",
    "s:source > a:lab:clean > p:point > k:sink",
)


def started(plans: Sequence[PlannedPipeline]) -> int:
    """The distinct tasks of documents that begin at one source, by all that is above them."""
    found: set[object] = set()
    for each in plans:
        tasks = {task["id"]: task for task in each.assembled.document["tasks"]}
        above = {stream["to"]: stream["from"] for stream in each.assembled.document["streams"]}

        def key(name: str, tasks: dict = tasks, above: dict = above) -> object:  # type: ignore[type-arg]  # documents
            task = tasks[name]
            return task["type"], str(task.get("config", {})), key(above[name], tasks, above) if name in above else None

        found |= {key(name) for name in tasks}
    return len(found)


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=3))
def test_together_never_more_starts_than_alone(lines: list[str]) -> None:
    """And each document reaches its goals."""
    pipelines = [pipeline(each, goals=CLEAN) for each in lines]
    alone = [plan_pipeline(each, check) for each in pipelines]
    together = plan_together(pipelines, [check] * len(pipelines))
    assert started(together) <= started(alone)
    for each in together:
        assert not list(violations(each.pipeline.problem, each.plan))


def test_of_two_the_first_gives_up_what_is_cheaper() -> None:
    """Since the other cannot share it."""
    pipelines = [pipeline(each, goals=CLEAN) for each in LINES[:2]]
    assert ["wipe@1", "clean@1"] == [plan_pipeline(each, check).fillings["p"] for each in pipelines]
    assert ["clean@1"] * 2 == [each.fillings["p"] for each in plan_together(pipelines, [check] * 2)]


def test_those_without_a_plan_are_named() -> None:
    """Not the one between them, which has one."""
    without = "s:source > p:point{'modules': ['measure']} > k:sink"
    pipelines = [pipeline(each, goals=CLEAN) for each in (without, LINES[0], without)]
    with pytest.raises(InvalidDocuments) as refused:
        plan_together(pipelines, [check] * 3)
    assert {0, 2} == set(refused.value.refusals)


def test_problems_keep_apart() -> None:
    """A name in one is not that of another."""
    one: Pipeline = pipeline(LINES[0], goals=CLEAN)
    joint = joint_problem([one.problem, one.problem])
    assert 2 * len(one.problem.vertices) == len({each.id for each in joint.vertices})
    assert {"/0/goals/0", "/1/goals/0"} == {each.name for each in joint.goals}
