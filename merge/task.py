"""Running tasks and submitted dataflows: the records that the running graph is made of."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NewType

from dags import AnyTaskType, Config, Input, JsonField, Key, config_in
from dags.divisibility import TaskKeeping

Instance = NewType("Instance", int)
"""The id of one running of a task; never used again."""

FIRST_INSTANCE = Instance(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTask:
    """One instance of a distinct task; made by a merge, kept by the running graph."""

    instance: Instance
    key: Key
    text: bytes
    """The text behind the signature."""
    type: AnyTaskType
    inputs: tuple[Input, ...]
    """The streams that enter it; parents are instances."""
    json_fields: tuple[JsonField, ...] = ()
    since: datetime
    """When it was started."""
    tags: frozenset[str] = frozenset()
    """Tags that its host must offer: those it was started with, not those of dataflows that share it since."""
    keeping: TaskKeeping | None = field(default=None, compare=False)
    """What it keeps, without its parents; None if it was loaded, and its config has to be read for that."""

    @property
    def config(self) -> dict[str, Any]:
        """The canonical config."""
        return config_in(self.text)

    @property
    def typed_config(self) -> Config | None:
        """The config as its type reads it; None if the type is not known here as it runs."""
        read: type[Config] = self.type.config
        try:
            return read.model_validate_json(json.dumps(self.config))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A submitted dataflow as the running graph keeps it: where each of its tasks runs."""

    id: str
    tenant: str
    name: str
    task_ids: tuple[str, ...]
    """The ids of the document's tasks, sorted."""
    instances: tuple[Instance, ...]
    """Where each of them runs, in the same order; equivalent tasks run as one."""
    sinks: tuple[str, ...]
    parts: tuple[tuple[Instance, ...], ...]
    """For each connected part, its running sources."""

    @property
    def places(self) -> dict[str, Instance]:
        """The instance of each task of the document."""
        return dict(zip(self.task_ids, self.instances, strict=True))
