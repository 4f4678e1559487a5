"""Shapes: which streams a module turns into which."""

from enum import StrEnum
from typing import NamedTuple

from planning.constraint import NOTHING, UNSET, Constraint, Equals

PAIR = "shape:pair"
"""The variable that says whether a stream is one of pairs, of a key and a value."""
_PAIRS = Equals(PAIR, "true")
_SINGLE = Equals(PAIR, UNSET)


class ModuleShape(StrEnum):
    """The kind of stream that enters a module, and the kind that leaves it."""

    ONE_TO_ONE = "one-to-one"
    ONE_TO_PAIR = "one-to-pair"
    PAIR_TO_PAIR = "pair-to-pair"
    PAIR_TO_ONE = "pair-to-one"
    FILTER = "filter"
    """Some of the events of either kind, unchanged."""
    JOIN = "join"
    """Events of several streams, of either kind, made one."""

    @property
    def allows_no_op(self) -> bool:
        """True if doing nothing has this shape too."""
        return self in {ModuleShape.ONE_TO_ONE, ModuleShape.PAIR_TO_PAIR, ModuleShape.FILTER}

    @property
    def requires(self) -> Constraint:
        """What it requires of the kind of stream."""
        return _PASSAGES[self].requires

    @property
    def ensures(self) -> Constraint:
        """What it makes of the kind of stream."""
        return _PASSAGES[self].ensures


class _Passage(NamedTuple):
    requires: Constraint = NOTHING
    ensures: Constraint = NOTHING


_PASSAGES = {
    ModuleShape.ONE_TO_ONE: _Passage(_SINGLE),
    ModuleShape.ONE_TO_PAIR: _Passage(_SINGLE, _PAIRS),
    ModuleShape.PAIR_TO_PAIR: _Passage(_PAIRS),
    ModuleShape.PAIR_TO_ONE: _Passage(_PAIRS, _SINGLE),
    ModuleShape.FILTER: _Passage(),
    ModuleShape.JOIN: _Passage(),
}
