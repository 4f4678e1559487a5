"""Task types: what documents may name, and the configs of their tasks."""

from typing import Any

from dags import State
from manager.answers.base import Answer


class TaskTypeAnswer(Answer):
    """A task type that documents may name."""

    name: str
    version: int
    summary: str
    inputs: tuple[str, ...] | None
    """Its input ports. None if they depend on the config, as in `outputs`."""
    outputs: tuple[str, ...] | None
    state: State
    """The state that its tasks keep."""
    config: dict[str, Any]
    """The JSON Schema of its configs."""
