"""The fate of each state in a reconfiguration: kept, transformed or fresh, as the task types declare; pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from dags import Problem, StateFate, fate
from dags.problems import pointer
from engine.state_change import FormerTask, StateChange
from merge import Instance, RunningGraph, RunningTask
from merge.reconfiguration.alteration import Alteration, is_changed


class ReconfiguredTask(NamedTuple):
    """A task that changes, is forked or fed otherwise, and the fate of its state; made by `reconfigured_tasks`."""

    was: RunningTask
    becomes: RunningTask
    fate: StateFate | None
    """None if its type does not declare it. An undo drops such a state."""

    @property
    def is_forked(self) -> bool:
        """Whether it gets an instance of its own."""
        return self.was.instance != self.becomes.instance

    @property
    def is_changed(self) -> bool:
        """Whether its type, version or config changes."""
        return is_changed(self.was, self.becomes)


def reconfigured_tasks(
    running: RunningGraph, by: Alteration, fresh: AbstractSet[Instance]
) -> tuple[ReconfiguredTask, ...]:
    """The tasks that change, are forked or fed otherwise; `running` is the graph before.

    Tasks in `fresh` lose their states.
    """
    pairs = [(running.tasks[task.instance], task) for task in by.alters]
    pairs += [(running.tasks[fork.origin], fork.task) for fork in by.forks if fork.origin is not None]

    def fate_of(was: RunningTask, becomes: RunningTask) -> StateFate | None:
        if becomes.instance in fresh:
            return StateFate.FRESH
        return None if becomes.instance in by.unfit else _fate(was, becomes)

    return tuple(
        ReconfiguredTask(was, becomes, fate_of(was, becomes))
        for was, becomes in pairs
        if was.instance != becomes.instance or becomes.instance in by.unfit | by.rewired or is_changed(was, becomes)
    )


def undeclared(tasks: Iterable[ReconfiguredTask], by: Alteration) -> Iterator[Problem]:
    """A problem for each task of which its type does not declare what becomes of its state."""
    _, new = by.swaps[0]
    for each in tasks:
        if each.fate is None:
            name = next((task for task, instance in new.places.items() if instance == each.becomes.instance), "")
            unfit = each.becomes.instance in by.unfit
            yield Problem(
                pointer=pointer("tasks", name),
                code="undeclared-state",
                message=f"the state of {name!r} was made from events with other fields"
                if unfit
                else f"type {each.becomes.type.name!r} does not declare what becomes of the state by this change",
                remedy=f'begin without state: send {{"fresh": ["{name}"]}} along',
            )


def unchanged(tasks: Iterable[ReconfiguredTask], by: Alteration, fresh: AbstractSet[str]) -> Iterator[Problem]:
    """A problem for each task that is to begin without state and does not change."""
    _, new = by.swaps[0]
    changed = {each.becomes.instance for each in tasks}
    for name in sorted(fresh):
        if new.places.get(name) not in changed:
            yield Problem(
                pointer=pointer("fresh"),
                code="unchanged-task",
                message=f"the task {name!r} does not change",
                remedy="name changed tasks only; to begin others anew, replace the document",
            )


def state_changes(tasks: Iterable[ReconfiguredTask]) -> Mapping[Instance, StateChange]:
    """For each task whose state is not simply kept what its plan says of it."""
    return {
        each.becomes.instance: StateChange(
            instance=each.becomes.instance,
            source=each.was.instance if each.is_forked else None,
            former=_former(each.was) if each.fate is StateFate.TRANSFORMED else None,
            fresh=each.fate is StateFate.FRESH or each.fate is None,
        )
        for each in tasks
        if each.is_forked or each.fate is not StateFate.KEPT
    }


def _fate(was: RunningTask, becomes: RunningTask) -> StateFate | None:
    return fate(was.type, was.config, becomes.type, becomes.config)


def _former(task: RunningTask) -> FormerTask:
    config = json.dumps(task.config, separators=(",", ":"))
    return FormerTask(type=task.type.name, version=task.type.version, config=config)
