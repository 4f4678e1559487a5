"""Dynamic documents as they are worked with: tasks with alternates, guarded streams, a policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adaptation.documents.dynamic_form import Policy
from adaptation.guards.conditions import Guard, ValueGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternate:
    """One of the implementations that a task may have."""

    name: str
    type: str
    config: Mapping[str, Any]
    """Complete: with what its module gives, if it has one."""
    module: str | None
    value: float | ValueGuard
    cost: float
    """Microseconds of CPU an event, as declared."""
    selectivity: float
    when: Guard | None
    tags: frozenset[str] = frozenset()
    """The tags that its module needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicTask:
    """A task with alternates."""

    id: str
    at: int
    """Its position among the tasks of the document, and of every document that it resolves to."""
    alternates: Mapping[str, Alternate]
    """By name, in the document's order."""
    first: str
    is_fast: bool
    """Whether it switches at its job's next batch, rather than at one cut with the others."""
    tags: frozenset[str] = frozenset()
    """The tags that its host must offer: it stays there, so those of all alternates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedStream:
    """A stream that is open or not."""

    name: str
    """The name that rules use: `from>to`, with the ports if others join the same two tasks."""
    at: int
    """Its position among the streams."""
    gate: str
    """The id of the task that opens and closes it."""
    when: Guard


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is chosen of a dynamic dataflow: the alternate of each task, and whether each guarded stream is open."""

    alternates: Mapping[str, str] = field(default_factory=dict)
    """By the ids of tasks."""
    opened: Mapping[str, bool] = field(default_factory=dict)
    """By the names of streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicDocument:
    """A dataflow that adapts; made by `read_dynamic`."""

    name: str
    written: Mapping[str, Any]
    """The document as it was written."""
    tasks: Mapping[str, DynamicTask]
    """Those with alternates, by id."""
    streams: Mapping[str, GuardedStream]
    """Those with guards, by name."""
    policy: Policy

    @property
    def fast(self) -> frozenset[str]:
        """The ids of the tasks that switch apart from the others."""
        return frozenset(each.id for each in self.tasks.values() if each.is_fast)

    @property
    def first(self) -> Selection:
        """With what it begins: no guard is active, so guarded streams are closed."""
        return Selection(
            alternates={each.id: each.first for each in self.tasks.values()},
            opened=dict.fromkeys(self.streams, False),
        )
