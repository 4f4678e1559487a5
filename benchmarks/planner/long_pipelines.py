"""Long pipelines: chains of places that a repository of twenty modules may fill, while some of it runs already.

In `steps` a module is one of ten steps to the goal, with two alternatives for each; most places hold nothing. In
`fields` ten fields are to be treated, in any order that the modules allow. In `busy` every place has to hold something.
A bundle is two chains of steps below one source, where equal tasks count once.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.instruments import Figures
from dags.vocabulary import Criterion
from planning.constraint import NOTHING, UNSET, All, Constraint, Equals
from planning.pipelines.planned import joint_problem
from planning.plan import OutOfTime
from planning.planner import find_plan
from planning.problem import Goal, Inflow, Option, Outlet, PlanningProblem, RunningVertex, StateVariable, Vertex

_PLACES = (16, 32, 64, 128)
_GOALS_S = {16: 1.0, 32: 2.0, 64: 5.0, 128: 10.0}
_LIMITS_S = (0.5, 2.0, 10.0)
_MODULES = 20
_STEPS = _MODULES // 2
_PHASES = 3
_CRITERIA = (Criterion.RESIDUE, Criterion.COST, Criterion.NO_OPS)
_NOTHING = Option(name="nothing", is_no_op=True)
_SOURCE = Outlet("source")


def long_pipelines(*, quick: bool) -> Figures:
    """Seconds of each kind by places, and how far beyond its limit planning goes where there is no end to it."""
    places = _PLACES[:2] if quick else _PLACES
    return {
        **{kind: {many: _planned(long_pipeline(kind, many), _GOALS_S[many]) for many in places} for kind in CHAINS},
        "limits": {limit: _late(long_bundle(64), limit) for limit in _LIMITS_S[: 1 if quick else None]},
    }


def _planned(problem: PlanningProblem, goal: float) -> Figures:
    begun, used = time.perf_counter(), time.process_time()
    plan = find_plan(problem, _CRITERIA)
    taken = time.perf_counter() - begun
    if plan is None or not plan.is_optimal:
        raise RuntimeError("a long pipeline has no best plan")
    return {"s": round(taken, 2), "cpu_s": round(time.process_time() - used, 2), "of_goal": round(taken / goal, 2)}


def _late(problem: PlanningProblem, limit: float) -> Figures:
    """The part of a limit that planning takes, and what it then has."""
    begun = time.perf_counter()
    end = begun + limit
    try:
        plan = find_plan(problem, _CRITERIA, left=lambda: end - time.perf_counter())
        has = "nothing" if plan is None else [(level.value, level.bound) for level in plan.reached]
    except OutOfTime:
        has = "out of time"
    return {"of_limit": round((time.perf_counter() - begun) / limit, 3), "has": has}


def long_pipeline(kind: str, places: int, seed: int = 1) -> PlanningProblem:
    """A chain of places of one kind."""
    return CHAINS[kind](random.Random(seed), places)


def long_bundle(places: int) -> PlanningProblem:
    """Two chains of steps below one source."""
    chains = [long_pipeline("steps", places, seed) for seed in (1, 2)]
    joint = joint_problem(chains)
    return replace(joint, origins={stream.origin: _SOURCE.origin for stream in joint.given})


def _chain(
    places: int,
    modules: Sequence[Option],
    running: Sequence[RunningVertex],
    domains: dict[str, Sequence[str]],
    ensures: Callable[[int], Constraint] = lambda _: NOTHING,
) -> PlanningProblem:
    last, vertices = _SOURCE, list[Vertex]()
    for at in range(places):
        vertices.append(
            Vertex(id=f"p{at}", inputs=(Inflow("in", (last,)),), options=(*modules, _NOTHING), ensures=ensures(at))
        )
        last = Outlet(f"p{at}")
    variables = [StateVariable(name=name, domain=frozenset({UNSET, *values})) for name, values in domains.items()]
    return PlanningProblem(
        variables=tuple(variables), given={_SOURCE: {}}, vertices=tuple(vertices), running=tuple(running)
    )


def _aimed(problem: PlanningProblem, goal: Constraint) -> PlanningProblem:
    return replace(problem, goals=(Goal(name="goal", holds=goal, streams=problem.vertices[-1].streams()),))


def _module(draw: random.Random, number: int, requires: Constraint, ensures: Constraint) -> Option:
    name = f"m{number}"
    return Option(name=name, requires={"in": requires}, ensures=ensures, cost=draw.randint(1, 9), computes=name)


def _walks(walks: Sequence[Sequence[str]]) -> list[RunningVertex]:
    """Tasks that run in rows below the source, one for each beginning of a row."""
    known: dict[tuple[str, ...], str] = {}
    vertices: list[RunningVertex] = []
    for walk in walks:
        for at in range(len(walk)):
            row = tuple(walk[: at + 1])
            if row not in known:
                known[row] = f"t{len(known)}"
                above = Outlet(known[row[:-1]]) if at else _SOURCE
                vertices.append(RunningVertex(id=known[row], computes=row[-1], inputs=(Inflow("in", (above,)),)))
    return vertices


def _steps(draw: random.Random, places: int) -> PlanningProblem:
    modules = [
        _module(draw, at, Equals("step", str(at // 2) if at > 1 else UNSET), Equals("step", str(at // 2 + 1)))
        for at in range(_MODULES)
    ]
    walks = [[f"m{2 * step + draw.randint(0, 1)}" for step in range(draw.randint(1, _STEPS))] for _ in range(_STEPS)]
    problem = _chain(places, modules, _walks(walks), {"step": [str(step + 1) for step in range(_STEPS)]})
    return _aimed(problem, Equals("step", str(_STEPS)))


def _fields(draw: random.Random, places: int) -> PlanningProblem:
    needs: list[Constraint] = [NOTHING, *(Equals(f"f{draw.randrange(step)}", "true") for step in range(1, _STEPS))]
    modules = [_module(draw, at, needs[at // 2], Equals(f"f{at // 2}", "true")) for at in range(_MODULES)]
    walks = [[draw.choice(modules).name for _ in range(draw.randint(1, 8))] for _ in range(30)]
    names = [f"f{step}" for step in range(_STEPS)]
    problem = _chain(places, modules, _walks(walks), {name: ["true"] for name in names})
    return _aimed(problem, All(tuple(Equals(name, "true") for name in names)))


def _busy(draw: random.Random, places: int) -> PlanningProblem:
    def phase(at: int) -> Constraint:
        return Equals("phase", str(at % _PHASES))

    modules = [_module(draw, at, phase(at), phase(at + 1)) for at in range(_MODULES)]
    walks = [
        [f"m{draw.choice(range(at % _PHASES, _MODULES, _PHASES)[:3])}" for at in range(draw.randint(1, places))]
        for _ in range(_MODULES)
    ]
    domains: dict[str, Sequence[str]] = {"phase": [str(at) for at in range(_PHASES)]}
    problem = _chain(places, modules, _walks(walks), domains, lambda at: phase(at + 1))
    return replace(problem, given={_SOURCE: {"phase": "0"}})


CHAINS: dict[str, Callable[[random.Random, int], PlanningProblem]] = {
    "steps": _steps,
    "fields": _fields,
    "busy": _busy,
}
