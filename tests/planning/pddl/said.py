"""Planning problems that PDDL can say."""

from dataclasses import replace

from hypothesis import strategies as st

from planning.constraint import Constraint, Equals, Not
from planning.planning_problem import Goal, Inflow, Meeting, Option, Outlet, PlanningProblem, StateVariable, Vertex
from tests.planning.problems import problems


def said_problems() -> st.SearchStrategy[PlanningProblem]:
    """Problems in which no vertex holds the same as another."""
    return problems().map(_without_same)


def _without_same(problem: PlanningProblem) -> PlanningProblem:
    return replace(problem, vertices=tuple(replace(vertex, same="") for vertex in problem.vertices))


def streets() -> PlanningProblem:
    """A street whose noise shall not be unset, joined with another."""
    one, two = Outlet("street"), Outlet("Lane")
    quiet: Constraint = Not(Equals("noise", "null"))
    clean = Vertex(
        id="clean",
        inputs=(Inflow("in", (one,)),),
        options=(Option(name="smooth@1", requires={"in": Equals("kind", '"float"')}, ensures=quiet, cost=5),),
    )
    join = Vertex(
        id="join",
        inputs=(Inflow("in", (Outlet("clean"), two)),),
        options=(Option(name="join"),),
        meeting=Meeting.EITHER,
    )
    return PlanningProblem(
        variables=(
            StateVariable(name="noise", domain=frozenset({"null", '"low"', '"high"'})),
            StateVariable(name="kind", domain=frozenset({"null", '"float"'}), is_type=True),
        ),
        given={one: {"kind": '"float"'}, two: {"kind": '"float"'}},
        vertices=(clean, join),
        goals=(Goal(name="/goals/0", holds=quiet, streams=(Outlet("join"),)),),
    )
