"""The division of a plan: which of its events and states belong to which shard of a batch.

It is derived from what the tasks of a plan keep, never configured. A connected part of a plan is divided in one of
three ways:

- by key, if all its tasks with state keep it under the same fields, and these are in the raw events and reach the tasks
  unchanged. So all events that meet in one state are in one shard;
- by position, if no task keeps anything;
- not at all, if a task has one state for the whole stream, writes outside, or keeps its state under fields that are
  made on the way. Then the whole part belongs to one shard.

A task whose key is made on the way needs its events exchanged. Streams between jobs do that: behind a bridge the key is
in what enters.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dags import Catalogue, Effect, State, TaskType
from engine.division import UNDIVIDED, DividedBy, Division, StreamDivision, evenly
from engine.plan import Plan, PlanPart, Slot


def divided(plan: Plan, catalogue: Catalogue) -> Division:
    """The division of a plan over its shards."""
    if plan.shards == 1:
        return UNDIVIDED
    tasks = {slot.instance: _Task.of(slot, catalogue) for slot in plan.slots}
    streams: dict[str, StreamDivision] = {}
    # A paused task takes no events, so it is in no part. Its state stays where it is.
    whole = {each: 0 for each, task in tasks.items() if task is None or task.key is None}
    for part in plan.parts():
        found = _of_part(part, tasks, plan.shards)
        streams.update(dict.fromkeys(part.streams, found))
        if found.by is DividedBy.NOTHING:
            whole.update(dict.fromkeys(part.instances & tasks.keys(), found.shard))
    for change in plan.changes:
        # The state that a fork takes over has to be where the fork is.
        if change.source is not None and change.source not in tasks and change.instance in whole:
            whole[change.source] = whole[change.instance]
    return Division(
        shards=plan.shards,
        groups=plan.groups or evenly(plan.shards),
        streams=streams,
        keyed=frozenset(tasks.keys() - whole.keys()),
        whole=whole,
    )


def _of_part(part: PlanPart, tasks: Mapping[int, "_Task | None"], shards: int) -> StreamDivision:
    # Always the same shard, so that a graft elsewhere moves no state.
    undivided = StreamDivision(by=DividedBy.NOTHING, shard=min(part.instances) % shards)
    known = {each: task for each in part.instances & tasks.keys() if (task := tasks[each]) is not None}
    if len(known) < len(part.instances & tasks.keys()) or any(task.is_whole for task in known.values()):
        return undivided
    keys = {task.key for task in known.values() if task.key is not None}
    if not keys:
        return StreamDivision(by=DividedBy.POSITION)
    key = keys.pop()
    if keys or not key:
        return undivided
    above = _above((task for task in known.values() if task.key is not None), known)
    if any(task.sets is None or not set(key).isdisjoint(task.sets) for task in above):
        return undivided
    return StreamDivision(by=DividedBy.KEY, key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What the division needs to know of a task."""

    slot: Slot
    is_whole: bool
    key: tuple[str, ...] | None
    """The fields under which it keeps state; None if it keeps none."""
    sets: tuple[str, ...] | None

    @classmethod
    def of(cls, slot: Slot, catalogue: Catalogue) -> "_Task | None":
        """The task of a slot; None if its type is not known here."""
        kind: TaskType[Any] | None = catalogue.find(slot.type)
        if kind is None or kind.version != slot.version:
            return None
        config = kind.config.model_validate_json(slot.config)
        return cls(
            slot=slot,
            is_whole=kind.state is State.STREAM or kind.effect is Effect.WRITES_OUTSIDE,
            key=tuple(kind.key_fields(config)) if kind.state is State.KEY else None,
            sets=None if kind.sets is None else tuple(kind.sets(config)),
        )


def _above(below: Iterable[_Task], tasks: Mapping[int, _Task]) -> list[_Task]:
    """All tasks whose events some tasks depend on."""
    found: dict[int, _Task] = {}
    waiting = list(below)
    while waiting:
        for edge in waiting.pop().slot.inputs:
            if edge.parent in tasks and edge.parent not in found:
                found[edge.parent] = tasks[edge.parent]
                waiting.append(tasks[edge.parent])
    return list(found.values())
