"""Import: a planning problem from the PDDL that `planning.pddl.pddl_export` writes.

It has the same plans at the same costs. It is not equal to what was exported: see the package for what PDDL leaves out.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

try:
    from pyparsing import ParseBaseException
    from unified_planning.exceptions import UPException
    from unified_planning.io import PDDLReader
except ImportError as error:
    raise ImportError(f"reading PDDL needs unified-planning ({error}); install braid[pddl]") from error

from dags.pddl.names import parts
from dags.pddl.texts import Pddl, PddlError
from planning.constraint import NOTHING, All, Constraint, Equals, Not, Same, Some, affected
from planning.pddl.names import outlet, value
from planning.planning_problem import Goal, Inflow, Meeting, Option, Outlet, PlanningProblem, StateVariable, Vertex

_BROKEN = (AssertionError, AttributeError, IndexError, KeyError, SyntaxError, TypeError, ValueError)
"""What unexpected texts end in, in the library and here."""
_BOOKKEEPING = frozenset({"now", "met", "mixed", "holds", "open", "done"})
Fact = tuple[str, ...]
"""A predicate and the names that it is about."""


def unified(pddl: Pddl) -> Any:
    """The same as a problem of unified-planning. Raises `PddlError` if the texts are no PDDL."""
    try:
        return PDDLReader().parse_problem_string(pddl.domain, pddl.problem)
    except (UPException, ParseBaseException, *_BROKEN) as error:
        raise PddlError(f"these texts are no PDDL that unified-planning reads: {error}") from error


def imported(pddl: Pddl) -> PlanningProblem:
    """The problem that PDDL says. Raises `PddlError` if it is not of the exported form."""
    found = unified(pddl)
    try:
        return _Import(found).problem()
    except PddlError:
        raise
    except _BROKEN as error:
        raise PddlError(f"this is no planning problem as Braid exports it: {error!r}; export it again") from error


class _Action(NamedTuple):
    conditions: tuple[Any, ...]
    sets: tuple[Fact, ...]
    """The facts that it makes true."""
    copies: tuple[tuple[Fact, Fact], ...]
    """The facts that it carries from one place to another."""
    cost: int

    def asked(self, otherwise: str) -> dict[str, Constraint]:
        """What it asks of each place, and of that one if a condition names none."""
        return _asked(self.conditions, otherwise)


class _Import:
    def __init__(self, found: Any) -> None:
        self._found = found
        costs = found.quality_metrics[0] if found.quality_metrics else None
        self._actions = {parts(each.name): _action(each, costs) for each in found.actions if not each.parameters}
        self._facts = [_fact(node) for node, set_ in found.explicit_initial_values.items() if set_.is_true()]
        self._types = frozenset(parts(each)[1] for (each,) in self._all("type"))

    def problem(self) -> PlanningProblem:
        domains: dict[str, set[str]] = {}
        for variable, each in self._all("may"):
            domains.setdefault(parts(variable)[1], set()).add(value(each))
        given: dict[str, dict[str, str]] = {}
        for place, variable, each in self._all("is"):
            given.setdefault(place, {})[parts(variable)[1]] = value(each)
        conjuncts = [each for node in self._found.goals for each in _conjuncts(node)]
        excluded = [each for each in conjuncts if "holds" in _predicates(each)]
        goals = _asked((each for each in conjuncts if each not in excluded), next(iter(given), ""))
        return PlanningProblem(
            variables=tuple(
                StateVariable(name=name, domain=frozenset(domain), is_type=name in self._types)
                for name, domain in domains.items()
            ),
            given={outlet(place): state for place, state in given.items()},
            vertices=tuple(self._vertex(each) for each in self._order()),
            goals=tuple(Goal(name=place, holds=holds, streams=(outlet(place),)) for place, holds in goals.items()),
            excluded=tuple({parts(at)[1]: parts(option)[1] for _, at, option in _facts(each)} for each in excluded),
        )

    def _all(self, predicate: str) -> Iterator[Fact]:
        return (each[1:] for each in self._facts if each[0] == predicate)

    def _order(self) -> Iterator[str]:
        """The vertices' ids, as each makes the next one ready."""
        left = {names[1] for names in self._actions if names[0] == "leave"}
        following = [vertex for vertex, _ in self._all("now")]
        while following:
            at = parts(following[0])[1]
            if at not in left:
                raise PddlError(f"vertex {at} is left twice or never; export the problem again")
            left.remove(at)
            yield at
            following = [each[1] for each in self._actions["leave", at].sets if each[0] == "now"]
        if left:
            raise PddlError(f"vertex {min(left)} never becomes ready; export the problem again")

    def _vertex(self, id_: str) -> Vertex:
        reads = [(parts(port)[1], place) for vertex, port, place in self._all("reads") if parts(vertex)[1] == id_]
        outputs = [place for vertex, place in self._all("emits") if parts(vertex)[1] == id_]
        meets = [each for names, each in self._actions.items() if names[:2] == ("meet", id_)]
        mixed = any(fact[0] == "mixed" for each in meets for fact in each.sets)
        wanted = self._actions["leave", id_].asked(outputs[0])
        return Vertex(
            id=id_,
            inputs=tuple(Inflow(port, tuple(self._streams(place))) for port, place in reads),
            outputs=tuple(outlet(each).port for each in outputs),
            options=tuple(
                self._option(id_, names[2], reads, outputs) for names in self._actions if names[:2] == ("fill", id_)
            ),
            meeting=Meeting.EITHER if mixed else Meeting.EQUAL,
            requires=All(tuple(self._actions["enter", id_].asked(reads[0][1]).values())),
            ensures=wanted.get(outputs[0], NOTHING),
        )

    def _streams(self, place: str) -> Iterator[Outlet]:
        if parts(place)[0] == "out":
            yield outlet(place)
        for entering, met in self._all("enters"):
            if met == place:
                yield outlet(entering)

    def _option(self, vertex: str, name: str, reads: list[tuple[str, str]], outputs: list[str]) -> Option:
        fill, settle = self._actions["fill", vertex, name], self._actions["settle", vertex, name]
        first = reads[0][1]
        ports = {place: port for port, place in reversed(reads)}
        carried = {before[1] for before, _ in fill.copies if parts(before[2])[1] in self._types}
        ensured = settle.asked(outputs[0])
        for place in outputs:
            opened = {parts(each[2])[1] for each in fill.sets if each[0] == "open" and each[1] == place}
            if opened != affected(ensured.get(place, NOTHING)):
                raise PddlError(f"{name} at {vertex} opens other variables than it affects; export the problem again")
        return Option(
            name=name,
            requires={ports[place]: asked for place, asked in fill.asked(first).items()},
            ensures_at={outlet(place).port: asked for place, asked in ensured.items()},
            base=next((ports[place] for place in carried if place != first), ""),
            cost=fill.cost,
        )


