"""Constraints over the state variables of a stream: what modules require and ensure, and what a pipeline aims at.

Values are JSON texts, so that `1`, `true` and `"1"` stay three values. The shape of a module, which kind of stream it
turns into which, is a pair of such constraints, too.

>>> warm = All((Equals("unit", '"kelvin"'), Not(Equals("raw", "true"))))
>>> holds(warm, {"unit": '"kelvin"', "raw": "false"})
True
>>> sorted(affected(warm))
['raw', 'unit']
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dags.vocabulary import ModuleShape

State = Mapping[str, str]
"""The value of every variable, on one stream."""
Domains = Mapping[str, frozenset[str]]
"""The values that every variable may have."""
UNSET = "null"
"""The value of a variable that nothing has set."""


@dataclass(frozen=True, slots=True)
class Equals:
    """A variable has a value."""

    variable: str
    value: str


@dataclass(frozen=True, slots=True)
class Same:
    """A variable has the value of another."""

    variable: str
    other: str


@dataclass(frozen=True, slots=True)
class Not:
    """A constraint that does not hold."""

    part: "Constraint"


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds."""

    parts: tuple["Constraint", ...] = ()


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds."""

    parts: tuple["Constraint", ...]


Constraint = Equals | Same | Not | All | Some
NOTHING = All()
"""The constraint that always holds."""


def holds(constraint: Constraint, state: State) -> bool:
    """Whether a state satisfies it."""
    match constraint:
        case Equals(variable, value):
            return state[variable] == value
        case Same(variable, other):
            return state[variable] == state[other]
        case Not(part):
            return not holds(part, state)
        case All(parts):
            return all(holds(part, state) for part in parts)
        case Some(parts):
            return any(holds(part, state) for part in parts)


def _comparisons(constraint: Constraint) -> Iterator[Equals | Same]:
    match constraint:
        case Equals() | Same():
            yield constraint
        case Not(part):
            yield from _comparisons(part)
        case All(parts) | Some(parts):
            for part in parts:
                yield from _comparisons(part)


def affected(effects: Constraint) -> frozenset[str]:
    """The variables that effects may change: those on the left of a comparison."""
    return frozenset(comparison.variable for comparison in _comparisons(effects))


def mentioned(constraint: Constraint) -> frozenset[str]:
    """The variables on either side of its comparisons."""
    others = (comparison.other for comparison in _comparisons(constraint) if isinstance(comparison, Same))
    return affected(constraint).union(others)


def narrowed(constraint: Constraint, domains: Domains, *, true: bool = True) -> Domains | None:
    """Domains without values under which it cannot hold, or None if none are left; some that cannot hold may stay.

    With `true=False`, those under which it cannot fail.
    """
    match constraint:
        case Equals(variable, value):
            values = domains[variable]
            kept = values & {value} if true else values - {value}
            return _with(domains, variable, kept) if len(kept) < len(values) else domains
        case Same(variable, other):
            return _same(domains, variable, other) if true else _different(domains, variable, other)
        case Not(part):
            return narrowed(part, domains, true=not true)
        case All(parts) | Some(parts):
            if true == isinstance(constraint, All):
                return _all(parts, domains, true=true)
            return union([left for part in parts if (left := narrowed(part, domains, true=true)) is not None])


def union(options: list[Domains]) -> Domains | None:
    """The values that a variable has in some option; None if there is no option."""
    if not options:
        return None
    first, *others = options
    if not others:
        return first
    return {
        variable: values
        if all(other[variable] is values for other in others)
        else values.union(*(other[variable] for other in others))
        for variable, values in first.items()
    }


def _all(parts: tuple[Constraint, ...], domains: Domains, *, true: bool) -> Domains | None:
    for part in parts:
        left = narrowed(part, domains, true=true)
        if left is None:
            return None
        domains = left
    return domains


def _same(domains: Domains, variable: str, other: str) -> Domains | None:
    both = domains[variable] & domains[other]
    left = _with(domains, variable, both)
    return None if left is None else _with(left, other, both)


def _different(domains: Domains, variable: str, other: str) -> Domains | None:
    one, two = domains[variable], domains[other]
    if variable == other:
        return None
    if len(one) == 1:
        return _with(domains, other, two - one)
    if len(two) == 1:
        return _with(domains, variable, one - two)
    return domains


def _with(domains: Domains, variable: str, values: frozenset[str]) -> Domains | None:
    return {**domains, variable: values} if values else None


PAIR = "shape:pair"
"""The variable that says whether a stream is one of pairs, of a key and a value."""
_PAIRS = Equals(PAIR, "true")
_SINGLE = Equals(PAIR, UNSET)


_REQUIRES = {
    ModuleShape.ONE_TO_ONE: _SINGLE,
    ModuleShape.ONE_TO_PAIR: _SINGLE,
    ModuleShape.PAIR_TO_PAIR: _PAIRS,
    ModuleShape.PAIR_TO_ONE: _PAIRS,
}
_ENSURES = {ModuleShape.ONE_TO_PAIR: _PAIRS, ModuleShape.PAIR_TO_ONE: _SINGLE}


def required_by(shape: ModuleShape) -> Constraint:
    """What a shape requires of the kind of stream."""
    return _REQUIRES.get(shape, NOTHING)


def ensured_by(shape: ModuleShape) -> Constraint:
    """What a shape makes of the kind of stream."""
    return _ENSURES.get(shape, NOTHING)
