"""Plans of any planner become groupings, and only if they are plans for the problem."""

from collections.abc import Iterator
from dataclasses import replace

import kairos
import pytest
from hypothesis import given, settings

from merge.grouping import (
    GROUPING_STRATEGIES,
    Effort,
    GroupedStream,
    GroupedTask,
    Grouping,
    GroupingCosts,
    GroupingProblem,
    Image,
    PresentGroup,
)
from merge.grouping.layout import NANOCORES, NodeLayout
from merge.grouping.pddl import (
    PddlError,
    PddlWeights,
    exported,
    model_weights,
    name,
    planned_grouping,
    replayed,
    said,
    steps,
)
from tests.merge.grouping.problems import cheapest, grouping_problems


def plan_of(problem: GroupingProblem, grouping: Grouping) -> str:
    """The plan that makes a grouping."""
    return "\n".join(f"({' '.join(step)})" for step in _steps(NodeLayout(problem), grouping))


def _steps(layout: NodeLayout, grouping: Grouping) -> Iterator[tuple[str, ...]]:
    nodes = {task.id: node for node, task in enumerate(layout.tasks)}
    of: dict[int, str] = {}
    for at, group in enumerate(grouping.groups):
        here, image = f"group{at}", name("image", group.image)
        yield "open", here, f"group{at + 1}", image
        of |= {nodes[task]: here for task in group.tasks}
        for node in layout.order:
            if of.get(node) == here:
                yield f"put__{name('task', said(layout.tasks[node].id))}", here, image
        yield "close", here
    for at, flow in enumerate(layout.flows):
        if flow.raw:
            continue
        for group_name in sorted({of[child] for child in flow.children} - {of[flow.parent]}):
            yield f"bridge__flow{at}", group_name
        for child in flow.children:
            way = "within" if of[child] == of[flow.parent] else "over"
            yield f"{way}__flow{at}__{child}", of[child]


PAPER_WEIGHTS = {
    "node": PddlWeights(group=1000, within=5, between=5),
    "connection": PddlWeights(group=50, within=5, between=20),
}
"""Those of the paper: a group costs very much for one strategy, and a medium price for the other."""

_LONGEST_S = 60


def small() -> GroupingProblem:
    """Three tasks in a row, the middle one on another image than the others."""
    return GroupingProblem(
        tasks=(
            GroupedTask(id=1, tags=frozenset({"Gpu"}), work=0.1),
            GroupedTask(id=2, tags=frozenset({"sql"}), owner="ann"),
            GroupedTask(id="1", work=0.5),
        ),
        streams=(GroupedStream(parent=1, child=2), GroupedStream(parent=2, child="1")),
        images=(
            Image(name="Big one", tags=frozenset({"Gpu"}), cores=4.0, most=1),
            Image(name="small", tags=frozenset({"sql"}), cores=1.0),
        ),
        costs=GroupingCosts(pace=1.0, batch=0.06, bridge=0.01),
    )


def _parsed(problem: GroupingProblem, weights: PddlWeights, most_groups: int | None = None) -> kairos.Problem:
    said = exported(problem, weights, most_groups)
    return kairos.parse_problem(said.problem, kairos.parse_domain(said.domain, "domain"), "problem")


def _solved(problem: GroupingProblem, weights: PddlWeights, most_groups: int | None = None) -> str:
    options = kairos.SearchOptions()
    options.timeout = _LONGEST_S
    found = kairos.Planner().solve(_parsed(problem, weights, most_groups), options)  # type: ignore[no-untyped-call]  # the library leaves it out
    assert kairos.Status.SOLVED is found.status
    return str(found.plan)


@settings(max_examples=30)
@given(grouping_problems(present=False))
def test_a_grouping_comes_back_from_its_plan(problem: GroupingProblem) -> None:
    """Written as a plan and read again it is the same, and costs by PDDL what its groups and bridges cost."""
    found = GROUPING_STRATEGIES["hybrid"](problem, Effort())
    weights = model_weights(problem)
    plan = plan_of(problem, found)
    back = planned_grouping(problem, weights, plan)
    assert {frozenset(group.tasks): group.image for group in found.groups} == {
        frozenset(group.tasks): group.image for group in back.groups
    }
    cost = replayed(exported(problem, weights), plan).numbers["total-cost",] / NANOCORES
    assert pytest.approx(cost, abs=1e-4) == found.cost.groups + found.cost.bridges


@settings(max_examples=10)
@given(grouping_problems(present=False, most_tasks=6))
def test_another_validator_agrees(problem: GroupingProblem) -> None:
    """What Kairos makes of the texts and of the plan is what the replay makes of them."""
    found = GROUPING_STRATEGIES["connection"](problem, Effort())
    task = _parsed(problem, PAPER_WEIGHTS["connection"])
    assert kairos.validate(task, kairos.parse_plan(plan_of(problem, found))).valid


@pytest.mark.parametrize("name", ["node", "connection", "model"])
def test_another_engine_plans_small_problems(name: str) -> None:
    """A plan of Kairos is a valid grouping, never cheaper than the optimal one."""
    problem = small()
    weights = PAPER_WEIGHTS[name] if name in PAPER_WEIGHTS else model_weights(problem)
    found = planned_grouping(problem, weights, _solved(problem, weights))
    assert 3 == len(found.groups)
    assert cheapest(problem) <= found.cost.total + 1e-9


@pytest.mark.slow
@settings(max_examples=20)
@given(grouping_problems(present=False, most_tasks=4))
def test_another_engine_plans_many_problems(problem: GroupingProblem) -> None:
    """The same, of drawn ones."""
    weights = model_weights(problem)
    found = planned_grouping(problem, weights, _solved(problem, weights))
    assert cheapest(problem) <= found.cost.total + 1e-9


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("(open group0", "(enter group0", "step 1, .enter group0 group1 image___42_ig_20_one., is no action"),
        ("(close group0)", "", r"step 3, \(open group1.*as this is not so: \(idle\)"),
        ("(close group2)", "", r"ends before this is so: \(idle\)"),
        ("image__small)\n(put__task___23_2", "image___42_ig_20_one)\n(put__task___23_2", "not so: .uses group1"),
        ("(bridge__flow0 group1)", "", "not so: .bridged flow0 group1"),
        ("(close group0)", "(close image__small)", "about other things than the action takes"),
    ],
)
def test_what_is_no_plan_is_refused(before: str, after: str, why: str) -> None:
    """The message says at which step, and what is not so."""
    problem = small()
    plan = plan_of(problem, GROUPING_STRATEGIES["plan"](problem, Effort()))
    assert before in plan
    with pytest.raises(PddlError, match=why):
        planned_grouping(problem, model_weights(problem), plan.replace(before, after, 1))


def test_plans_are_read_as_planners_write_them() -> None:
    """With times and lengths, comments, capitals, or as unified-planning shows them."""
    assert (("open", "g", "i"), ("close", "g")) == steps("; found\n0.000: (OPEN g i) [1.0]\n1: ( close g )")
    assert (("open", "g", "i"), ("close", "g")) == steps("SequentialPlan:\n    open(g, i)\n    close(g)\n")


def test_what_runs_already_is_refused() -> None:
    """PDDL says no groups that are there; the message names them."""
    problem = replace(small(), present=(PresentGroup(id=7, image="small"),))
    with pytest.raises(PddlError, match="leave them out: 7"):
        exported(problem, model_weights(problem))