def _action(found: Any, costs: Any) -> _Action:
    cost = costs.get_action_cost(found) if costs is not None else None
    effects = [each for each in found.effects if each.value.is_true()]
    return _Action(
        conditions=tuple(each for node in found.preconditions for each in _conjuncts(node)),
        sets=tuple(_fact(each.fluent) for each in effects if not each.is_conditional()),
        copies=tuple((_fact(each.condition), _fact(each.fluent)) for each in effects if each.is_conditional()),
        cost=0 if cost is None else int(cost.constant_value()),
    )


def _conjuncts(node: Any) -> Iterator[Any]:
    if node.is_and():
        for each in node.args:
            yield from _conjuncts(each)
    elif not node.is_true():
        yield node


def _asked(nodes: Iterable[Any], otherwise: str) -> dict[str, Constraint]:
    found: dict[str, list[Constraint]] = {}
    for node in nodes:
        facts = list(_facts(node))
        if not all(each[0] in _BOOKKEEPING for each in facts) or not facts:
            places = {each[1] for each in facts} or {otherwise}
            if len(places) > 1:
                raise PddlError(f"{node} is about several places; export the problem again")
            found.setdefault(places.pop(), []).append(_constraint(node))
    return {place: All(tuple(each)) for place, each in found.items()}


def _constraint(node: Any) -> Constraint:
    if node.is_bool_constant():
        return NOTHING if node.is_true() else Some(())
    if node.is_not():
        return Not(_constraint(node.arg(0)))
    if node.is_and() or node.is_or():
        each = tuple(map(_constraint, node.args))
        return All(each) if node.is_and() else Some(each)
    if node.is_exists():
        one, two = _facts(node)
        return Same(parts(one[2])[1], parts(two[2])[1])
    predicate, _, variable, found = _fact(node)
    if predicate != "is":
        raise PddlError(f"{node} is no constraint; export the problem again")
    return Equals(parts(variable)[1], value(found))


def _facts(node: Any) -> Iterator[Fact]:
    """All facts in an expression."""
    if node.is_fluent_exp():
        yield _fact(node)
    else:
        for each in node.args:
            yield from _facts(each)


def _predicates(node: Any) -> set[str]:
    return {each[0] for each in _facts(node)}


def _fact(node: Any) -> Fact:
    named = [str(each) for each in node.args]
    return (node.fluent().name, *named)
