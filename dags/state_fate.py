"""State fates: what becomes of a task's state when the running task gets a new config or another version of its type.

A type declares them as its `state_change`. Most declare them field by field, with `FieldFates`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dags.config import Config


class StateFate(StrEnum):
    """The fate of a task's state: it stays as it is, is adapted to the new config, or is dropped."""

    KEPT = "kept"
    TRANSFORMED = "transformed"
    FRESH = "fresh"


def undeclared(_old: Config, _new: Config) -> StateFate | None:
    """The `state_change` of a type that declares no fate."""
    return None


@dataclass(frozen=True, slots=True)
class Resized:
    """The fates for a field whose value can grow or shrink. A tuple grows if it keeps its items and gets others."""

    grown: StateFate | None
    shrunk: StateFate | None

    def of(self, old: Any, new: Any) -> StateFate | None:
        """The fate for two different values."""
        grows = set(new) >= set(old) if isinstance(new, tuple) else new > old
        return self.grown if grows else self.shrunk


@dataclass(frozen=True, slots=True)
class Continuation:
    """Another type whose state a type can go on from, once a running task changes from that one to it."""

    type: str
    same: tuple[str, ...] = ()
    """The config fields of both types that must be equal for that."""
    versions: frozenset[int] = frozenset({1})
    """The versions of the other type whose configs and states are known."""


class FieldFates:
    """A `state_change` that looks at the fields that differ. The least favourable of their fates counts.

    A field without a fate may be changed only if the tenant gives up the state.

    >>> class Smoothing(Config):
    ...     field: str
    ...     noise: float = 0.5
    >>> fates = FieldFates(noise=StateFate.KEPT)
    >>> fates(Smoothing(field="t"), Smoothing(field="t", noise=0.1))
    <StateFate.KEPT: 'kept'>
    >>> fates(Smoothing(field="t"), Smoothing(field="u", noise=0.1))
    """

    def __init__(self, others: StateFate | None = None, /, **fields: StateFate | Resized | None) -> None:
        self.others = others
        """The fate for all other fields, including those that the config's schema does not name."""
        self.fields: Mapping[str, StateFate | Resized | None] = fields

    def __call__(self, old: Config, new: Config) -> StateFate | None:
        """The fate for two configs."""
        return _least_favourable(self._each(old, new))

    @property
    def transforms(self) -> bool:
        """True if it can answer `TRANSFORMED`."""
        fates = {self.others}
        for fate in self.fields.values():
            fates |= {fate.grown, fate.shrunk} if isinstance(fate, Resized) else {fate}
        return StateFate.TRANSFORMED in fates

    def _each(self, old: Config, new: Config) -> Iterator[StateFate | None]:
        before, after = _values(old), _values(new)
        for name in before.keys() | after.keys():
            was, becomes = before.get(name), after.get(name)
            if was == becomes:
                continue
            fate = self.fields.get(name, self.others)
            yield fate.of(was, becomes) if isinstance(fate, Resized) else fate


_ORDER = (None, StateFate.FRESH, StateFate.TRANSFORMED, StateFate.KEPT)
"""The least favourable first."""


def _least_favourable(fates: Iterator[StateFate | None]) -> StateFate | None:
    return min(fates, key=_ORDER.index, default=StateFate.KEPT)


def _values(config: Config) -> dict[str, Any]:
    """The values of all fields, including those that the schema does not name."""
    return {name: getattr(config, name) for name in type(config).model_fields} | (config.model_extra or {})
