"""The results of a replay: one folder with a manifest and a few tables; written step by step, read by reports.

    manifest.json     what was replayed, how, on what; `complete` once every step is in the tables
    steps.parquet     a row for each step
    windows.parquet   a row for each window of a step in which something was measured; none of a dry run
    users.parquet     for each step how many running tasks serve so many dataflows
    tenants.parquet   for each measured step what each tenant's share is, in cores; none of a dry run

While a replay goes on each step is a JSON line in `steps.jsonl`, so that an interrupted one can go on from there; the
tables are written from it at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """What there was after a step; counts are exact in dry and live runs alike."""

    step: int
    action: str
    dataflow: str
    phase: str
    dataflows: int
    """How many are submitted."""
    submitted_tasks: int
    """Tasks of all of them, each dataflow by itself without its duplicates: what runs where nothing is shared."""
    submitted_sources: int
    """How many of these are sources."""
    submitted_outputs: int
    """How many of them are outputs; the rest are steps."""
    running_tasks: int
    running_sources: int
    running_outputs: int
    work_alone: float
    """The work of what is submitted, each dataflow by itself: the events that its tasks take in a second, times costs.

    By the rates of the workload's sources and the costs that the manifest's settings name; the same in every way.
    """
    work_running: float
    """The work of what runs."""
    paused_tasks: int
    jobs: int
    bridges: int
    measured: bool
    """Whether there are windows of this step."""
    seconds: float
    """What the step took until the dataflow ran, or was gone; 0 in a dry run."""

    @property
    def submitted_steps(self) -> int:
        """Tasks of all dataflows by themselves that have inputs and outputs."""
        return self.submitted_tasks - self.submitted_sources - self.submitted_outputs

    @property
    def running_steps(self) -> int:
        """Running tasks that have inputs and outputs."""
        return self.running_tasks - self.running_sources - self.running_outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRow:
    """What was measured while nothing changed; cores are means over the window."""

    step: int
    window: int
    seconds: float
    cores: float
    """Of the whole process tree, broker included, manager apart."""
    cores_broker: float
    cores_driver: float
    cores_jvm: float
    cores_workers: float
    cores_manager: float
    latency_p50: float | None
    """Seconds from a raw event's arrival to the outputs that it causes, over all outputs; None where nothing came."""
    latency_p99: float | None
    lag_events: int
    events_out: float
    """Events of all outputs in a second."""
    alone_launched: float | None
    """Cores that the same dataflows are estimated to need in a job each, sharing nothing; by the service's savings."""
    alone_packed: float | None
    """Likewise packed into as few jobs as hold them."""
    behind: str
    """Why the window is thrown away: in what the service was behind; empty where it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersRow:
    """How many running tasks serve so many dataflows after a step."""

    step: int
    users: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCoresRow:
    """A tenant's share at a measured step; that of the operator's overhead has no tenant."""

    step: int
    tenant: str | None
    cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayManifest:
    """What was replayed; `trace` and `workload` as they describe themselves."""

    mode: str
    """`default`, where nothing is shared, or `reuse`."""
    placement: str
    defragment: str
    """`off`, `itself` where the service decides, or `step` where one is asked for after each step."""
    dry: bool
    complete: bool
    trace: Mapping[str, Any]
    workload: Mapping[str, Any]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    begun: str
    ended: str | None
