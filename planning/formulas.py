"""Formulas: literals of a CP-SAT model for the values of variables and for constraints over them.

A literal is True or False where the model has no choice, so that nothing decided costs a variable.
"""

from collections.abc import Iterable, Mapping

from ortools.sat.python import cp_model

from planning.constraint import All, Constraint, Domains, Equals, Not, Same, Some

Literal = cp_model.BoolVarT | bool
"""A boolean of the model, or a constant."""
Values = Mapping[str, Literal]
"""The literal of each value that a variable may have; exactly one of them holds."""
State = Mapping[str, Values]


def negated(literal: Literal) -> Literal:
    """The literal that holds if one does not."""
    return not literal if isinstance(literal, bool) else ~literal


class Formulas:
    """Literals over one model."""

    def __init__(self, model: cp_model.CpModel) -> None:
        self.model = model

    def choice(self, values: Iterable[str]) -> Values:
        """One of some values."""
        names = sorted(values)
        if len(names) == 1:
            return {names[0]: True}
        found: dict[str, Literal] = {name: self.model.new_bool_var("") for name in names}
        self.model.add_exactly_one(found.values())
        return found

    def state(self, domains: Domains) -> State:
        """A state of its own."""
        return {name: self.choice(values) for name, values in domains.items()}

    def require(self, literals: Iterable[Literal], *, when: Iterable[Literal] = ()) -> None:
        """At least one holds whenever all of `when` do."""
        clause = [*literals, *map(negated, when)]
        if not any(each is True for each in clause):
            self.model.add_bool_or([each for each in clause if each is not False])

    def equal(self, one: Values, two: Values, *, when: Iterable[Literal] = ()) -> None:
        """Both variables have the same value whenever all of `when` hold."""
        if one is two:
            return
        given = tuple(when)
        for value in one.keys() | two.keys():
            # The other direction follows: exactly one value holds on either side.
            self.require([two.get(value, False)], when=[*given, one.get(value, False)])

    def holds(self, constraint: Constraint, state: State) -> Literal:
        """The literal that a constraint holds in a state."""
        match constraint:
            case Equals(variable, value):
                return state[variable].get(value, False)
            case Same(variable, other):
                one, two = state[variable], state[other]
                return self.some_of([self.all_of([one[each], two[each]]) for each in sorted(one.keys() & two.keys())])
            case Not(part):
                return negated(self.holds(part, state))
            case All(parts):
                return self.all_of([self.holds(part, state) for part in parts])
            case Some(parts):
                return self.some_of([self.holds(part, state) for part in parts])

    def impose(self, constraint: Constraint, state: State, *, when: Iterable[Literal] = ()) -> None:
        """A constraint holds in a state whenever all of `when` do."""
        given = tuple(when)
        if isinstance(constraint, All):
            for part in constraint.parts:
                self.impose(part, state, when=given)
        else:
            self.require([self.holds(constraint, state)], when=given)

    def all_of(self, literals: list[Literal]) -> Literal:
        """The literal that all of some hold."""
        return negated(self.some_of([negated(each) for each in literals]))

    def some_of(self, literals: list[Literal]) -> Literal:
        """The literal that some of them hold."""
        if any(each is True for each in literals):
            return True
        left = [each for each in literals if each is not False]
        if not left:
            return False
        if not left[1:]:
            return left[0]
        found = self.model.new_bool_var("")
        self.model.add_bool_or([*left, ~found])
        for each in left:
            self.model.add_implication(each, found)
        return found
