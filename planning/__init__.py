"""Planning: what fills the open places of pipelines so that types fit and goals hold.

Pure, beside `merge`: it knows documents and task types, but neither what runs nor how.
"""

from planning.constraint import All, Constraint, Equals, Not, Same, Some
from planning.plan import Figure, OutOfTime, Plan
from planning.planner import find_plan
from planning.problem import Action, Criterion, Goal, Input, Meeting, Problem, RunningStep, Step, Stream, Variable
from planning.validator import violations

__all__ = [
    "Action",
    "All",
    "Constraint",
    "Criterion",
    "Equals",
    "Figure",
    "Goal",
    "Input",
    "Meeting",
    "Not",
    "OutOfTime",
    "Plan",
    "Problem",
    "RunningStep",
    "Same",
    "Some",
    "Step",
    "Stream",
    "Variable",
    "find_plan",
    "violations",
]
