"""The running graph: every distinct task that some submitted dataflow needs.

Deciding and doing are apart: `merge` and `unmerge` read the graph and return a `Change`; only advancing by it changes
the graph, at a cost that depends on the change alone. Plain dictionaries hold the tasks, because lookups by key are the
hot path: persistent maps were measured twice as slow there, and slower the more is running.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace

from dags import Key
from merge.change import Change
from merge.errors import NoSuchDataflow, StaleChange
from merge.running_dags import DagId, RunningDags
from merge.task import FIRST_INSTANCE, Instance, RunningTask, Submitted
from merge.users import Users, with_user, without_user


@dataclass(slots=True)
class RunningGraph:
    """All that runs, and for whom. Begin with the empty one; one committer applies changes, in order."""

    version: int = 0
    tasks: dict[Instance, RunningTask] = field(default_factory=dict)
    index: dict[Key, Instance] = field(default_factory=dict)
    users: dict[Instance, Users] = field(default_factory=dict)
    """The dataflows that each task serves."""
    dataflows: dict[str, Submitted] = field(default_factory=dict)
    running_dags: RunningDags = field(default_factory=RunningDags)
    next_instance: Instance = FIRST_INSTANCE

    def advance(self, change: Change) -> None:
        """Become the next running graph. A change computed from another version is refused and leaves no trace."""
        if change.base != self.version:
            raise StaleChange(change.base, self.version)
        if (removed := change.removed) is not None:
            del self.dataflows[removed.id]
            for instance in change.releases:
                self.users[instance] = without_user(self.users[instance], removed.id)
            for task in change.stops:
                del self.tasks[task.instance], self.index[task.key], self.users[task.instance]
        if (submitted := change.submitted) is not None:
            self.dataflows[submitted.id] = submitted
            for instance in change.reuses:
                self.users[instance] = with_user(self.users[instance], submitted.id)
            for task in change.starts:
                self.users[task.instance] = (submitted.id,)
                self.tasks[task.instance] = task
                self.index[task.key] = task.instance
        self.version += 1
        self.running_dags = change.running_dags
        self.next_instance = change.next_instance

    def snapshot(self) -> RunningGraph:
        """A copy that stays as it is, made in some milliseconds for a hundred thousand tasks."""
        return replace(
            self,
            tasks=dict(self.tasks),
            index=dict(self.index),
            users=dict(self.users),
            dataflows=dict(self.dataflows),
        )

    def dataflow(self, dataflow: str) -> Submitted:
        """The submitted dataflow of that id."""
        submitted = self.dataflows.get(dataflow)
        if submitted is None:
            raise NoSuchDataflow(dataflow)
        return submitted

    def produced(self, dataflow: str) -> dict[str, Instance]:
        """The instance that produces each sink of a dataflow."""
        submitted = self.dataflow(dataflow)
        places = submitted.places
        return {sink: places[sink] for sink in submitted.sinks}

    def serves(self, instance: Instance) -> frozenset[str]:
        """The dataflows that a running task serves."""
        return frozenset(self.users[instance])

    def tenants_of(self, instance: Instance) -> frozenset[str]:
        """The tenants that a task serves; none if it does not run."""
        return frozenset(self.dataflows[user].tenant for user in self.users.get(instance, ()))

    def only_for(self, tenants: Container[str]) -> frozenset[Instance]:
        """The tasks that nobody needs but some of these tenants."""
        theirs = (each for each in self.dataflows.values() if each.tenant in tenants)
        instances = frozenset(instance for dataflow in theirs for instance in dataflow.instances)
        return frozenset(each for each in instances if all(name in tenants for name in self.tenants_of(each)))

    def dag_of(self, instance: Instance) -> DagId:
        """The running DAG that a task belongs to: that of any source above it."""
        while (task := self.tasks[instance]).inputs:
            instance = Instance(task.inputs[0].parent)
        return self.running_dags.of_source[instance]

    def dags_of(self, dataflow: str) -> frozenset[DagId]:
        """The running DAGs that a dataflow is in: one for each of its connected parts, fewer where others join them."""
        return frozenset(self.running_dags.of_source[part[0]] for part in self.dataflow(dataflow).parts)
