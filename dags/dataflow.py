"""The canonical dataflow, which merging works on, and how the events of its tasks may be divided.

It is the same for all documents that mean the same. How tasks that hang together can work side by side follows from
what task types say, and is never configured. Tasks that streams join are divided in one of three ways:

- by key, if all of them with state keep it under the same fields, and these reach them unchanged from what enters. So
  all events that meet in one state stay together;
- by position, if no task keeps anything;
- not at all, if a task has one state for the whole stream, writes outside, or keeps its state under fields that are
  made on the way. Then one does all the work.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from dags.outputs import OutputSettings
from dags.schema import Kind
from dags.task_type import AnyTaskType, Effect, Schemas, State

GROUPS: Final = 128
"""The number of key groups. A job's state is imaged by group, and divided by group."""


class DividedBy(StrEnum):
    """The way in which the events of a stream are divided."""

    KEY = "key"
    POSITION = "position"
    NOTHING = "nothing"


class Divisibility(NamedTuple):
    """The way in which tasks that hang together are divided; made by `divisibility`."""

    by: DividedBy
    key: tuple[str, ...] = ()
    """The fields of the key, if they are divided by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKeeping:
    """What a task keeps and changes, as far as it decides how its events may be divided."""

    parents: tuple[int, ...]
    """The tasks whose streams enter it."""
    is_whole: bool
    """Whether it needs all events in one place."""
    key: tuple[str, ...] | None
    """The fields under which it keeps state; None if it keeps none."""
    sets: tuple[str, ...] | None
    """The fields that it may change; None for any."""

    @classmethod
    def of(cls, kind: AnyTaskType, config: Any, parents: Iterable[int]) -> "TaskKeeping":
        """That of a task with a config that was read."""
        return cls(
            parents=tuple(parents),
            is_whole=kind.state is State.STREAM or kind.effect is Effect.WRITES_OUTSIDE,
            key=tuple(kind.key_fields(config)) if kind.state is State.KEY else None,
            sets=None if kind.sets is None else tuple(kind.sets(config)),
        )


def divisibility(tasks: Mapping[int, TaskKeeping | None]) -> Divisibility:
    """The way in which tasks that hang together are divided; None stands for a task of which nothing is known."""
    known = {number: task for number, task in tasks.items() if task is not None}
    if len(known) < len(tasks) or any(task.is_whole for task in known.values()):
        return _WHOLE
    keyed = [task for task in known.values() if task.key is not None]
    keys = {task.key for task in keyed}
    if not keys:
        return _BY_POSITION
    key = keys.pop()
    if keys or not key:
        return _WHOLE
    above = _above(keyed, known)
    if any(task.sets is None or not set(key).isdisjoint(task.sets) for task in above):
        return _WHOLE
    return Divisibility(DividedBy.KEY, key)


def evenly(shards: int) -> tuple[int, ...]:
    """Key groups assigned to shards in turn.

    Ranges of groups would be less even: the checksums of keys that differ in their last digit differ in the low bits,
    so that sixteen numbered keys would all have groups of the lower half.

    >>> [evenly(3).count(shard) for shard in range(3)]
    [43, 43, 42]
    """
    return tuple(group % shards for group in range(GROUPS))


def shard_of_whole(tasks: Iterable[int], shards: int) -> int:
    """The shard that works for tasks that hang together and are not divided; always the same, so that no state moves.

    >>> shard_of_whole({7, 12}, 4)
    3
    """
    return min(tasks) % shards


def _above(below: Iterable[TaskKeeping], tasks: Mapping[int, TaskKeeping]) -> list[TaskKeeping]:
    """All tasks whose events some tasks depend on."""
    above: dict[int, TaskKeeping] = {}
    waiting = list(below)
    while waiting:
        for parent in waiting.pop().parents:
            if parent in tasks and parent not in above:
                above[parent] = tasks[parent]
                waiting.append(tasks[parent])
    return list(above.values())


_WHOLE = Divisibility(DividedBy.NOTHING)
_BY_POSITION = Divisibility(DividedBy.POSITION)


class Scope(NamedTuple):
    """Confines a task to one dataflow: only tasks in the same scope can be shared."""

    dataflow: str
    task: str
    """The id of the task that cannot be shared, or that follows several that cannot."""


class Key(NamedTuple):
    """The identity of a task: tasks with equal keys are one."""

    signature: bytes
    scope: Scope | None
    """None if the task may be shared."""


class Input(NamedTuple):
    """One edge into a task, with its multiplicity. Parents are positions; in running graphs, instances."""

    port: str
    parent: int
    parent_port: str
    times: int = 1


class JsonField(NamedTuple):
    """A field of kind `json` that reaches an input port of a task. The signature determines it."""

    port: str
    field: str


def config_in(text: bytes) -> dict[str, Any]:
    """The config in a text that was hashed.

    >>> config_in(b'["braid-1","map",1,{"add":2},[]]')
    {'add': 2}
    """
    config: dict[str, Any] = json.loads(text)[3]
    return config


def fields_in(text: bytes) -> dict[str, Kind]:
    """The fields that its source declared, in the text of a source task.

    >>> fields_in(b'["braid-1","source",1,{"source":"weather"},[["ann","weather",{"value":"integer"}]]]')
    {'value': <Kind.INTEGER: 'integer'>}
    """
    declared: dict[str, str] = json.loads(text)[4][0][2]
    return {name: Kind(kind) for name, kind in declared.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One distinct task of a dataflow, after equivalent tasks collapsed."""

    key: Key
    text: bytes
    """The text that was hashed. It is compared before anything is shared."""
    type: AnyTaskType
    inputs: tuple[Input, ...]
    json_fields: tuple[JsonField, ...] = ()
    schemas: Schemas = field(default_factory=dict, hash=False)
    """The schema at each input port that a stream enters. The signature determines them."""
    keeping: TaskKeeping | None = None
    """What it keeps, without its parents. The signature determines it."""
    tags: frozenset[str] = frozenset()
    """Tags that a host must offer to run it. They are no part of what it computes."""

    @property
    def config(self) -> dict[str, Any]:
        """The canonical config: complete, with every number normalised."""
        return config_in(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow:
    """A dataflow in canonical form; made by `canonicalise`."""

    id: str
    tenant: str
    name: str
    tasks: tuple[Task, ...]
    """Each after its parents, in an order that depends only on the computation."""
    places: dict[str, int]
    """The position in `tasks` of each task of the document. Equivalent tasks share one."""
    sinks: tuple[str, ...]
    """The ids of the document's sinks, sorted."""
    parts: tuple[tuple[int, ...], ...]
    """The sources of each connected part."""
    outputs: dict[str, OutputSettings] = field(default_factory=dict)
    """How sinks are delivered, by id, if not as always. It is no part of what they compute."""

    @property
    def streams(self) -> int:
        """The number of streams between distinct tasks."""
        return sum(len(task.inputs) for task in self.tasks)
