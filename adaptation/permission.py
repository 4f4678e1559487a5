"""What guards and rules permit: the alternates that may be chosen, and the streams that are open."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from adaptation.documents.dynamic_document import DynamicDocument, Selection
from adaptation.documents.dynamic_form import Policy, RuleForm
from adaptation.guards.conditions import Guard, ValueGuard
from adaptation.guards.guard_states import GuardStates


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What may be chosen at present; made by `permission`."""

    alternates: Mapping[str, frozenset[str]]
    """Of each dynamic task; at least one."""
    opened: Mapping[str, bool]
    """Whether each guarded stream is open."""
    rules: Mapping[str, str]
    """The name of the rule that fixes a task or stream, by its id or name."""
    unguarded: frozenset[str]
    """Tasks of which no alternate is allowed, so that the one that runs stays."""


def guards_of(dynamic: DynamicDocument, policy: Policy) -> Iterator[Guard]:
    """Every guard of a document under a policy."""
    for task in dynamic.tasks.values():
        yield from (each.when for each in task.alternates.values() if each.when is not None)
    yield from (each.when for each in dynamic.streams.values())
    yield from (each.guard for each in policy.rules)


def value_guards_of(dynamic: DynamicDocument) -> Iterator[ValueGuard]:
    """Every value guard of a document."""
    for task in dynamic.tasks.values():
        yield from (each.value for each in task.alternates.values() if isinstance(each.value, ValueGuard))


def permission(dynamic: DynamicDocument, policy: Policy, states: GuardStates, standing: Selection) -> Permission:
    """What may be chosen, given the states of guards and what stands. Of two rules the earlier one wins."""
    fixed: dict[str, RuleForm] = {}
    for rule in policy.rules:
        if states.is_active(rule.guard):
            fixed = dict.fromkeys(rule.choose, rule) | fixed
    alternates, unguarded = {}, set()
    for task in dynamic.tasks.values():
        allowed = frozenset(name for name, each in task.alternates.items() if states.is_active(each.when))
        if task.id in fixed:
            allowed = frozenset({str(fixed[task.id].choose[task.id])})
        elif not allowed:
            unguarded.add(task.id)
        alternates[task.id] = allowed or frozenset({standing.alternates[task.id]})
    return Permission(
        alternates=alternates,
        opened={
            name: bool(fixed[name].choose[name]) if name in fixed else states.is_active(stream.when)
            for name, stream in dynamic.streams.items()
        },
        rules={key: rule.name for key, rule in fixed.items()},
        unguarded=frozenset(unguarded),
    )
