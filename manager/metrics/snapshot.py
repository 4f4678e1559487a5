"""What a manager knows at one moment, as records; made by `collecting`, read by `sampling`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.transport.dispatch import PassedOver
from engine.plan import Plan
from manager.answers import WholeAnswer
from manager.metrics.sums import Sums
from manager.observations.reports import HostSeen, JobSeen
from manager.reconciler.activity import ReconcilerActivity
from merge import Instance, JobId, Jobs, RunningTask, Submitted


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSnapshot:
    """The committed state, as far as it is told; None of it changes any more."""

    version: int
    tasks: Mapping[Instance, RunningTask]
    dataflows: Sequence[Submitted]
    plans: Mapping[JobId, Plan]
    jobs: Jobs
    sources: int
    moving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Everything that is told at one look."""

    leads: bool
    committed: CommittedSnapshot | None = None
    """None where this manager does not lead."""
    types: Mapping[int, str] = field(default_factory=dict)
    """For each running task its type, as `type_label` has it."""
    driven: ReconcilerActivity | None = None
    """None while no hosts are driven."""
    hosts: Sequence[HostSeen] = ()
    jobs: Mapping[str, JobSeen] = field(default_factory=dict)
    """What was seen of the jobs that shall run."""
    sums: Sums = field(default_factory=Sums)
    metered: WholeAnswer | None = None
    """What the last minutes cost; None where nobody metered."""
    tenants: int = 0
    passed_over: PassedOver = field(default_factory=lambda: PassedOver(0, 0))
    """Of the messages that came to this manager."""
    now: float = 0.0
    """By the clock of whoever listens to hosts."""


def types_of(tasks: Iterable[RunningTask]) -> dict[int, str]:
    """For each running task its type, as it is told."""
    labels: dict[str, str] = {}
    return {
        task.instance: labels.get(name := task.type.name) or labels.setdefault(name, type_label(name)) for task in tasks
    }


def type_label(name: str) -> str:
    """What a type is called in a label: tenants may make up what comes after a namespace, and as much as they like.

    >>> type_label("opmw:http://example.org/step"), type_label("where")
    ('opmw:*', 'where')
    """
    namespace, colon, _ = name.partition(":")
    return f"{namespace}:*" if colon else name
