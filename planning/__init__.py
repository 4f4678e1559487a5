"""Planning: what fills the open places of pipelines so that types fit and goals hold.

Pure, beside `merge`: it knows documents and task types, but neither what runs nor how.
"""

from planning.constraint import All, Constraint, Equals, Not, Same, Some
from planning.pipeline_plan import OutOfTime, PipelinePlan, Reached
from planning.planner import find_plan
from planning.planning_problem import (
    Criterion,
    Goal,
    Inflow,
    Meeting,
    Option,
    Outlet,
    PlanningProblem,
    RunningVertex,
    StateVariable,
    Vertex,
)
from planning.validator import violations

__all__ = [
    "All",
    "Constraint",
    "Criterion",
    "Equals",
    "Goal",
    "Inflow",
    "Meeting",
    "Not",
    "Option",
    "OutOfTime",
    "Outlet",
    "PipelinePlan",
    "PlanningProblem",
    "Reached",
    "RunningVertex",
    "Same",
    "Some",
    "StateVariable",
    "Vertex",
    "find_plan",
    "violations",
]
