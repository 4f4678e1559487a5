"""The plan of a job that runs in memory, of tasks with numbers as their instances."""

import json
from collections.abc import Collection, Iterable, Mapping

from dags import Schema, Task
from engine.plan import Edge, Forward, Ingress, Plan, Slot, Subscribed
from merge import RunningTask


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
