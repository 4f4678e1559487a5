"""The alteration of the running graph by a reconfiguration, as data; and which changed tasks stay shared.

A task gets a new config, type or version and keeps its instance and its state, if all dataflows that use it agree. If
others use it too, the dataflow gets a copy, a *fork*, of this task and of all its own tasks below, with the states that
they have at that moment. Tasks may also be inserted or taken out between others, which then get other inputs only.

An altered, inserted or forked task and all below it have a history of their own. So their keys get a scope, and nothing
that is submitted later shares them. Sources have no history, and are shared as always.

Nor do *joined* tasks have one. A task without state whose parents are shared as always emits what any equal task emits.
So it keeps the key that it would have if it had just been submitted, and later ones may join it. If an equal task runs
in the same job, the dataflow uses that from the switch on. What would be joined across jobs gets a scope, since a job
cannot begin to read another's stream at a place that nobody knows beforehand; and so does what would take the place of
a task that itself changes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from dags import Dataflow, Key, Scope, Task
from merge.errors import StaleChange
from merge.jobs import JobId, Jobs
from merge.reconfiguration.covering import reached
from merge.running_graph import RunningDags, RunningGraph, with_user, without_user
from merge.tasks import Instance, RunningTask, Submitted, downwards


class Edit(NamedTuple):
    """An edited dataflow: tasks change in their types and configs, and come and go between others."""

    old: str
    """The running graph's id of the dataflow as it is."""
    by: Dataflow
    """The edited one, under its next id; affected tasks have the scopes of `histories`, unless they have none."""
    affected: frozenset[str]
    """The ids of the tasks that are changed, inserted or fed otherwise, and of all below them."""
    unfit: frozenset[str] = frozenset()
    """The ids of the tasks whose states do not go with the events that reach them from now on."""
    apart: frozenset[str] = frozenset()
    """The ids of the tasks that may switch before or after the others."""


class Fork(NamedTuple):
    """A new instance, and the one whose state it starts with; None for a source, and for a task that is inserted."""

    task: RunningTask
    origin: Instance | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """One reconfiguration of the running graph; made by `alteration`, applied by `altered` or `alter`."""

    base: int
    """The version of the running graph that it was computed from."""
    swaps: tuple[tuple[Submitted, Submitted], ...]
    """Each dataflow as it was, and as it will be."""
    alters: tuple[RunningTask, ...]
    """The tasks that keep their instances, with their new keys, types and configs."""
    forks: tuple[Fork, ...]
    """Each after its parents."""
    stops: tuple[RunningTask, ...]
    """The tasks that nobody needs any more. Each before its parents."""
    running_dags: RunningDags
    next_instance: Instance
    unfit: frozenset[Instance] = frozenset()
    """The tasks, as they are after it, whose states do not go with the events that reach them from now on."""
    apart: frozenset[Instance] = frozenset()
    """The tasks, as they are after it, that may switch before or after the others."""
    rewired: frozenset[Instance] = frozenset()
    """The tasks, as they are after it, that are fed by other tasks of their dataflow than before."""

    @property
    def inserted(self) -> tuple[RunningTask, ...]:
        """The tasks that are inserted. Each after its parents."""
        return tuple(fork.task for fork in self.forks if fork.origin is None and fork.task.inputs)

    @property
    def removed(self) -> frozenset[Instance]:
        """The tasks that are taken out; others may use them."""
        gone = (old.places[task] for old, new in self.swaps for task in set(old.task_ids) - set(new.task_ids))
        return frozenset(gone).difference(*(new.instances for _, new in self.swaps))


def changed_ids(tasks: Mapping[str, RunningTask], edited: Dataflow) -> frozenset[str]:
    """The ids of the tasks whose type, version or config differs from what runs."""
    return frozenset(
        task for task, place in edited.places.items() if task in tasks and is_changed(tasks[task], edited.tasks[place])
    )


def below(streams: Iterable[tuple[str, str]], ids: Collection[str]) -> frozenset[str]:
    """Some tasks of a document, and all below them.

    >>> sorted(below([("a", "b"), ("b", "c"), ("x", "c")], ["b"]))
    ['b', 'c']
    """
    following: dict[str, list[str]] = {}
    for origin, to in streams:
        following.setdefault(origin, []).append(to)
    return frozenset(reached(ids, following))


