"""The document: the JSON form in which a tenant submits a dataflow.

These models are the published JSON Schema (`docs/dataflow.schema.json`) and hold a document's form only. What its words
mean (types, sources, ports, fields) is for the canonical passes.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from dags.ports import LONGEST_PORT

MOST_TASKS = 10_000
MOST_DOCUMENT_STREAMS = 100_000
LONGEST_KEY = 1_000
"""Of a config, at every level: each problem below a key repeats it in its pointer."""

# A task's id names its output topic, so it may hold nothing that MQTT gives a meaning, and no control characters.
TaskId = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^/+#\x00-\x1f\x7f-\x9f]+$", strict=True)
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", strict=True)]
PortName = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_PORT, strict=True)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TaskForm(_Form):
    """One task: a vertex of the dataflow."""

    id: TaskId
    """Unique within the document."""
    type: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """The name of a task type in the catalogue."""
    config: dict[str, Any] = Field(
        default_factory=dict, json_schema_extra={"propertyNames": {"maxLength": LONGEST_KEY}}
    )
    """What the task type's schema asks for; defaults may be left out."""
    fresh: bool = False
    """Start this task and all that follows it anew instead of sharing what already runs."""


class StreamForm(_Form):
    """One stream: from an output port of a task to an input port of another."""

    origin: str = Field(alias="from", max_length=128)
    """The id of the task that emits."""
    from_port: PortName | None = None
    """May be left out where the task has one output port."""
    to: Annotated[str, StringConstraints(max_length=128)]
    """The id of the task that receives."""
    to_port: PortName | None = None
    """May be left out where the task has one input port."""


class Document(_Form):
    """A dataflow as its tenant wrote it."""

    model_config = ConfigDict(title="Braid dataflow")

    # Bounds and not a literal, because a literal 1 also takes true.
    version: Annotated[int, Field(ge=1, le=1)]
    """The version of this form."""
    name: Name
    """A name for people; it has no part in what is shared."""
    # Not strict here only: JSON has no tuples.
    tasks: Annotated[tuple[TaskForm, ...], Field(min_length=1, max_length=MOST_TASKS, strict=False)]
    streams: Annotated[tuple[StreamForm, ...], Field(max_length=MOST_DOCUMENT_STREAMS, strict=False)]
