"""The document: the JSON form in which a tenant submits a dataflow.

These models are the published JSON Schema (`docs/dataflow.schema.json`) and check a document's form only. The canonical
passes check its meaning (types, sources, ports, fields).
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from dags.json_text import LONGEST_KEY
from dags.ports import LONGEST_PORT

MOST_TASKS = 10_000
MOST_DOCUMENT_STREAMS = 50_000
MOST_TAGS = 50

# A task's id names its output topic, so it may contain no control character and none that is special in MQTT.
TaskId = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^/+#\x00-\x1f\x7f-\x9f]+$", strict=True)
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", strict=True)]
HostTag = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\s,\x00-\x1f\x7f-\x9f]+$", strict=True)
]
"""What a host must offer; the command line joins several by commas."""
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
    """As the task type's schema requires. Fields with a default may be left out."""
    module: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The module that planning chose for it. It has no effect on sharing."""
    # Not strict, because JSON has no tuples.
    tags: Annotated[tuple[HostTag, ...], Field(max_length=MOST_TAGS, strict=False)] = ()
    """Tags that a host must offer to run it, besides those of its type. They have no effect on sharing."""
    fresh: bool = False
    """Start this task and all tasks after it anew, instead of sharing tasks that already run."""


class StreamForm(_Form):
    """One stream: from an output port of a task to an input port of another."""

    origin: str = Field(alias="from", max_length=128)
    """The id of the task that emits."""
    from_port: PortName | None = None
    """May be left out if the task has one output port."""
    to: Annotated[str, StringConstraints(max_length=128)]
    """The id of the task that receives."""
    to_port: PortName | None = None
    """May be left out if the task has one input port."""


class Document(_Form):
    """A dataflow as its tenant wrote it."""

    model_config = ConfigDict(title="Braid dataflow")

    # Bounds, not a literal: a literal 1 also accepts true.
    version: Annotated[int, Field(ge=1, le=1)]
    """The version of the document format."""
    name: Name
    """A name for people. It has no effect on sharing."""
    # Not strict, because JSON has no tuples.
    tasks: Annotated[tuple[TaskForm, ...], Field(min_length=1, max_length=MOST_TASKS, strict=False)]
    streams: Annotated[tuple[StreamForm, ...], Field(max_length=MOST_DOCUMENT_STREAMS, strict=False)]
