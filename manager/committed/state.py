"""The committed state in memory, as the leader has it."""

# rpds's classes take no parameters at run time.
from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rpds import HashTrieMap

from engine.plan import Plan
from manager.committed.sources import Registered
from manager.planner import Delivered, Made
from manager.transitions.drain import Drain
from manager.transitions.move import Ended, Move
from manager.transitions.reconfiguration import Reconfiguration
from merge import Image, Instance, JobId, Jobs, RunningGraph, RunningTask

if TYPE_CHECKING:
    from manager.transitions.scope import Transition


@dataclass(slots=True, kw_only=True)
class CommittedState:
    """All that the next decision goes by; changed only by the committer."""

    version: int
    running: RunningGraph
    jobs: Jobs
    plans: dict[JobId, Plan]
    """The newest plan of each job that runs."""
    stopped: dict[JobId, Plan]
    """The last plan of each job that was stopped, until its host has said that it is."""
    sources: HashTrieMap[str, Registered] = field(default_factory=HashTrieMap)
    """The registered sources by name. Persistent, so that documents are read against a snapshot."""
    images: HashTrieMap[str, Image] = field(default_factory=HashTrieMap)
    """The registered images by name. Persistent, so that what was decided by them can be compared."""
    readers: dict[str, set[str]] = field(default_factory=dict)
    """For each source that is read the dataflows that read it, by the running graph's ids."""
    epochs: dict[Delivered, int] = field(default_factory=dict)
    """For each sink whose numbers began anew the epoch in which they are."""
    slots: dict[Instance, Made] = field(default_factory=dict)
    """The slots that were made of running tasks, for the next plans."""
    earliest: dict[str, str] = field(default_factory=dict)
    """For each dataflow that began at the earliest events that were kept its tenant; by the id that its tenant has."""
    apart: set[JobId] = field(default_factory=set)
    """The jobs that began so, and stand elsewhere in their streams than others: nothing else is placed there."""
    quarantined: dict[str, float] = field(default_factory=dict)
    """For each tenant that is or was in quarantine the moment at which that ends."""
    moved: dict[Instance, int] = field(default_factory=dict)
    """For each task that went from job to job how often it did."""
    moves: dict[int, Move] = field(default_factory=dict)
    """The moves under way, by id."""
    drains: dict[str, Drain] = field(default_factory=dict)
    """The drains under way, by the dataflow."""
    reconfigurations: dict[int, Reconfiguration] = field(default_factory=dict)
    """The reconfigurations under way, by id."""
    ended: Ended | None = None
    """The outcome of the last move since this was loaded."""
    needed: dict[str, dict[JobId, int]] = field(default_factory=dict)
    """For each dataflow that was submitted since this was loaded the plans that brought its tasks; else the newest."""

    def snapshot(self) -> CommittedState:
        """What a preview goes by, which commits do not change."""
        return replace(self, running=self.running.snapshot(), plans=dict(self.plans))

    @property
    def transitions(self) -> tuple[Transition, ...]:
        """All that is under way."""
        return (*self.moves.values(), *self.drains.values(), *self.reconfigurations.values())

    def begins(self, source: RunningTask) -> float | None:
        """The moment from which a source has its events of those that are kept; None where it has them as it runs."""
        tenant = self.earliest.get(source.key.scope.dataflow) if source.key.scope else None
        return None if tenant is None else self.sources[source.config["source"]].since(tenant)

    def in_quarantine(self, now: float) -> frozenset[str]:
        """The tenants that are in quarantine."""
        return frozenset(tenant for tenant, until in self.quarantined.items() if now < until)

    def own_jobs(self, now: float) -> Mapping[str, frozenset[JobId]]:
        """For each tenant in quarantine the jobs whose workers run nothing else."""
        tenants = self.in_quarantine(now)
        if not tenants:
            return {}
        found: defaultdict[str, set[JobId]] = defaultdict(set)
        for job, plan in self.plans.items():
            found[plan.workers].add(job)
        return {tenant: frozenset(found[tenant]) for tenant in tenants}

    def read_by(self, dataflow: str) -> frozenset[str]:
        """The sources that a dataflow reads."""
        parts = self.running.dataflow(dataflow).parts
        return frozenset(self.running.tasks[source].config["source"] for part in parts for source in part)

    def jobs_of(self, dataflow: str) -> frozenset[JobId]:
        """The jobs that run a dataflow's tasks."""
        homes = self.jobs.homes
        return frozenset(homes[instance].job for instance in self.running.dataflow(dataflow).instances)

    def streams_of(self, sources: Mapping[Instance, object] | frozenset[Instance]) -> frozenset[str]:
        """The raw streams of running sources."""
        tasks = self.running.tasks
        return frozenset(self.sources[tasks[each].config["source"]].supplied.stream for each in sources)


def stands_apart(plan: Plan) -> bool:
    """Tell whether a job began at the earliest events that were kept."""
    return any(each.since is not None for each in plan.ingress)


def running_id(dataflow: str, revision: int) -> str:
    """The running graph's id of a dataflow, one for each revision, so that two of them can run for a moment.

    >>> running_id("d-1", 1), running_id("d-1", 2)
    ('d-1', 'd-1~2')
    """
    return dataflow if revision == 1 else f"{dataflow}~{revision}"
