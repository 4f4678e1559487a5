"""Constraints as they are written in JSON.

{"unit": "kelvin", "raw": {"not": true}}        both
{"any": [{"unit": {"in": ["kelvin", "celsius"]}}, {"unit": {"same": "wanted"}}]}
{"not": {...}}, {"all": [...]}
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dags import Problem
from dags.problems import listed, pointer, quoted, suggestion
from planning.constraint import NOTHING, UNSET, All, Constraint, Equals, Not, Same, Some

JOINING = frozenset({"all", "any", "not"})
"""Keys of a constraint that are no variables."""
_COMPARISONS = ("not", "in", "same", "differs")
_MOST_DEPTH = 12
_FORM = 'write values as in {"unit": "kelvin"}, or use "all", "any" and "not"'

Path = tuple[str | int, ...]


def value_text(value: Any) -> str | None:
    """A value as constraints hold it; None if it is no text, boolean, integer or null."""
    return json.dumps(value) if value is None or isinstance(value, str | bool | int) else None


class ConstraintReader:
    """Reads constraints over some variables, and collects what is wrong with them."""

    def __init__(self, domains: Mapping[str, frozenset[str]]) -> None:
        self.problems: list[Problem] = []
        self._domains = domains

    def read(self, value: Any, *at: str | int) -> Constraint:
        """The constraint in a JSON value, whose place in the document is `at`."""
        return self._read(value, at, 0)

    def read_state(self, value: Mapping[str, Any], *at: str | int) -> Mapping[str, str]:
        """The values of variables, without a choice."""
        return {
            name: text
            for name, each in value.items()
            if self._is_variable(name, at) and (text := self._value(name, each, (*at, name))) is not None
        }

    def _read(self, value: Any, at: Path, depth: int) -> Constraint:
        if not isinstance(value, dict):
            return self._malformed(at, "a constraint is an object")
        if depth > _MOST_DEPTH:
            return self._malformed(at, f"the constraint is nested deeper than {_MOST_DEPTH} levels")
        return _joined(All, (self._part(key, each, (*at, key), depth) for key, each in value.items()))

    def _part(self, key: str, value: Any, at: Path, depth: int) -> Constraint:
        if key == "not":
            return Not(self._read(value, at, depth + 1))
        if key in JOINING:
            if not isinstance(value, list) or not (value or key == "all"):
                return self._malformed(at, f"{quoted(key)} needs an array of constraints")
            parts = [self._read(each, (*at, i), depth + 1) for i, each in enumerate(value)]
            return _joined(All if key == "all" else Some, parts)
        if not self._is_variable(key, at[:-1]):
            return NOTHING
        if not isinstance(value, dict):
            text = self._value(key, value, at)
            return NOTHING if text is None else Equals(key, text)
        return self._comparison(key, value, at)

    def _comparison(self, variable: str, value: Mapping[str, Any], at: Path) -> Constraint:
        if len(value) != 1 or next(iter(value)) not in _COMPARISONS:
            return self._malformed(at, f"a comparison is an object with one of {listed(_COMPARISONS)}")
        ((kind, operand),) = value.items()
        within = (*at, kind)
        if kind == "in":
            if not isinstance(operand, list) or not operand:
                return self._malformed(within, "'in' needs an array of values")
            texts = [self._value(variable, each, (*within, i)) for i, each in enumerate(operand)]
            return _joined(Some, (Equals(variable, text) for text in texts if text is not None))
        if kind == "not":
            text = self._value(variable, operand, within)
            return NOTHING if text is None else Not(Equals(variable, text))
        return self._pair(variable, kind, operand, within)

    def _pair(self, variable: str, kind: str, other: Any, at: Path) -> Constraint:
        if not isinstance(other, str):
            return self._malformed(at, f"{quoted(kind)} needs the name of a variable")
        if not self._is_variable(other, at[:-1]):
            return NOTHING
        return Same(variable, other) if kind == "same" else Not(Same(variable, other))

    def _is_variable(self, name: str, at: Path) -> bool:
        if name in self._domains:
            return True
        known = sorted(self._domains)
        others = f"the known ones are {listed(known)}; name one of them, or " if known else ""
        self._add(
            (*at, name),
            "unknown-variable",
            f"unknown variable {quoted(name)}",
            suggestion(name, known, f"{others}declare it in 'variables'"),
        )
        return False

    def _value(self, variable: str, value: Any, at: Path) -> str | None:
        text = value_text(value)
        if text is None:
            self._malformed(at, "a value is a text, true, false, an integer or null")
        elif text not in self._domains[variable]:
            others = listed(sorted(self._domains[variable] - {UNSET}))
            message = f"{quoted(variable)} cannot be {quoted(text)}"
            self._add(at, "outside-domain", message, f"it may be {others} or null")
            return None
        return text

    def _malformed(self, at: Path, message: str) -> Constraint:
        self._add(at, "malformed-constraint", message, _FORM)
        return NOTHING

    def _add(self, at: Path, code: str, message: str, remedy: str) -> None:
        self.problems.append(Problem(pointer=pointer(*at), code=code, message=message, remedy=remedy))


def _joined(kind: Callable[[tuple[Constraint, ...]], All | Some], parts: Iterable[Constraint]) -> Constraint:
    every = tuple(parts)
    return every[0] if len(every) == 1 else kind(every)
