"""Random planning problems, small enough to try everything."""

from hypothesis import strategies as st

from planning.constraint import All, Constraint, Equals, Not, Same, Some
from planning.problem import (
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

VALUES = ("null", "true", "1")
NAMES = ("x", "y", "t")
"""The last is a type."""
_TEXTS = ("", "clean", "count", "sort")
MOST_STEPS, MOST_ACTIONS = 6, 4


@st.composite
def constraints(draw: st.DrawFn, depth: int = 2) -> Constraint:
    """Constraints over the variables."""
    kinds = ["equals", "same", *(["not", "all", "some"] if depth else [])]
    match draw(st.sampled_from(kinds)):
        case "equals":
            return Equals(draw(st.sampled_from(NAMES)), draw(st.sampled_from(VALUES)))
        case "same":
            return Same(draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES)))
        case "not":
            return Not(draw(constraints(depth - 1)))
        case "all":
            return All(tuple(draw(st.lists(constraints(depth - 1), max_size=2))))
        case _:
            return Some(tuple(draw(st.lists(constraints(depth - 1), min_size=1, max_size=2))))


def _maybe(draw: st.DrawFn, often: int = 3) -> Constraint:
    return All() if draw(st.integers(0, often)) else draw(constraints(1))


@st.composite
def problems(draw: st.DrawFn) -> PlanningProblem:
    """Problems with splits, meetings of both kinds, several ports, no-ops and running tasks."""
    sources = [Outlet("s"), *([Outlet("r")] if draw(st.booleans()) else [])]
    vertices: list[Vertex] = []
    streams = list(sources)
    for at in range(draw(st.integers(1, MOST_STEPS))):
        inputs = [Inflow("in", tuple(draw(_streams(streams))))]
        if draw(st.integers(0, 4)) == 0:
            inputs.append(Inflow("more", tuple(draw(_streams(streams)))))
        outputs = ("out", "other") if draw(st.integers(0, 5)) == 0 else ("out",)
        # A vertex that does nothing has one port on each side.
        idle = len(inputs) == 1 and outputs == ("out",) and draw(st.booleans())
        options = [Option(name="nothing", is_no_op=True)] if idle else []
        ports = [each.port for each in inputs]
        most = draw(st.integers(1, MOST_ACTIONS))
        options += [draw(_actions(f"a{number}", ports, outputs)) for number in range(most)]
        vertex = Vertex(
            id=f"p{at}",
            inputs=tuple(inputs),
            outputs=outputs,
            options=tuple(options),
            meeting=draw(st.sampled_from(Meeting)),
            requires=_maybe(draw, 6),
            ensures=_maybe(draw, 6),
            same=draw(st.sampled_from(["", "", "", *(each.id for each in vertices)])),
        )
        vertices.append(vertex)
        streams += vertex.streams()
    return PlanningProblem(
        variables=tuple(StateVariable(name=name, domain=frozenset(VALUES), is_type=name == "t") for name in NAMES),
        given={each: draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))) for each in sources},
        vertices=tuple(vertices),
        goals=tuple(
            Goal(name=f"goal {at}", holds=draw(constraints()), streams=tuple(draw(_streams(streams))))
            for at in range(draw(st.integers(0, 2)))
        ),
        running=draw(_running(sources)),
        excluded=tuple(draw(_excluded(vertices)) for _ in range(draw(st.integers(0, 2)))),
        present={
            vertex.id: draw(st.sampled_from(vertex.options)).filling for vertex in vertices if draw(st.booleans())
        },
    )


def _streams(streams: list[Outlet]) -> st.SearchStrategy[list[Outlet]]:
    return st.lists(st.sampled_from(streams[-4:]), min_size=1, max_size=2, unique=True)


@st.composite
def _actions(draw: st.DrawFn, name: str, ports: list[str], outputs: tuple[str, ...]) -> Option:
    return Option(
        name=name,
        module=draw(st.sampled_from(["", "", "m"])),
        requires={port: draw(constraints(1)) for port in ports if draw(st.integers(0, 2)) == 0},
        ensures=_maybe(draw, 1),
        ensures_at={port: draw(constraints(1)) for port in outputs if draw(st.integers(0, 5)) == 0},
        base=draw(st.sampled_from(["", *ports])),
        cost=draw(st.integers(0, 3)),
        quality=draw(st.integers(0, 3)),
        # Tasks with several ports are not distinguished by the port that is read.
        computes=draw(st.sampled_from(_TEXTS)) if outputs == ("out",) else "",
    )


@st.composite
def _excluded(draw: st.DrawFn, vertices: list[Vertex]) -> dict[str, str]:
    some = draw(st.lists(st.sampled_from(vertices), min_size=1, max_size=2, unique_by=lambda each: each.id))
    return {each.id: draw(st.sampled_from(each.options)).name for each in some}


@st.composite
def _running(draw: st.DrawFn, sources: list[Outlet]) -> tuple[RunningVertex, ...]:
    found: list[RunningVertex] = []
    streams = list(sources)
    for at in range(draw(st.integers(0, 3))):
        inputs = (Inflow("in", tuple(draw(_streams(streams)))),)
        found.append(RunningVertex(id=f"t{at}", computes=draw(st.sampled_from(_TEXTS[1:])), inputs=inputs))
        streams.append(Outlet(f"t{at}"))
    return tuple(found)
