"""The planner: makes the plans of jobs from the running graph and the places of its tasks."""

import json
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
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


class Planner:
    """Makes the plans of one state of the running graph and its jobs."""

    def __init__(  # noqa: PLR0913 - what runs, where, what feeds it, and what is kept from plan to plan are six things
        self,
        running: RunningGraph,
        jobs: Jobs,
        sources: Mapping[str, Supplied],
        epochs: Mapping[Delivered, int] = MappingProxyType({}),
        slots: dict[Instance, Made] | None = None,
        *,
        begins: Callable[[RunningTask], float | None] = lambda _source: None,
        moves: Mapping[Instance, int] = MappingProxyType({}),
        limits: Limits = NO_OTHER_LIMITS,
        quarantined: frozenset[str] = frozenset(),
    ) -> None:
        """`sources` has each registered source by name, `epochs` each sink whose numbers began anew.

        `moves` counts the moves of each task from job to job. `begins` gives the moment from which a source has events
        that were kept. `slots` is a cache from plan to plan, since most of a plan stays as it is. `quarantined` are
        the tenants in quarantine.
        """
        self._running = running
        self._jobs = jobs
        self._sources = sources
        self._epochs = epochs
        self._slots = {} if slots is None else slots
        self._begins = begins
        self._moves = moves
        self._limits = limits
        self._quarantined = quarantined

    def plan(self, job: JobId, *, version: int, term: int = 1, before: Plan | None = None) -> Plan:
        """The plan of a job; what it pauses has its slot in the plan before."""
        placed = self._jobs.jobs[job]
        active = [self._running.tasks[instance] for instance in sorted(placed.active)]
        kept = {slot.instance: slot for slot in before.slots} if before else {}
        paused = (
            slot if slot.state is SlotState.PAUSED else _paused(slot)
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
            state_bounds=_staying(before.state_bounds, placed.active) if before else {},
            limits=self._limits,
            workers=before.workers if before else self.workers(placed.active),
        )

    def workers(self, instances: Iterable[Instance]) -> str:
        """The name of the workers of a new job: a tenant's if they run nothing but tasks in its quarantine."""
        if not self._quarantined:
            return ""
        working = (each for each in instances if self._running.tasks[each].inputs)
        names = {quarantine_of(self._running.tenants_of(each), self._quarantined) for each in working}
        return names.pop() if len(names) == 1 else ""

    def _slot(self, task: RunningTask) -> Slot:
        made = self._slots.get(task.instance)
        if made is None or made.task is not task:
            made = self._slots[task.instance] = Made(task, self._made(task))
        return made.slot

    def _made(self, task: RunningTask) -> Slot:
        edges = sorted(task.inputs, key=lambda edge: (edge.port, *self._rank(edge.parent), edge.parent_port))
        return Slot(
            instance=task.instance,
            type=task.type.name,
            version=task.type.version,
            config=json.dumps(task.config, separators=(",", ":")),
            inputs=tuple(
                Edge(port=edge.port, parent=edge.parent, parent_port=edge.parent_port, times=edge.times)
                for edge in edges
            ),
            json_fields=task.json_fields,
        )

    def _rank(self, parent: int) -> tuple[bytes, tuple[str, ...]]:
        # The order in which a task takes the outputs of several parents must not depend on which started first.
        key = self._running.tasks[Instance(parent)].key
        return key.signature, key.scope or ()

    def _ingress(self, job: Job) -> Iterator[Ingress]:
        """The streams that enter: raw ones from their spools, wherever their source is at home; else bridges."""
        entering = {
            (Instance(edge.parent), edge.parent_port)
            for instance in job.active
            for edge in self._running.tasks[instance].inputs
            if not self._running.tasks[Instance(edge.parent)].inputs or edge.parent not in job.active
        }
        for parent, port in sorted(entering):
            task = self._running.tasks[parent]
            if task.inputs:
                yield Ingress(stream=f"bridge/{parent}:{port}", instance=parent, port=port, supply=Bridged())
            else:
                stream, supply = self._sources[task.config["source"]]
                # Its schema may be another one by now. What runs goes on by the one that it was submitted with.
                supply = declaring(supply, fields_in(task.text))
                since = self._begins(task)
                yield Ingress(stream=stream, instance=parent, port=port, supply=supply, since=since)

    def _forwards(self, job: Job) -> Iterator[Forward]:
        leaving = {
            (bridge.parent, bridge.port)
            for instance in job.active
            if self._running.tasks[instance].inputs
            for bridge in self._jobs.leaving.get(instance, ())
        }
        for parent, port in sorted(leaving):
            yield Forward(instance=parent, port=port, epoch=1 + self._moves.get(parent, 0))

    def _deliveries(self, job: Job) -> Iterator[Delivery]:
        for instance in sorted(job.active):
            if self._running.tasks[instance].type.is_sink:
                for dataflow in sorted(self._running.serves(instance)):
                    yield from self._delivered(instance, dataflow)

    def _delivered(self, instance: Instance, dataflow: str) -> Iterator[Delivery]:
        submitted = self._running.dataflow(dataflow)
        for sink in submitted.sinks:
            # The ids are sorted.
            if submitted.instances[bisect_left(submitted.task_ids, sink)] == instance:
                yield Delivery(
                    instance=instance,
                    tenant=submitted.tenant,
                    dataflow=public_id(dataflow),
                    sink=sink,
                    epoch=self._epochs.get(Delivered(dataflow, sink), 1),
                )


def _staying(bounds: Mapping[int, int], active: Container[int]) -> Mapping[int, int]:
    """The bounds of states that are in the job still."""
    return {instance: most for instance, most in bounds.items() if instance in active}


def _paused(slot: Slot) -> Slot:
    return Slot(
        instance=slot.instance,
        type=slot.type,
        version=slot.version,
        config=slot.config,
        inputs=slot.inputs,
        json_fields=slot.json_fields,
        state=SlotState.PAUSED,
    )


def public_id(dataflow: str) -> str:
    """The tenant's id of a dataflow, without the revision that the running graph adds.

    >>> public_id("d-1~2"), public_id("d-1")
    ('d-1', 'd-1')
    """
    return dataflow.partition("~")[0]
