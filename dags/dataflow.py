"""The canonical dataflow: what merging sees of a document, the same however the tenant wrote it down."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from dags.task_type import AnyTaskType


class Scope(NamedTuple):
    """Confines a task to one dataflow: equal tasks are one only within the same scope."""

    dataflow: str
    task: str
    """The id of the task that cannot be shared, or that follows several that cannot."""


class Key(NamedTuple):
    """What decides whether two tasks are one."""

    signature: bytes
    scope: Scope | None
    """None where sharing is allowed."""


class Input(NamedTuple):
    """One edge into a task, with its multiplicity. Parents are numbered by position, in running graphs by instance."""

    port: str
    parent: int
    parent_port: str
    times: int = 1


class JsonField(NamedTuple):
    """A field of kind `json` that reaches an input port of a task. The signature decides which there are."""

    port: str
    field: str


def config_in(text: bytes) -> dict[str, Any]:
    """The config within a text that was hashed.

    >>> config_in(b'["braid-1","map",1,{"add":2},[]]')
    {'add': 2}
    """
    config: dict[str, Any] = json.loads(text)[3]
    return config


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One distinct task of a dataflow, after equivalent ones collapsed."""

    key: Key
    text: bytes
    """What was hashed; compared before anything is shared."""
    type: AnyTaskType
    inputs: tuple[Input, ...]
    json_fields: tuple[JsonField, ...] = ()

    @property
    def config(self) -> dict[str, Any]:
        """The canonical config: complete, with every number normalised."""
        return config_in(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow:
    """A dataflow in canonical form, made by `canonicalise`."""

    id: str
    tenant: str
    name: str
    tasks: tuple[Task, ...]
    """Each after its parents, in an order that only the computation decides."""
    places: dict[str, int]
    """Where each task of the document is found among the tasks; several ids where equivalent tasks collapsed."""
    sinks: tuple[str, ...]
    """The ids of the document's sinks, sorted."""
    parts: tuple[tuple[int, ...], ...]
    """For each connected part, its sources."""
