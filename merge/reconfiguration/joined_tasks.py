"""Joined tasks: which of the tasks that a reconfiguration changes need no history of their own. Pure.

A task without state whose parents are shared as always emits what any equal task emits, whatever it was before. So it
keeps the key that it would have if it had just been submitted. If an equal task runs in the same job, the dataflow uses
that from the switch on, at a batch boundary; what was forked is one again. If not, later ones may join it.

All else gets a scope, as its history says. So does what would be joined across jobs, since a job cannot begin to read
another's stream at a place that nobody knows beforehand, and what would take the place of a task that itself changes.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from dags import Dataflow, Key
from merge.jobs import JobId, Jobs
from merge.reconfiguration.alteration import Edit
from merge.running_graph import RunningGraph
from merge.task import Instance


def joined(
    running: RunningGraph, jobs: Jobs, edits: Sequence[Edit], stateless: Sequence[AbstractSet[str]]
) -> tuple[Edit, ...]:
    """The edits, with shared keys for those tasks that need no history.

    `stateless` has for each edit the ids of tasks that keep no state, and would be shared if they had just been
    submitted. No sink is among them, because it numbers what it delivers.
    """
    making = _Joining(running, jobs, edits)
    return tuple(making.joined(edit, open_) for edit, open_ in zip(edits, stateless, strict=True))


class _Joining:
    """The shared keys while they are given, dataflow by dataflow."""

    def __init__(self, running: RunningGraph, jobs: Jobs, edits: Sequence[Edit]) -> None:
        self._running = running
        self._jobs = jobs
        before = [(edit, running.dataflow(edit.old).places) for edit in edits]
        self._changing = frozenset(places[task] for edit, places in before for task in edit.affected if task in places)
        self._given: dict[Key, Instance] = {}
        """For each key that was given what had it before."""

    def joined(self, edit: Edit, stateless: AbstractSet[str]) -> Edit:
        by, places = edit.by, self._running.dataflow(edit.old).places
        ids: dict[int, list[str]] = {}
        for name, at in by.places.items():
            ids.setdefault(at, []).append(name)
        tasks = list(by.tasks)
        taken = {task.key for task in tasks}
        for at, task in enumerate(by.tasks):
            key = Key(task.key.signature, None)
            origins = {places.get(each) for each in ids[at]}
            if len(origins) > 1 or not task.inputs or key in taken or not stateless >= set(ids[at]):
                continue
            origin = next(iter(origins))
            if origin is None or any(tasks[edge.parent].key.scope is not None for edge in task.inputs):
                continue
            readers = [places.get(each) for child in _readers(by, at) for each in ids[child]]
            if self._may_have(key, origin, readers):
                self._given[key] = origin
                taken.add(key)
                tasks[at] = replace(task, key=key)
        return edit._replace(by=replace(by, tasks=tuple(tasks)))

    def _may_have(self, key: Key, origin: Instance, readers: Sequence[Instance | None]) -> bool:
        if self._given.get(key, origin) != origin:
            return False
        found = self._running.index.get(key)
        if found is None:
            return True
        if found in self._changing:
            return False
        homes = {self._job(each) for each in (origin, *readers)}
        return homes == {self._job(found)}

    def _job(self, instance: Instance | None) -> JobId | None:
        return None if instance is None else self._jobs.homes[instance].job


def _readers(by: Dataflow, at: int) -> Iterator[int]:
    return (child for child, task in enumerate(by.tasks) if any(edge.parent == at for edge in task.inputs))
