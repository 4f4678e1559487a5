"""Alternates of a dynamic task with their values and costs, and the rules of a policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dags import Config
from dags.builder.conditions import BuildError, BuiltCondition, BuiltGuard, Form, guard, present
from dags.task_type import AnyTaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltValue:
    """A value that follows a domain event: `factor` times a field plus `plus`; made by `value_of`."""

    form: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltAlternate:
    """One of several implementations of a dynamic task; made by `alternate`."""

    name: str
    type: AnyTaskType | str | None
    config: Mapping[str, object] | Config
    module: str | None
    form: Form
    """What the document says of it besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltRule:
    """What a policy fixes while a guard is open; made by `rule`."""

    name: str
    when: BuiltGuard
    choose: Mapping[object, str | bool] = field(default_factory=dict)
    """An alternate for the stream of a dynamic task; for a guarded stream, whether it is open."""


def value_of(name: str, field_name: str, *, factor: float = 1.0, plus: float = 0.0, otherwise: float) -> BuiltValue:
    """A value from a field of the newest event of a name, and another before any came.

    >>> value_of("errors", "mse", factor=-1.0, plus=1.0, otherwise=0.6).form
    {'event': 'errors', 'field': 'mse', 'factor': -1.0, 'plus': 1.0, 'otherwise': 0.6}
    """
    return BuiltValue(form={"event": name, "field": field_name, "factor": factor, "plus": plus, "otherwise": otherwise})


def alternate(  # noqa: PLR0913 - an alternate has as many parts, most with defaults
    name: str,
    type: AnyTaskType | str | None = None,  # noqa: A002 - what documents call it
    config: Mapping[str, object] | Config | None = None,
    *,
    value: float | BuiltValue,
    cost: float,
    selectivity: float | None = None,
    module: str | None = None,
    when: BuiltGuard | BuiltCondition | None = None,
) -> BuiltAlternate:
    """An implementation of a dynamic task: a type with its config, or a module.

    Its value is what its results are worth to you beside the others', its cost the microseconds of CPU that an event
    takes, and its selectivity the events that leave for one that enters.
    """
    step = f"the alternate {name!r}"
    if (type is None) == (module is None):
        raise BuildError(step, "it needs a type or a module, and not both", "give one of the two")
    if not isinstance(value, BuiltValue) and not value > 0:
        raise BuildError(step, f"its value is {value}", "give a value above 0")
    for what, number in (("cost", cost), ("selectivity", selectivity)):
        if number is not None and number < 0:
            raise BuildError(step, f"its {what} is {number}", f"give a {what} of 0 or more")
    form = {
        "value": dict(value.form) if isinstance(value, BuiltValue) else value,
        "cost": cost,
        "selectivity": selectivity,
        "when": None if when is None else dict(guard(when).form),
    }
    return BuiltAlternate(name=name, type=type, config=config or {}, module=module, form=present(form))


def rule(name: str, when: BuiltGuard | BuiltCondition, choose: Mapping[object, str | bool]) -> BuiltRule:
    """A rule: while it is active, some dynamic tasks have the alternate of its choice, and streams are open or not."""
    if not choose:
        raise BuildError(f"the rule {name!r}", "it chooses nothing", "give the stream of a dynamic task its alternate")
    return BuiltRule(name=name, when=guard(when), choose=choose)
