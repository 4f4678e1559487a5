"""Merge and unmerge: what a submitted dataflow shares with what runs, and what a removed one leaves behind.

Merging looks each task of the canonical dataflow up by its key, parents first. What is found is reused; since a
signature covers all ancestors, whatever is above a found task is found too. The rest is the residue. Unmerging takes
the dataflow from the users of its tasks; those that then have none stop. Both cost what the dataflow is large.

An explanation tells a tenant what a submission would reuse, as far as the tenant may know: which of its tasks already
run and, to the hour, since when. It depends neither on whose these are, nor on instance numbers, nor on anything over
sources that the tenant may not read.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from dags import Dataflow, State
from merge.errors import DataflowExists, SignatureCollision
from merge.running_graph import Change, RunningGraph
from merge.tasks import Instance, RunningTask, Submitted, downwards


def merge(running: RunningGraph, dataflow: Dataflow, now: datetime) -> Change:
    """The change by submitting a dataflow: the tasks that start, and those that are reused."""
    if dataflow.id in running.dataflows:
        raise DataflowExists(dataflow.id)
    places: list[Instance] = []
    starts: list[RunningTask] = []
    reuses: list[Instance] = []
    for task in dataflow.tasks:
        known = running.index.get(task.key)
        if known is not None:
            if running.tasks[known].text != task.text:
                raise SignatureCollision(task.key)
            reuses.append(known)
            places.append(known)
            continue
        instance = Instance(running.next_instance + len(starts))
        places.append(instance)
        starts.append(RunningTask.of(task, instance, places, now))
    submitted = Submitted.of(dataflow, places)
    return Change(
        base=running.version,
        submitted=submitted,
        starts=tuple(starts),
        reuses=tuple(reuses),
        running_dags=running.running_dags.join(submitted.parts),
        next_instance=Instance(running.next_instance + len(starts)),
    )


def unmerge(running: RunningGraph, dataflow: str) -> Change:
    """The change by removing a dataflow: the tasks that stop, and those that run on for others."""
    removed = running.dataflow(dataflow)
    releases, stops = _left(running, removed, frozenset())
    running_dags = running.running_dags.leave(removed.parts, frozenset(task.instance for task in stops))
    return Change(
        base=running.version,
        removed=removed,
        releases=releases,
        stops=stops,
        running_dags=running_dags,
        next_instance=running.next_instance,
    )


def swap(running: RunningGraph, dataflow: str, by: Dataflow, now: datetime) -> Change:
    """Merge one dataflow and unmerge another as one change; what both have in common neither starts nor stops."""
    merged = merge(running, by, now)
    removed = running.dataflow(dataflow)
    releases, stops = _left(running, removed, frozenset(merged.reuses))
    running_dags = merged.running_dags.leave(removed.parts, frozenset(task.instance for task in stops))
    return replace(merged, removed=removed, releases=releases, stops=stops, running_dags=running_dags)


def _left(
    running: RunningGraph, removed: Submitted, reused: frozenset[Instance]
) -> tuple[tuple[Instance, ...], tuple[RunningTask, ...]]:
    """The tasks of a removed dataflow that others need, and those that nobody does."""
    releases: list[Instance] = []
    stops: list[RunningTask] = []
    for task in reversed(downwards(running.tasks[instance] for instance in set(removed.instances))):
        if task.instance in reused or len(running.users[task.instance]) > 1:
            releases.append(task.instance)
        else:
            stops.append(task)
    return tuple(releases), tuple(stops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """One task of the document that already runs."""

    task: str
    since: datetime | None
    """For a task with state, the hour in which it started: it continues with that history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The meaning of a submission for its tenant; ids are the document's."""

    reuses: tuple[Reuse, ...]
    starts: tuple[str, ...]
    collapses: tuple[tuple[str, ...], ...]
    """Groups of tasks of the document that are equivalent and run as one."""
    distinct: int
    """How many tasks the dataflow has once equivalent ones are one."""
    residue: int
    """How many of these would start."""


def explain(running: RunningGraph, dataflow: Dataflow, now: datetime) -> Explanation:
    """The explanation of a merge that is not done."""
    return explained(running, merge(running, dataflow, now))


def explained(running: RunningGraph, change: Change) -> Explanation:
    """The tenant's view of a submission's change; the graph is the one before it."""
    if change.submitted is None:
        raise ValueError("the change submits nothing; explain one that merge made")
    residue = set(change.residue)
    groups: dict[int, list[str]] = {}
    reuses: list[Reuse] = []
    starts: list[str] = []
    for task, instance in change.submitted.places.items():
        groups.setdefault(instance, []).append(task)
        if instance in residue:
            starts.append(task)
            continue
        reused = running.tasks[instance]
        since = None if reused.type.state is State.NONE else reused.since.replace(minute=0, second=0, microsecond=0)
        reuses.append(Reuse(task=task, since=since))
    return Explanation(
        reuses=tuple(reuses),
        starts=tuple(starts),
        collapses=tuple(tuple(group) for group in groups.values() if len(group) > 1),
        distinct=len(groups),
        residue=len(residue),
    )
