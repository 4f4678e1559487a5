"""Expressions: constraints over the state of a place, as PDDL.

>>> said(All((Equals("raw", "true"), Not(Equals("unit", '"kelvin"')))), "out__s__out")
'(and (is out__s__out variable__raw json__true) (not (is out__s__out variable__unit text__kelvin)))'
"""

from planning.constraint import All, Constraint, Equals, Not, Same, Some
from planning.pddl.names import value_name, variable_name


def said(constraint: Constraint, place: str) -> str:
    """A constraint on the state of a place."""
    match constraint:
        case Equals(variable, value):
            return holds_at(place, variable, value)
        case Same(variable, other):
            return same_at(place, variable, place, other)
        case Not(part):
            return f"(not {said(part, place)})"
        case All(parts):
            return f"({' '.join(['and', *(said(each, place) for each in parts)])})"
        case Some(parts):
            return f"({' '.join(['or', *(said(each, place) for each in parts)])})"


def named(constraint: Constraint) -> set[str]:
    """The values that a constraint names."""
    match constraint:
        case Equals(_, value):
            return {value}
        case Same():
            return set()
        case Not(part):
            return named(part)
        case All(parts) | Some(parts):
            return set[str]().union(*map(named, parts))


def holds_at(place: str, variable: str, value: str) -> str:
    """A variable has a value at a place."""
    return f"(is {place} {variable_name(variable)} {value_name(value)})"


def same_at(place: str, variable: str, other_place: str, other: str) -> str:
    """A variable has the value of another, there or elsewhere."""
    one, two = f"(is {place} {variable_name(variable)} ?v)", f"(is {other_place} {variable_name(other)} ?v)"
    return f"(exists (?v - value) (and {one} {two}))"


def carried(before: str, after: str, variable: str) -> str:
    """The effect that a variable keeps its value from one place to another."""
    one, two = f"(is {before} {variable_name(variable)} ?v)", f"(is {after} {variable_name(variable)} ?v)"
    return f"(forall (?v - value) (when {one} {two}))"