def histories(tasks: Mapping[str, RunningTask], affected: Iterable[str], name: str) -> dict[str, Scope]:
    """The scopes of the affected tasks of a dataflow, by their ids. `name` is unique to the reconfiguration.

    Tasks that run as one stay one if they stay equal; others stay apart even if they become equal.
    """
    known = {task: str(running.instance) for task, running in tasks.items() if running.inputs}
    # No instance has such a name.
    return {task: Scope(name, known.get(task, f"+{task}")) for task in affected if task not in tasks or task in known}


def alteration(
    running: RunningGraph, edits: Sequence[Edit], now: datetime, *, first: Instance | None = None
) -> Alteration:
    """The alteration by a reconfiguration of some dataflows at once; `first` is the instance reserved for its forks."""
    begins = running.next_instance if first is None else first
    making = _Making(running, edits, now, begins)
    swaps = tuple((running.dataflow(edit.old), making.swapped(edit)) for edit in edits)
    stays = {instance for _, new in swaps for instance in new.instances}

    def placed(ids: Iterable[Collection[str]]) -> frozenset[Instance]:
        return frozenset(new.places[task] for own, (_, new) in zip(ids, swaps, strict=True) for task in own)

    names = {edit.old for edit in edits}
    left = {instance for old, _ in swaps for instance in old.instances} - stays
    unused = (running.tasks[instance] for instance in left if names.issuperset(running.users[instance]))
    stops = tuple(reversed(downwards(unused)))
    return Alteration(
        base=running.version,
        swaps=swaps,
        alters=tuple(making.alters),
        forks=tuple(making.forks),
        stops=stops,
        running_dags=_running_dags(running.running_dags, swaps, {task.instance for task in stops}),
        next_instance=max(running.next_instance, Instance(begins + len(making.forks))),
        unfit=placed(edit.unfit for edit in edits),
        # Those of several dataflows only if all of them say so.
        apart=placed(edit.apart for edit in edits) - placed(edit.by.places.keys() - edit.apart for edit in edits),
        rewired=frozenset(making.rewired),
    )


def _running_dags(
    dags: RunningDags, swaps: Sequence[tuple[Submitted, Submitted]], stopped: set[Instance]
) -> RunningDags:
    for _, new in swaps:
        dags = dags.join(new.parts)
    for number, (old, _) in enumerate(swaps):
        # A source goes with the last dataflow that reads it.
        later = {instance for other, _ in swaps[number + 1 :] for instance in other.instances}
        dags = dags.leave(old.parts, frozenset(stopped - later))
    return dags


def alter(running: RunningGraph, by: Alteration) -> None:
    """Make the running graph the one after a reconfiguration."""
    if by.base != running.version:
        raise StaleChange(by.base, running.version)
    for task in by.alters:
        del running.index[running.tasks[task.instance].key]
    for fork in by.forks:
        running.users[fork.task.instance] = ()
    for task in (*by.alters, *(fork.task for fork in by.forks)):
        running.tasks[task.instance] = task
        running.index[task.key] = task.instance
    for old, new in by.swaps:
        del running.dataflows[old.id]
        running.dataflows[new.id] = new
        for instance in set(old.instances):
            running.users[instance] = without_user(running.users[instance], old.id)
        for instance in set(new.instances):
            running.users[instance] = with_user(running.users[instance], new.id)
    for task in by.stops:
        del running.tasks[task.instance], running.index[task.key], running.users[task.instance]
    running.version += 1
    running.running_dags = by.running_dags
    running.next_instance = by.next_instance


def altered(running: RunningGraph, by: Alteration) -> RunningGraph:
    """The running graph after a reconfiguration, beside the one that is. Costs as much as all that runs."""
    users = {instance: set(names) if isinstance(names, set) else names for instance, names in running.users.items()}
    copy = replace(
        running, tasks=dict(running.tasks), index=dict(running.index), users=users, dataflows=dict(running.dataflows)
    )
    alter(copy, by)
    return copy


