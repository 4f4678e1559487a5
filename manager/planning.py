"""From what runs for whom, and where, to the plans that the jobs execute."""

import json
from collections.abc import Iterator, Mapping

from engine.plan import Delivery, Edge, Forward, Ingress, Plan, Slot, SlotState
from engine.supply import Bridged, Supply
from merge import Instance, Job, JobId, Jobs, RunningGraph, RunningTask


class Planner:
    """Makes the plans of one state of the running graph and its jobs."""

    def __init__(self, running: RunningGraph, jobs: Jobs, supplies: Mapping[str, Supply]) -> None:
        """`supplies` says for each registered source, by name, where its events come from."""
        self._running = running
        self._jobs = jobs
        self._supplies = supplies

    def plan(self, job: JobId, *, version: int, term: int = 1, before: Plan | None = None) -> Plan:
        """The plan of a job; what it pauses has its slot in the plan before."""
        placed = self._jobs.jobs[job]
        active = [self._running.tasks[instance] for instance in sorted(placed.active)]
        kept = {slot.instance: slot for slot in before.slots} if before else {}
        paused = (
            Slot(
                instance=slot.instance,
                type=slot.type,
                version=slot.version,
                config=slot.config,
                inputs=slot.inputs,
                state=SlotState.PAUSED,
            )
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
            forwards=tuple(self._forwards(job)),
            deliveries=tuple(self._deliveries(placed)),
        )

    def _slot(self, task: RunningTask) -> Slot:
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
        )

    def _rank(self, parent: int) -> tuple[bytes, tuple[str, ...]]:
        # The order in which a task takes what several parents emit for one cause must not hang on who started first.
        key = self._running.tasks[Instance(parent)].key
        return key.signature, key.scope or ()

    def _ingress(self, job: Job) -> Iterator[Ingress]:
        """What enters: raw streams from their spools, whichever job their source is counted in; else bridges."""
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
                source = task.config["source"]
                yield Ingress(stream=f"source/{source}", instance=parent, port=port, supply=self._supplies[source])

    def _forwards(self, job: JobId) -> Iterator[Forward]:
        leaving = {
            (bridge.parent, bridge.port)
            for bridge in self._jobs.bridges
            if self._jobs.homes[bridge.parent].job == job and self._running.tasks[bridge.parent].inputs
        }
        for parent, port in sorted(leaving):
            yield Forward(instance=parent, port=port)

    def _deliveries(self, job: Job) -> Iterator[Delivery]:
        for name, dataflow in sorted(self._running.dataflows.items()):
            for sink, instance in sorted(self._running.produced(name).items()):
                if instance in job.active:
                    yield Delivery(instance=instance, tenant=dataflow.tenant, dataflow=name, sink=sink)
