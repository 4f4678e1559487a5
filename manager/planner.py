"""The planner: makes the plans of jobs from the running graph and the places of its tasks."""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dags import fields_in
from engine.plan import Bridged, Delivery, Edge, Forward, Ingress, Limits, Plan, Slot, SlotState, Supply, declaring
from merge import Instance, Job, JobId, Jobs, RunningGraph, RunningTask, quarantine_of

NO_OTHER_LIMITS = Limits()
"""The limits of jobs for which an operator has chosen none."""


class Supplied(NamedTuple):
    """The spool of a registered source, and its supply."""

    stream: str
    supply: Supply


class Delivered(NamedTuple):
    """A sink of a dataflow, by the id that the running graph has of the dataflow."""

    dataflow: str
    sink: str


class Made(NamedTuple):
    """A slot with the task that it was made of; valid while that task runs unchanged."""

    task: RunningTask
    slot: Slot


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes the plans of one state of the running graph and its jobs."""

    running: RunningGraph
    jobs: Jobs
    supply: Callable[[str], Supplied]
    """The supply of a registered source, by its name."""
    epochs: Mapping[Delivered, int] = field(default_factory=dict)
    """For each sink whose numbers began anew the epoch in which they are."""
    slots: dict[Instance, Made] = field(default_factory=dict)
    """A cache from plan to plan, since most of a plan stays as it is."""
    begins: Callable[[RunningTask], float | None] = lambda _source: None
    """The moment from which a source has events that were kept."""
    moves: Mapping[Instance, int] = field(default_factory=dict)
    """How often each task went from job to job."""
    limits: Limits = NO_OTHER_LIMITS
    quarantined: frozenset[str] = frozenset()
    """The tenants in quarantine."""

    def plan(self, job: JobId, *, version: int, term: int = 1, before: Plan | None = None) -> Plan:
        """The plan of a job; what it pauses has its slot in the plan before."""
        placed = self.jobs.jobs[job]
        active = [self.running.tasks[instance] for instance in sorted(placed.active)]
        kept = {slot.instance: slot for slot in before.slots} if before else {}
        paused = (
            slot if slot.state is SlotState.PAUSED else replace(slot, state=SlotState.PAUSED)
            for instance in sorted(placed.paused)
            if (slot := kept.get(instance)) is not None
        )
        return Plan(
            job=str(job),
            host=placed.host,
            version=version,
            term=term,
            slots=(*(self._slot(task) for task in active if task.inputs), *paused),
            ingress=tuple(self._ingress(placed)),
            forwards=tuple(self._forwards(placed)),
            deliveries=tuple(self._deliveries(placed)),
            shards=placed.shards,
            groups=placed.groups,
            state_bounds={task: most for task, most in before.state_bounds.items() if task in placed.active}
            if before
            else {},
            limits=self.limits,
            workers=before.workers if before else self.workers(placed.active),
        )

    def workers(self, instances: Iterable[Instance]) -> str:
        """The name of the workers of a new job: a tenant's if they run nothing but tasks in its quarantine."""
        if not self.quarantined:
            return ""
        working = (instance for instance in instances if self.running.tasks[instance].inputs)
        names = {quarantine_of(self.running.tenants_of(instance), self.quarantined) for instance in working}
        return names.pop() if len(names) == 1 else ""

    def _slot(self, task: RunningTask) -> Slot:
        """The slot of a task, made when the task is new or has changed."""
        made = self.slots.get(task.instance)
        if made is not None and made.task is task:
            return made.slot
        # The order in which a task takes the outputs of several parents must not depend on which started first.
        keys = {edge.parent: self.running.tasks[Instance(edge.parent)].key for edge in task.inputs}
        slot = Slot(
            instance=task.instance,
            type=task.type.name,
            version=task.type.version,
            config=json.dumps(task.config, separators=(",", ":")),
            inputs=tuple(
                Edge(port=edge.port, parent=edge.parent, parent_port=edge.parent_port, times=edge.times)
                for edge in sorted(
                    task.inputs,
                    key=lambda edge: (
                        edge.port,
                        keys[edge.parent].signature,
                        keys[edge.parent].scope or (),
                        edge.parent_port,
                    ),
                )
            ),
            json_fields=task.json_fields,
        )
        self.slots[task.instance] = Made(task, slot)
        return slot

    def _ingress(self, job: Job) -> Iterator[Ingress]:
        """The streams that enter: raw ones from their spools, wherever their source is at home; else bridges."""
        entering = {
            (Instance(edge.parent), edge.parent_port)
            for instance in job.active
            for edge in self.running.tasks[instance].inputs
            if not self.running.tasks[Instance(edge.parent)].inputs or edge.parent not in job.active
        }
        for parent, port in sorted(entering):
            task = self.running.tasks[parent]
            if task.inputs:
                yield Ingress(stream=bridge_stream(parent, port), instance=parent, port=port, supply=Bridged())
            else:
                stream, supply = self.supply(task.config["source"])
                # Its schema may be another one by now. What runs goes on by the one that it was submitted with.
                supply = declaring(supply, fields_in(task.text))
                since = self.begins(task)
                yield Ingress(stream=stream, instance=parent, port=port, supply=supply, since=since)

    def _forwards(self, job: Job) -> Iterator[Forward]:
        leaving = {
            (bridge.parent, bridge.port)
            for instance in job.active
            if self.running.tasks[instance].inputs
            for bridge in self.jobs.leaving.get(instance, ())
        }
        for parent, port in sorted(leaving):
            yield Forward(instance=parent, port=port, epoch=1 + self.moves.get(parent, 0))

    def _deliveries(self, job: Job) -> Iterator[Delivery]:
        sinks = (instance for instance in sorted(job.active) if self.running.tasks[instance].type.is_sink)
        for instance, dataflow in ((sink, user) for sink in sinks for user in sorted(self.running.serves(sink))):
            submitted = self.running.dataflow(dataflow)
            for sink in submitted.sinks:
                # The ids are sorted.
                if submitted.instances[bisect_left(submitted.task_ids, sink)] == instance:
                    yield Delivery(
                        instance=instance,
                        tenant=submitted.tenant,
                        dataflow=public_id(dataflow),
                        sink=sink,
                        epoch=self.epochs.get(Delivered(dataflow, sink), 1),
                        output=submitted.outputs.get(sink),
                    )


def public_id(dataflow: str) -> str:
    """The tenant's id of a dataflow, without the revision that the running graph adds.

    >>> public_id("d-1~2"), public_id("d-1")
    ('d-1', 'd-1')
    """
    return dataflow.partition("~")[0]


_BRIDGE = "bridge/"


def bridge_stream(instance: int, port: str) -> str:
    """The name that a job gives the stream of a bridge.

    >>> bridge_stream(7, "out")
    'bridge/7:out'
    """
    return f"{_BRIDGE}{instance}:{port}"


def is_bridge(stream: str) -> bool:
    """Whether a stream comes over a bridge, and not from a source."""
    return stream.startswith(_BRIDGE)
