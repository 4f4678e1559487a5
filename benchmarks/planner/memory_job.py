"""A job in memory: it runs a dataflow's tasks batch after batch in this process, without host, Spark and spool."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bridge.raw_events import arrow_schema
from bridge.spools.log import packed
from dags import Dataflow, Schema, Task
from engine.behaviour import behaviours_of, installed_behaviours
from engine.code.store import CodeStore, digest_of
from engine.kernel.batch import Arrived, run_batch
from engine.offset import Offset
from engine.outside import HostOutside
from engine.plan import Edge, Entry, Forward, Ingress, Plan, Slot, Subscribed
from engine.records.record import Record
from engine.records.state import InstanceStates
from engine.trial import rows_of
from merge import RunningTask
from workloads.adaptive.scenario import AdaptiveScenario
from workloads.pipelines.scenario import PipelineScenario
from workloads.workload import Event


def memory_plan(
    tasks: Iterable[tuple[int, Task | RunningTask]], schemas: Mapping[str, Schema], forwards: Collection[int]
) -> Plan:
    """The plan that takes sources in by their names, and gives what some tasks emit."""
    ingress: list[Ingress] = []
    slots: list[Slot] = []
    for number, task in tasks:
        if not task.inputs:
            name = task.config["source"]
            supply = Subscribed(topic=name, fields=dict(schemas[name].fields))
            ingress.append(Ingress(stream=name, instance=number, supply=supply))
            continue
        inputs = tuple(
            Edge(port=edge.port, parent=edge.parent, parent_port=edge.parent_port, times=edge.times)
            for edge in task.inputs
        )
        slots.append(
            Slot(
                instance=number,
                type=task.type.name,
                version=task.type.version,
                config=json.dumps(task.config),
                inputs=inputs,
            )
        )
    return Plan(
        job="j",
        host="h",
        version=1,
        slots=tuple(slots),
        ingress=tuple(ingress),
        forwards=tuple(Forward(instance=instance) for instance in forwards),
    )


Batches = Sequence[Sequence[Arrived]]
MemoryScenario = AdaptiveScenario | PipelineScenario
"""What has the code, the sources and the events of a dataflow."""


class MemoryJob:
    """A job for one dataflow of a scenario, in a root of its own with the sources of the scenario's code."""

    def __init__(self, root: Path, scenario: MemoryScenario, flow: Dataflow) -> None:
        for module in scenario.modules:
            if "code" in module:
                source = module["code"]["source"]
                CodeStore(root).put(digest_of(source), source)
        plan = memory_plan(enumerate(flow.tasks), scenario.schemas, [flow.places[sink] for sink in flow.sinks])
        self._sinks = {flow.places[sink]: sink for sink in flow.sinks}
        self._entry = Entry(number=1, plan=plan, starts={})
        self._behaviours = behaviours_of(plan.slots, installed_behaviours(), outside=HostOutside(root))
        self._state = InstanceStates()
        self._begun = 0

    def run(self, arrived: Sequence[Arrived]) -> Record:
        """Run the next batch. The first one begins the plan."""
        record = run_batch(
            self._begun,
            self._entry,
            Offset(entry=min(self._begun, 1)),
            Offset(entry=1),
            arrived,
            self._state,
            self._behaviours,
            deployment="d",
        )
        self._begun += 1
        self._state.settle(record)
        if record.dead:
            raise RuntimeError(f"events are parked: {record.dead[0].reason}")
        return record

    def left(self, batches: Batches) -> dict[str, list[dict[str, Any]]]:
        """Run some batches, and return the events that reach each sink."""
        left: dict[str, list[dict[str, Any]]] = {sink: [] for sink in self._sinks.values()}
        for arrived in batches:
            for emitted in self.run(arrived).emitted:
                if emitted.events is not None and emitted.origin.instance in self._sinks:
                    left[self._sinks[emitted.origin.instance]] += emitted.events.to_pylist()
        return left


def batches_of(scenario: MemoryScenario, seed: int, *, batches: int, rounds: int) -> Batches:
    """The events of some rounds of a scenario, in batches of so many rounds each."""
    drawn = scenario.rounds(seed)
    return [list(_arrived(scenario, list(islice(drawn, rounds)), at)) for at in range(batches)]


def _arrived(scenario: MemoryScenario, rounds: Sequence[Mapping[str, Event]], at: int) -> Iterable[Arrived]:
    for name, schema in scenario.schemas.items():
        rows = rows_of([events[name] for events in rounds], arrow_schema(schema))
        yield Arrived(name, at * len(rounds), len(rounds), at, packed(rows))