class _Making:
    """An alteration while it is made, dataflow by dataflow."""

    def __init__(self, running: RunningGraph, edits: Sequence[Edit], now: datetime, first: Instance) -> None:
        self.alters: list[RunningTask] = []
        self.forks: list[Fork] = []
        self.rewired: set[Instance] = set()
        self._running = running
        self._now = now
        self._first = first
        self._names = frozenset(edit.old for edit in edits)
        self._made: dict[Key, Instance] = {}
        self._becomes: dict[Instance, set[Key | None]] = {}
        """For each instance the keys that it is to have; None where it stays as it is."""
        for edit in edits:
            places = running.dataflow(edit.old).places
            for task, place in edit.by.places.items():
                if task not in places:
                    continue
                key = edit.by.tasks[place].key if task in edit.affected else None
                self._becomes.setdefault(places[task], set()).add(key)

    def swapped(self, edit: Edit) -> Submitted:
        old, by = self._running.dataflow(edit.old), edit.by
        origins = {by.places[task]: instance for task, instance in old.places.items() if task in by.places}
        affected = {by.places[task] for task in edit.affected}
        places: list[Instance] = []
        for at, task in enumerate(by.tasks):
            if at not in affected:
                places.append(origins[at])
            elif at not in origins:
                places.append(self._forked(self._new(task, places, self._now), None))
            else:
                places.append(self._placed(task, origins, origins[at], places))
        return Submitted.of(by, places)

    def _placed(
        self, task: Task, origins: Mapping[int, Instance], origin: Instance, places: Sequence[Instance]
    ) -> Instance:
        """Where an affected task runs that ran before."""
        # What has no scope has no history.
        if task.key.scope is None and (shared := self._running.index.get(task.key)) is not None:
            return shared
        if (known := self._made.get(task.key)) is not None:
            return known
        was = self._running.tasks[origin]
        becomes = self._new(task, places, was.since if task.inputs else self._now)
        # What is below a fork is forked too, and what reads another source.
        stays = all(places[edge.parent] == origins.get(edge.parent, places[edge.parent]) for edge in task.inputs)
        is_agreed = len(self._becomes[origin]) == 1 and self._names.issuperset(self._running.users[origin])
        if task.inputs and stays and is_agreed:
            self.alters.append(replace(becomes, instance=origin))
            self._made[task.key] = origin
        else:
            self._made[task.key] = self._forked(becomes, origin if task.inputs else None)
        # Its inputs if all tasks still ran where they did; nothing runs as 0.
        fed_by = Counter(edge._replace(parent=origins.get(edge.parent, 0)) for edge in task.inputs)
        if fed_by != Counter(was.inputs):
            self.rewired.add(self._made[task.key])
        return self._made[task.key]

    def _new(self, task: Task, places: Sequence[Instance], since: datetime) -> RunningTask:
        """A task as a new instance, whose number is not used unless it is forked."""
        return RunningTask.of(task, Instance(self._first + len(self.forks)), places, since)

    def _forked(self, task: RunningTask, origin: Instance | None) -> Instance:
        self.forks.append(Fork(task, origin))
        return task.instance


def is_changed(was: RunningTask, becomes: RunningTask | Task) -> bool:
    """Whether the type, the version or the config differs."""
    return (was.type.name, was.type.version, was.config) != (becomes.type.name, becomes.type.version, becomes.config)


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
            origins = {places.get(name) for name in ids[at]}
            if len(origins) > 1 or not task.inputs or key in taken or not stateless >= set(ids[at]):
                continue
            origin = next(iter(origins))
            if origin is None or any(tasks[edge.parent].key.scope is not None for edge in task.inputs):
                continue
            below = (child for child, reader in enumerate(by.tasks) if any(edge.parent == at for edge in reader.inputs))
            if self._may_have(key, origin, [places.get(name) for child in below for name in ids[child]]):
                self._given[key] = origin
                taken.add(key)
                tasks[at] = replace(task, key=key)
        return edit._replace(by=replace(by, tasks=tuple(tasks)))

    def _may_have(self, key: Key, origin: Instance, readers: Sequence[Instance | None]) -> bool:
        if self._given.get(key, origin) != origin:
            return False
        present = self._running.index.get(key)
        if present is None:
            return True
        if present in self._changing:
            return False
        homes = {self._job(instance) for instance in (origin, *readers)}
        return homes == {self._job(present)}

    def _job(self, instance: Instance | None) -> JobId | None:
        return None if instance is None else self._jobs.homes[instance].job
