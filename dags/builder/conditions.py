"""Conditions of guards and rules: over metrics, domain events and the clock, joined by `&`, `|` and `~`.

`BuildError` says what cannot be built, at which step of a program, and what to do about it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from dags.problems import listed, suggestion


class BuildError(ValueError):
    """A step of a program that cannot be built. Names the step and the remedy."""

    def __init__(self, step: str, message: str, remedy: str) -> None:
        super().__init__(f"{step}: {message}; {remedy}")
        self.step = step
        self.message = message
        self.remedy = remedy


def known_among(step: str, what: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not known."""
    names = list(known)
    if name not in names:
        remedy = suggestion(name, names, f"the known ones are {listed(names)}")
        raise BuildError(step, f"there is no {what} {name!r}", remedy)


def present(form: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a part of a document that are given.

    >>> present({"metric": "rate", "task": None})
    {'metric': 'rate'}
    """
    return {key: value for key, value in form.items() if value is not None}


Metric: TypeAlias = Literal["rate", "throughput", "latency", "backlog", "load"]
"""What is measured of a dataflow or one of its tasks."""
Form: TypeAlias = Mapping[str, Any]
"""A part of a document. Where the document names a task, it may hold the task's stream instead."""
_FEWEST_IN_SEQUENCE = 2


@runtime_checkable
class BuiltPlace(Protocol):
    """A part of a program that stands for one of its tasks."""

    @property
    def draft(self) -> object:
        """The draft of the program."""

    @property
    def task(self) -> int:
        """The number of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCondition:
    """Something that holds or does not at a moment; made by `metric`, `event`, `clock` and `sequence`.

    >>> (metric("rate").above(80) & ~event("calm")).form
    {'all': [{'metric': 'rate', 'above': 80}, {'not': {'event': 'calm'}}]}
    """

    form: Form

    def __and__(self, other: "BuiltCondition") -> "BuiltCondition":
        """Both hold."""
        return _joined("all", self, other)

    def __or__(self, other: "BuiltCondition") -> "BuiltCondition":
        """At least one holds."""
        return _joined("any", self, other)

    def __invert__(self) -> "BuiltCondition":
        """It does not hold."""
        return BuiltCondition(form={"not": self.form})

    def __bool__(self) -> bool:
        """Refuse `and`, `or` and `not`, which would drop one side without a word."""
        raise BuildError("a condition", "it holds or not only at run time", "join conditions with '&', '|' and '~'")

    def until(self, deactivate: "BuiltCondition") -> "BuiltGuard":
        """The guard that this opens and another condition closes."""
        return BuiltGuard(activate=self, deactivate=deactivate)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltGuard:
    """When an alternate may be chosen, or a path is taken; made by `guard` and by a condition's `until`."""

    activate: BuiltCondition
    deactivate: BuiltCondition | None = None
    """Without one, it is closed while `activate` does not hold."""

    @property
    def form(self) -> Form:
        """The guard as documents have it."""
        closing = None if self.deactivate is None else self.deactivate.form
        return present({"activate": self.activate.form, "deactivate": closing})


def guard(given: BuiltGuard | BuiltCondition) -> BuiltGuard:
    """The guard that a condition alone makes, or the guard itself."""
    return BuiltGuard(activate=given) if isinstance(given, BuiltCondition) else given


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltMetric:
    """A metric to compare with a bound; made by `metric`."""

    form: Form

    def above(self, bound: float, *, seconds: float | None = None) -> BuiltCondition:
        """It is above a bound, for so many seconds if they are given."""
        return BuiltCondition(form=present({**self.form, "above": bound, "for": seconds}))

    def below(self, bound: float, *, seconds: float | None = None) -> BuiltCondition:
        """It is below a bound, for so many seconds if they are given."""
        return BuiltCondition(form=present({**self.form, "below": bound, "for": seconds}))


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltTest:
    """What a field of a domain event must be; made by `field`."""

    form: Form

    def above(self, bound: float) -> "BuiltTest":
        """A number above a bound."""
        return BuiltTest(form={**self.form, "above": bound})

    def below(self, bound: float) -> "BuiltTest":
        """A number below a bound."""
        return BuiltTest(form={**self.form, "below": bound})

    def equals(self, value: str | bool | float) -> "BuiltTest":  # noqa: FBT001 - it is the value
        """A text, a number, true or false."""
        return BuiltTest(form={**self.form, "equals": value})


def metric(name: Metric, *, at: BuiltPlace | str | None = None) -> BuiltMetric:
    """A metric of the dataflow, or of a task, given by its stream or its name.

    >>> metric("rate").below(80).form
    {'metric': 'rate', 'below': 80}
    """
    known_among("a condition", "metric", name, get_args(Metric))
    return BuiltMetric(form=present({"metric": name, "task": at}))


def field(name: str) -> BuiltTest:
    """A field of a domain event, to test in `event`."""
    return BuiltTest(form={"field": name})


def event(name: str, where: BuiltTest | None = None, *, within: float | None = None) -> BuiltCondition:
    """A domain event came: one that passes a test of a field, in the last seconds if `within` is given.

    >>> event("peak", field("level").above(3), within=60).form
    {'event': 'peak', 'where': {'field': 'level', 'above': 3}, 'within': 60}
    """
    test = None if where is None else where.form
    return BuiltCondition(form=present({"event": name, "where": test, "within": within}))


def clock(begin: str, end: str, *, days: Sequence[str] = (), zone: str | None = None) -> BuiltCondition:
    """The time of day is between two times, such as 22:00 and 06:00.

    >>> clock("22:00", "06:00", zone="Europe/Berlin").form
    {'clock': {'from': '22:00', 'to': '06:00', 'zone': 'Europe/Berlin'}}
    """
    times = present({"from": begin, "to": end, "days": list(days) or None, "zone": zone})
    return BuiltCondition(form={"clock": times})


def sequence(*conditions: BuiltCondition, within: float) -> BuiltCondition:
    """The conditions came to hold one after the other, all within so many seconds."""
    if len(conditions) < _FEWEST_IN_SEQUENCE:
        raise BuildError("a sequence", f"it has {len(conditions)} of the two or more that it needs", "add conditions")
    return BuiltCondition(form={"sequence": [condition.form for condition in conditions], "within": within})


def _joined(word: str, *conditions: BuiltCondition) -> BuiltCondition:
    """Conditions under one word, flat, so that `a & b & c` is one list of three."""
    parts: list[Form] = []
    for condition in conditions:
        parts += condition.form.get(word, [condition.form])
    return BuiltCondition(form={word: parts})


def events_in(form: Any) -> Iterator[str]:
    """The names of the domain events that a part of a document speaks of."""
    if isinstance(form, Mapping):
        if isinstance(name := form.get("event"), str):
            yield name
        form = [part for key, part in form.items() if key != "config"]
    for part in form if isinstance(form, list) else ():
        yield from events_in(part)
