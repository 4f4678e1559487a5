"""The budget of a policy, held against the cheapest choice at the declared costs."""

from collections.abc import Iterator, Mapping

from adaptation.documents.dynamic_document import DynamicDocument
from adaptation.documents.dynamic_form import Policy
from adaptation.flow import FlowAlternate, FlowFigures, flow_of
from adaptation.guards.places import Place
from dags import Problem
from dags.problems import pointer

_MARGIN = 1.05
"""So that the remedy is enough after it was rounded."""


def budget_problems(
    dynamic: DynamicDocument, policy: Policy, rates: Mapping[str, float], at: Place
) -> Iterator[Problem]:
    """Whether no choice can keep the budget, at these rates of source tasks."""
    if policy.cores is None:
        return
    needed = _least_cores(dynamic, rates) * policy.throughput
    if needed > policy.cores:
        yield Problem(
            pointer=pointer(*at, "cores"),
            code="unattainable-budget",
            message=f"no choice can keep the budget: at the declared costs, the cheapest one needs {needed:.3g} cores",
            remedy=f"allow at least {needed * _MARGIN:.2g} cores, ask for less throughput, or add a cheaper alternate",
        )


def _least_cores(dynamic: DynamicDocument, rates: Mapping[str, float]) -> float:
    """The fewest cores that any choice may need: with the least of all figures, and guarded streams closed."""
    flow = flow_of(dynamic, FlowFigures(rates=rates))
    least = [
        FlowAlternate(
            cost=min(each.cost for each in task.alternates.values()),
            selectivity=min(each.selectivity for each in task.alternates.values()),
            value=0.0,
        )
        for task in flow.tasks
    ]
    entering = flow.entering(least, dict.fromkeys(dynamic.streams, False))
    return sum(rate * each.cost for rate, each in zip(entering, least, strict=True))
