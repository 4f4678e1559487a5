"""Reconfiguration: a running task gets a new config, another version of its type, or another type."""

import json
from collections.abc import Sequence
from typing import Any

from dags.config import Config
from dags.dataflow import Task
from dags.task_type import AnyTaskType, Schemas, State, StateFate, undeclared


def fate(
    old_type: AnyTaskType, old_config: dict[str, Any], new_type: AnyTaskType, new_config: dict[str, Any]
) -> StateFate | None:
    """The fate of a task's state, given its canonical configs; None if the types do not declare it."""
    if new_type.state is State.NONE:
        return StateFate.KEPT if old_type.state is State.NONE else StateFate.FRESH
    if old_type.name != new_type.name:
        return StateFate.TRANSFORMED if _continues(old_type, old_config, new_type, new_config) else None
    if old_type.version == new_type.version:
        if old_config == new_config:
            return StateFate.KEPT
    elif old_type.version not in new_type.keeps_state_of:
        return None
    return new_type.state_change(_read(new_type, old_config), _read(new_type, new_config))


def _continues(
    old_type: AnyTaskType, old_config: dict[str, Any], new_type: AnyTaskType, new_config: dict[str, Any]
) -> bool:
    """Whether a type makes its state from that of another one, for these configs."""
    known = next((continuation for continuation in new_type.continues if continuation.type == old_type.name), None)
    if known is None or old_type.version not in known.versions or old_type.state is not new_type.state:
        return False
    old, new = _read(old_type, old_config), _read(new_type, new_config)
    # A state per key can be read only by the same key.
    return old_type.key_fields(old) == new_type.key_fields(new) and all(
        getattr(old, field, None) == getattr(new, field) for field in known.same
    )


def fits(was: Task, becomes: Task) -> bool:
    """True if the state of a task goes with the events that reach it after a change above it.

    It does if the fields that the task reads keep their kinds. State that holds whole events, or of whose changes the
    type declares nothing, goes with the same schemas only.
    """
    kind = becomes.type
    if kind.state is State.NONE or was.schemas == becomes.schemas:
        return True
    if kind.keeps_events or kind.state_change is undeclared:
        return False
    read = _fields(was.type, _read(was.type, was.config)) & _fields(kind, _read(kind, becomes.config))
    return all(
        was.schemas[port].fields.get(field) == becomes.schemas[port].fields.get(field)
        for port, field in read
        if port in was.schemas and port in becomes.schemas
    )


def emitted(task: Task) -> Schemas:
    """The schema at each output port of a task that begins no dataflow."""
    return task.type.output_schema(_read(task.type, task.config), task.schemas)


def _fields(kind: AnyTaskType, config: Config) -> set[tuple[str, str]]:
    """The fields that a task reads, each with its port."""
    named = {(read.port, read.field) for read in kind.reads(config)}
    return named | {(port, field) for field in kind.key_fields(config) for port in kind.inputs}


class _Owners:
    """The outside of configs that are only compared: resolves a value to its owner, so that two owners' differ."""

    def secret(self, owner: str, _name: str) -> str:
        return owner

    def place(self, owner: str, _path: str) -> str:
        return owner

    def barred(self, _host: str) -> str:
        return "this config is only compared"

    def addresses(self, _host: str) -> Sequence[str]:
        return ()

    def code(self, digest: str) -> str:
        return digest

    def wheel(self, digest: str) -> str:
        return digest

    def vouched(self, _owner: str, _digest: str, _entry: str, _per: str) -> bool:
        return False


_OWNERS = _Owners()


def _read(kind: AnyTaskType, config: dict[str, Any]) -> Any:
    return kind.config.model_validate_json(json.dumps(config), context={"outside": _OWNERS})
