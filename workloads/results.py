"""The records of a replay's results: one folder with a manifest and a few tables, read by reports.

    manifest.json     the trace, the settings and the machine; `complete` once every step is in the tables
    steps.parquet     a row for each step
    windows.parquet   a row for each window of a measured step; none of a dry run
    users.parquet     for each step the number of running tasks that serve so many dataflows
    tenants.parquet   for each measured step each tenant's share of the cores; none of a dry run

During a replay each step is a JSON line in `steps.jsonl`, from which an interrupted replay resumes. The tables are
written from it at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """The state after a step; counts are exact in dry and live runs alike."""

    step: int
    action: str
    dataflow: str
    phase: str
    dataflows: int
    """Submitted dataflows."""
    submitted_tasks: int
    """The tasks of all dataflows, each by itself without its duplicates: what runs where nothing is shared."""
    submitted_sources: int
    """The sources among them."""
    submitted_outputs: int
    """The outputs among them; the rest are steps."""
    running_tasks: int
    running_sources: int
    running_outputs: int
    work_alone: float
    """The work of all dataflows, each by itself: the events that its tasks take in a second, times their costs.

    It follows from the rates of the sources and the costs in the manifest's settings, and is the same in every way.
    """
    work_running: float
    """The work of the running tasks."""
    paused_tasks: int
    jobs: int
    bridges: int
    measured: bool
    """True if there are windows of this step."""
    seconds: float
    """Seconds until the dataflow ran or was gone; 0 in a dry run."""

    @property
    def running_steps(self) -> int:
        """The running tasks that are neither sources nor outputs."""
        return self.running_tasks - self.running_sources - self.running_outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRow:
    """A measurement over a time in which nothing changed; cores are means over the window."""

    step: int
    window: int
    seconds: float
    cores: float
    """The cores of the whole process tree with the broker, without the manager."""
    cores_broker: float
    cores_driver: float
    cores_jvm: float
    cores_workers: float
    cores_manager: float
    latency_p50: float | None
    """Seconds from a raw event's arrival to the outputs it causes, over all outputs; None if there were no events."""
    latency_p99: float | None
    lag_events: int
    events_out: float
    """Events of all outputs per second."""
    alone_launched: float | None
    """The service's estimate of the cores that the same dataflows need without sharing, each in a job of its own."""
    alone_packed: float | None
    """The same, packed into as few jobs as possible."""
    behind: str
    """Why the window is discarded: how the service was behind; empty if the window is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersRow:
    """The number of running tasks that serve so many dataflows after a step."""

    step: int
    users: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCoresRow:
    """A tenant's share at a measured step; the operator's overhead has no tenant."""

    step: int
    tenant: str | None
    cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayManifest:
    """The replay that the results belong to; `trace` and `workload` are their own descriptions."""

    mode: str
    """`default` (nothing is shared) or `reuse`."""
    placement: str
    defragment: str
    """`off`, `itself` (the service decides) or `step` (requested after each step)."""
    dry: bool
    complete: bool
    trace: Mapping[str, Any]
    workload: Mapping[str, Any]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    begun: str
    ended: str | None
