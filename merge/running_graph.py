"""The running graph: every distinct task that some submitted dataflow needs.

A frozen record of persistent maps. Applying a change costs what the change is large, whatever is running; the graph
before it stays as it was, so that whoever reads keeps one consistent picture while others submit.
"""

# rpds's classes take no parameters at run time.
from __future__ import annotations

from dataclasses import dataclass, field, replace

import networkx as nx
from rpds import HashTrieMap

from dags import Key
from merge.change import Change
from merge.errors import NoSuchDataflow, StaleChange
from merge.running_dags import DagId, RunningDags
from merge.task import FIRST_INSTANCE, Instance, RunningTask, Submitted
from merge.users import with_user, without_user


@dataclass(frozen=True, slots=True)
class RunningGraph:
    """What runs for whom. Begin with the empty one and apply changes."""

    version: int = 0
    tasks: HashTrieMap[Instance, RunningTask] = field(default_factory=HashTrieMap)
    index: HashTrieMap[Key, Instance] = field(default_factory=HashTrieMap)
    dataflows: HashTrieMap[str, Submitted] = field(default_factory=HashTrieMap)
    running_dags: RunningDags = field(default_factory=RunningDags)
    next_instance: Instance = FIRST_INSTANCE

    def apply(self, change: Change) -> RunningGraph:
        """The next running graph. A change computed from another version is refused."""
        if change.base != self.version:
            raise StaleChange(change.base, self.version)
        tasks, index, dataflows = self.tasks, self.index, self.dataflows
        if (removed := change.removed) is not None:
            dataflows = dataflows.remove(removed.id)
            for instance in change.releases:
                task = tasks[instance]
                tasks = tasks.insert(instance, replace(task, users=without_user(task.users, removed.id)))
            for task in change.stops:
                tasks = tasks.remove(task.instance)
                index = index.remove(task.key)
        if (submitted := change.submitted) is not None:
            dataflows = dataflows.insert(submitted.id, submitted)
            for instance in change.reuses:
                task = tasks[instance]
                tasks = tasks.insert(instance, replace(task, users=with_user(task.users, submitted.id)))
            for task in change.starts:
                tasks = tasks.insert(task.instance, task)
                index = index.insert(task.key, task.instance)
        return RunningGraph(
            version=self.version + 1,
            tasks=tasks,
            index=index,
            dataflows=dataflows,
            running_dags=change.running_dags,
            next_instance=change.next_instance,
        )

    def dataflow(self, dataflow: str) -> Submitted:
        """The submitted dataflow of that id."""
        submitted = self.dataflows.get(dataflow)
        if submitted is None:
            raise NoSuchDataflow(dataflow)
        return submitted

    def produced(self, dataflow: str) -> dict[str, Instance]:
        """Where each sink of a dataflow is produced."""
        submitted = self.dataflow(dataflow)
        places = submitted.places
        return {sink: places[sink] for sink in submitted.sinks}

    def serves(self, instance: Instance) -> frozenset[str]:
        """The dataflows that a running task serves."""
        return frozenset(self.tasks[instance].users)

    def dag_of(self, instance: Instance) -> DagId:
        """The running DAG that a task belongs to: that of any source above it."""
        while (task := self.tasks[instance]).inputs:
            instance = Instance(task.inputs[0].parent)
        return self.running_dags.of_source[instance]

    def dags_of(self, dataflow: str) -> frozenset[DagId]:
        """The running DAGs that a dataflow is in: one for each of its connected parts, fewer where others join them."""
        return frozenset(self.running_dags.of_source[part[0]] for part in self.dataflow(dataflow).parts)

    def to_networkx(self) -> nx.MultiDiGraph[Instance]:
        """The running tasks and streams, for questions about the whole graph."""
        graph: nx.MultiDiGraph[Instance] = nx.MultiDiGraph()
        graph.add_nodes_from(self.tasks)
        for instance, task in self.tasks.items():
            for edge in task.inputs:
                ports = (edge.parent_port, edge.port)
                graph.add_edge(Instance(edge.parent), instance, key=ports, times=edge.times)
        return graph
