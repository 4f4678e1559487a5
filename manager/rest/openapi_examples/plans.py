"""Examples of plans."""

from manager.answers import FallbackAnswer, FigureAnswer, GoalAnswer, PlaceAnswer, PlanAnswer, ReplanAnswer, ReplanKind
from manager.rest.openapi_examples.reconfigurations import RECONFIGURATION
from planning.planning_problem import Criterion

PLAN = PlanAnswer(
    places=(
        PlaceAnswer(id="clean", module="plausible@2", alternatives=("median@1",)),
        PlaceAnswer(id="convert", module=None),
    ),
    goals=(GoalAnswer(goal="/goals/0", rests_on=("clean",)),),
    figures=(
        FigureAnswer(criterion=Criterion.CHANGES, value=1, bound=1),
        FigureAnswer(criterion=Criterion.COST, value=120, bound=120),
    ),
    optimal=True,
    document={
        "version": 1,
        "name": "street",
        "tasks": [
            {"id": "source", "type": "source", "config": {"source": "street"}},
            {
                "id": "clean",
                "type": "range_filter",
                "config": {"field": "temperature", "min": -20, "max": 45},
                "module": "plausible@2",
            },
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "source", "to": "clean"}, {"from": "clean", "to": "out"}],
    },
    fallbacks=(FallbackAnswer(module="plausible@2", places=(PlaceAnswer(id="clean", module="median@1"),)),),
)
REPLANNED = ReplanAnswer(
    dataflow="d-5f0a41c2b7de",
    how=ReplanKind.RECONFIGURATION,
    plan=PLAN,
    changed=("clean",),
    reconfiguration=RECONFIGURATION,
)
