"""Running tasks and submitted dataflows, the order of tasks, and how many there are of each kind.

The running graph is made of these records. A task that is merged is younger than its parents, so the order of their
numbers mostly has each task after its parents. A task that was inserted while others ran is younger than those it
feeds. Sources, steps and outputs are counted apart, because they cost too unlike to be one number.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NewType

import networkx as nx

from dags import AnyTaskType, Config, Dataflow, Input, JsonField, Key, Task, config_in
from dags.dataflow import TaskKeeping
from dags.outputs import OutputSettings

Instance = NewType("Instance", int)
"""The id of one running of a task; never used again."""

FIRST_INSTANCE = Instance(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTask:
    """One instance of a distinct task; made by a merge, kept by the running graph."""

    instance: Instance
    key: Key
    text: bytes
    """The text behind the signature."""
    type: AnyTaskType
    inputs: tuple[Input, ...]
    """The streams that enter it; parents are instances."""
    json_fields: tuple[JsonField, ...] = ()
    since: datetime
    """When it was started."""
    tags: frozenset[str] = frozenset()
    """Tags that its host must offer: those it was started with, not those of dataflows that share it since."""
    keeping: TaskKeeping | None = field(default=None, compare=False)
    """What it keeps, without its parents; None if it was loaded, and its config has to be read for that."""

    @classmethod
    def of(cls, task: Task, instance: Instance, places: Sequence[Instance], since: datetime) -> "RunningTask":
        """A task of a dataflow as it runs, with the instances of the tasks before it."""
        return cls(
            instance=instance,
            key=task.key,
            text=task.text,
            type=task.type,
            inputs=tuple(edge._replace(parent=places[edge.parent]) for edge in task.inputs),
            json_fields=task.json_fields,
            since=since,
            tags=task.tags,
            keeping=task.keeping,
        )

    @property
    def config(self) -> dict[str, Any]:
        """The canonical config."""
        return config_in(self.text)

    @property
    def typed_config(self) -> Config | None:
        """The config as its type reads it; None if the type is not known here as it runs."""
        read: type[Config] = self.type.config
        try:
            return read.model_validate_json(json.dumps(self.config))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A submitted dataflow as the running graph keeps it: where each of its tasks runs."""

    id: str
    tenant: str
    name: str
    task_ids: tuple[str, ...]
    """The ids of the document's tasks, sorted."""
    instances: tuple[Instance, ...]
    """Where each of them runs, in the same order; equivalent tasks run as one."""
    sinks: tuple[str, ...]
    parts: tuple[tuple[Instance, ...], ...]
    """For each connected part, its running sources."""
    outputs: Mapping[str, OutputSettings] = field(default_factory=dict)
    """How sinks are delivered, by id, if not as always."""

    @classmethod
    def of(cls, dataflow: Dataflow, places: Sequence[Instance]) -> "Submitted":
        """A dataflow whose distinct tasks run as these instances."""
        return cls(
            id=dataflow.id,
            tenant=dataflow.tenant,
            name=dataflow.name,
            task_ids=tuple(dataflow.places),
            instances=tuple(places[place] for place in dataflow.places.values()),
            sinks=dataflow.sinks,
            parts=tuple(tuple(sorted(places[source] for source in part)) for part in dataflow.parts),
            outputs=dataflow.outputs,
        )

    @property
    def places(self) -> dict[str, Instance]:
        """The instance of each task of the document."""
        return dict(zip(self.task_ids, self.instances, strict=True))


def downwards(tasks: Iterable[RunningTask]) -> tuple[RunningTask, ...]:
    """The tasks, each after its parents; else by their numbers."""
    there = {task.instance: task for task in sorted(tasks, key=lambda task: task.instance)}
    if all(edge.parent < task.instance or edge.parent not in there for task in there.values() for edge in task.inputs):
        return tuple(there.values())
    graph: nx.DiGraph[Instance] = nx.DiGraph()
    graph.add_nodes_from(there)
    parents = ((Instance(edge.parent), task.instance) for task in there.values() for edge in task.inputs)
    graph.add_edges_from((parent, child) for parent, child in parents if parent in there)
    return tuple(there[instance] for instance in nx.lexicographical_topological_sort(graph))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """The number of tasks of each kind; made by `counted`."""

    sources: int = 0
    steps: int = 0
    """Tasks with inputs and outputs."""
    outputs: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.sources + self.steps + self.outputs

    def plus(self, more: "TaskCounts") -> "TaskCounts":
        """Both together."""
        return TaskCounts(
            sources=self.sources + more.sources, steps=self.steps + more.steps, outputs=self.outputs + more.outputs
        )

    def minus(self, less: "TaskCounts") -> "TaskCounts":
        """These without others."""
        return TaskCounts(
            sources=self.sources - less.sources, steps=self.steps - less.steps, outputs=self.outputs - less.outputs
        )


def counted(kinds: Iterable[AnyTaskType]) -> TaskCounts:
    """The counts of tasks of these types, one type for each task."""
    sources = outputs = total = 0
    for kind in kinds:
        total += 1
        sources += kind.is_source
        outputs += kind.is_sink
    return TaskCounts(sources=sources, steps=total - sources - outputs, outputs=outputs)
