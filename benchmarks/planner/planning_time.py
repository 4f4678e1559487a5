"""Planning time over steps, alternatives and joins, as the paper generates them."""

import math
import statistics
import time
from collections.abc import Sequence

from benchmarks.instruments import Figures
from dags.vocabulary import Criterion
from planning.constraint import Equals
from planning.planner import find_plan
from planning.problem import Goal, Inflow, Meeting, Option, Outlet, PlanningProblem, StateVariable, Vertex

STEPS = (1, 2, 4, 8, 16, 32, 64, 100, 200)
ALTERNATIVES = (1, 2, 5, 10, 20, 35, 50)
JOINS = (1, 2, 4, 8, 16, 32, 50)
_STEPS_OF_ALTERNATIVES = 4
_NOTHING = Option(name="nothing", is_no_op=True)
_CRITERIA = (Criterion.COST, Criterion.NO_OPS)


def planning_time(*, quick: bool) -> Figures:
    """Milliseconds of planning, the median of some, and how they grow; of CPU, because the planner uses one core."""
    times = 3 if quick else 9
    every = 3 if quick else 1
    figures: Figures = {
        "steps_ms": {n: _median(_chain(n, 1), times) for n in STEPS[::every]},
        "alternatives_ms": {n: _median(_chain(_STEPS_OF_ALTERNATIVES, n), times) for n in ALTERNATIVES[::every]},
    }
    for meeting in Meeting:
        figures[f"joins_{meeting}_ms"] = {n: _median(joined_steps(n, meeting), times) for n in JOINS[::every]}
    return figures | {"growth": {name: _growth(taken) for name, taken in figures.items() if name != "alternatives_ms"}}


def _median(problem: PlanningProblem, times: int) -> float:
    taken = []
    for _ in range(times):
        begun = time.process_time()
        plan = find_plan(problem, _CRITERIA)
        taken.append(time.process_time() - begun)
        if plan is None or not plan.is_optimal:
            raise RuntimeError("a generated pipeline has no best plan")
    return round(statistics.median(taken) * 1_000, 1)


def _growth(taken: dict[int, float]) -> float:
    """The exponent of the growth: the slope of a line through the logarithms, from 8 on."""
    points = [(math.log(n), math.log(milliseconds)) for n, milliseconds in taken.items() if n >= 8]  # noqa: PLR2004 - below, calls cost more than planning
    logs, times = [log for log, _ in points], [taken for _, taken in points]
    return round(statistics.linear_regression(logs, times).slope, 2) if len(points) > 1 else math.nan


def _modules(steps: int, alternatives: int = 1) -> tuple[Option, ...]:
    made = [
        Option(
            name=f"m{at}.{other}",
            requires={"in": Equals("step", str(at))},
            ensures=Equals("step", str(at + 1)),
            cost=1,
        )
        for at in range(steps)
        for other in range(alternatives)
    ]
    return (_NOTHING, *made)


def _problem(steps: int, vertices: Sequence[Vertex], end: tuple[Outlet, ...]) -> PlanningProblem:
    domain = frozenset({"null", *(str(at) for at in range(steps + 1))})
    return PlanningProblem(
        variables=(StateVariable(name="step", domain=domain),),
        given={Outlet("source"): {"step": "0"}},
        vertices=tuple(vertices),
        goals=(Goal(name="all steps", holds=Equals("step", str(steps)), streams=end),),
    )


def _chain(steps: int, alternatives: int) -> PlanningProblem:
    modules, last, vertices = _modules(steps, alternatives), Outlet("source"), []
    for at in range(steps):
        vertices.append(Vertex(id=f"p{at}", inputs=(Inflow("in", (last,)),), options=modules))
        last = Outlet(f"p{at}")
    return _problem(steps, vertices, (last,))


def joined_steps(joins: int, meeting: Meeting) -> PlanningProblem:
    """A problem of two steps beside each other, then a join, and so on."""
    modules, vertices = _modules(joins), list[Vertex]()
    last: tuple[Outlet, ...] = (Outlet("source"),)
    for at in range(joins):
        pair = [
            Vertex(id=f"p{at}{side}", inputs=(Inflow("in", last),), options=modules, meeting=meeting) for side in "ab"
        ]
        vertices += pair
        last = tuple(stream for vertex in pair for stream in vertex.streams())
    end = Vertex(id="end", inputs=(Inflow("in", last),), options=(Option(name="end"),), meeting=meeting)
    return _problem(joins, [*vertices, end], end.streams())
