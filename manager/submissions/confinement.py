"""Confinement: tasks of a dataflow that are not shared although equal ones run, because of when those began.

A dataflow that begins at the earliest events that are kept shares nothing, since running tasks are further on. State
from before a tenant could read a source is not shared with it: instead of a task that holds such state it gets a
younger one, which starts fresh. Younger ones are named by the moment of the grant, so tenants to which a source was
opened at the same time share theirs.
"""

from collections.abc import Callable

from dags import Dataflow, Key, Scope, confine
from dags import State as Remembers
from manager.answers import Start
from manager.committed.state import CommittedState
from merge import RunningGraph


def confined(dataflow: Dataflow, state: CommittedState, start: Start) -> Dataflow:
    """A dataflow as it may be merged into what runs."""
    if start is Start.EARLIEST:
        ids = {place: task for task, place in sorted(dataflow.places.items(), reverse=True)}
        # What follows a source inherits its scope.
        return confine(dataflow, lambda at: None if dataflow.tasks[at].inputs else Scope(dataflow.id, ids[at]))
    since = _since(dataflow, state)
    if not any(since):
        return dataflow
    return confine(dataflow, _younger(dataflow, state.running, since))


def _since(dataflow: Dataflow, state: CommittedState) -> list[float]:
    """For each task the time since which the tenant may read all sources above it."""
    found: list[float] = []
    for task in dataflow.tasks:
        above = (found[edge.parent] for edge in task.inputs)
        found.append(max(above) if task.inputs else state.sources[task.config["source"]].since(dataflow.tenant))
    return found


def _younger(dataflow: Dataflow, running: RunningGraph, since: list[float]) -> Callable[[int], Scope | None]:
    def scope_of(at: int) -> Scope | None:
        task = dataflow.tasks[at]
        if task.type.state is Remembers.NONE or not since[at]:
            return None
        younger = Scope("", f"granted at {since[at]!r}")
        # That one first: a dataflow whose document is replaced keeps the one that it has.
        if Key(task.key.signature, younger) in running.index:
            return younger
        known = running.index.get(task.key)
        return younger if known is not None and running.tasks[known].since.timestamp() < since[at] else None

    return scope_of
