"""The explanation of a submission: what it would reuse, as far as its tenant may know.

The tenant learns which of its tasks already run and, to the hour, since when; nothing here depends on whose they are,
on instance numbers, or on anything over sources that it may not read.
"""

from dataclasses import dataclass
from datetime import datetime

from dags import Dataflow, State
from merge.change import Change
from merge.merger import merge
from merge.running_graph import RunningGraph


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
        found = running.tasks[instance]
        since = None if found.type.state is State.NONE else found.since.replace(minute=0, second=0, microsecond=0)
        reuses.append(Reuse(task=task, since=since))
    return Explanation(
        reuses=tuple(reuses),
        starts=tuple(starts),
        collapses=tuple(tuple(group) for group in groups.values() if len(group) > 1),
        distinct=len(groups),
        residue=len(residue),
    )
