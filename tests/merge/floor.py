"""A floor of jobs for tests: dataflows come and go, and running graph and jobs keep step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from merge import (
    Assignment,
    Costs,
    Fragmentation,
    Host,
    Instance,
    JobId,
    Jobs,
    RunningGraph,
    consolidate,
    fragmentation,
    isolate,
    merge,
    place,
    release,
    unmerge,
)
from tests.graphs import applied
from tests.notation import flow

NOW = datetime(2024, 3, 1, 7, 30, tzinfo=UTC)
HOST = Host(name="host", cores=1.0)
"""With one core nothing is divided."""
WORK = {"lab:one": 1 / 8, "lab:two": 2 / 8, "lab:three": 3 / 8, "lab:four": 4 / 8, "lab:five": 5 / 8}
"""How busy tasks of these types are, others are idle; without a cost per batch a job takes four eighths."""


@dataclass(kw_only=True)
class Floor:
    """What runs, and in which jobs."""

    strategy: str = "pack"
    hosts: tuple[Host, ...] = (HOST,)
    pace: float = 1.0
    batch: float = 0.0
    bridge: float = 0.0
    paused: float = 0.0
    start: float = 0.0
    interruption: float = 0.0
    moving: float = 0.0
    work: Mapping[str, float] = field(default_factory=lambda: WORK)
    running: RunningGraph = field(default_factory=RunningGraph)
    jobs: Jobs = field(default_factory=Jobs)

    def costs(self, running: RunningGraph | None = None) -> Costs:
        tasks = (running or self.running).tasks.values()
        busy = {task.instance: self.work.get(task.type.name, 0.0) for task in tasks}
        return Costs(
            pace=self.pace,
            batch=self.batch,
            busy=busy,
            bridge=self.bridge,
            paused=self.paused,
            start=self.start,
            interruption=self.interruption,
            moving=self.moving,
        )

    def submit(self, text: str | dict[str, Any], dataflow: str, tenant: str = "ann") -> Assignment:
        """Merge and place; nothing has happened where no host is found."""
        change = merge(self.running, flow(text, dataflow, tenant), NOW)
        running = applied(self.running, change)
        placed = place(
            self.strategy,
            residue=change.residue,
            running=running.tasks,
            jobs=self.jobs,
            hosts=self.hosts,
            costs=self.costs(running),
        )
        self.running, self.jobs = running, self.jobs.apply(placed)
        return placed

    def remove(self, dataflow: str) -> Assignment:
        change = unmerge(self.running, dataflow)
        released = release(change.stops, self.jobs)
        self.running, self.jobs = applied(self.running, change), self.jobs.apply(released)
        return released

    def consolidate(self, *apart: JobId) -> Assignment:
        target = consolidate(self.running, self.jobs, self.hosts, self.costs(), frozenset(apart))
        self.jobs = self.jobs.apply(target)
        return target

    def isolate(self, batch_seconds: Mapping[int, float]) -> Assignment | None:
        measured = {JobId(job): seconds for job, seconds in batch_seconds.items()}
        target = isolate(self.running, self.jobs, self.hosts, self.costs(), measured)
        self.jobs = self.jobs.apply(target) if target is not None else self.jobs
        return target

    def fragmentation(self) -> Fragmentation:
        return fragmentation(self.running, self.jobs, self.hosts, self.costs())

    def instance(self, dataflow: str, task: str) -> Instance:
        return self.running.dataflow(dataflow).places[task]

    def job(self, dataflow: str, task: str) -> JobId:
        """The job that runs a task of a dataflow."""
        return self.jobs.homes[self.instance(dataflow, task)].job

    def layout(self) -> dict[int, list[int]]:
        """The active instances of each job."""
        return {job: sorted(self.jobs.jobs[job].active) for job in sorted(self.jobs.jobs)}
