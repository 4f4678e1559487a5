"""Snapshots of a manager at one moment; made by `collector`, read by `samples`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.transport.dispatch import PassedOver
from engine.plan import Plan
from manager.answers import WholeAnswer
from manager.carriages.standings import HostStanding
from manager.metrics.sums import Sums
from manager.observations.reports import HostSeen, JobSeen
from manager.reconciler.activity import ReconcilerActivity
from merge import Instance, JobId, Jobs, RunningTask, Submitted


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSnapshot:
    """The parts of the committed state that metrics need; a copy."""

    version: int
    tasks: Mapping[Instance, RunningTask]
    dataflows: Sequence[Submitted]
    plans: Mapping[JobId, Plan]
    jobs: Jobs
    sources: int
    moving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Everything that metrics are made of."""

    leads: bool
    committed: CommittedSnapshot | None = None
    """None if this manager does not lead."""
    types: Mapping[int, str] = field(default_factory=dict)
    """The label of each running task's type."""
    driven: ReconcilerActivity | None = None
    """None if the reconciler does not run."""
    hosts: Sequence[HostSeen] = ()
    machines: Mapping[str, bool] = field(default_factory=dict)
    """Whether each machine is alive."""
    waiting: int = 0
    """The machines that wait to be admitted."""
    carried: Sequence[HostStanding] = ()
    """How safe each host is that a machine carries."""
    jobs: Mapping[str, JobSeen] = field(default_factory=dict)
    """The latest reports of the wanted jobs."""
    sums: Sums = field(default_factory=Sums)
    metered: WholeAnswer | None = None
    """The totals of the last minutes; None if none were metered."""
    tenants: int = 0
    passed_over: PassedOver = field(default_factory=lambda: PassedOver(0, 0))
    """The messages that this manager passed over."""
    now: float = 0.0
    """The time of the listener's clock."""


def types_of(tasks: Iterable[RunningTask]) -> dict[int, str]:
    """Return the label of each running task's type."""
    labels: dict[str, str] = {}
    return {
        task.instance: labels.get(name := task.type.name) or labels.setdefault(name, type_label(name)) for task in tasks
    }


def type_label(name: str) -> str:
    """Return the label of a type, without names in a namespace, which tenants can make up without limit.

    >>> type_label("opmw:http://example.org/step"), type_label("where")
    ('opmw:*', 'where')
    """
    namespace, colon, _ = name.partition(":")
    return f"{namespace}:*" if colon else name
