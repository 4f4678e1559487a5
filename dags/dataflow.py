"""The canonical dataflow, which merging works on: the same for all documents that mean the same."""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dags.divisibility import TaskKeeping
from dags.schema import Kind
from dags.task_type import AnyTaskType, Schemas


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

    @property
    def streams(self) -> int:
        """The number of streams between distinct tasks."""
        return sum(len(task.inputs) for task in self.tasks)
