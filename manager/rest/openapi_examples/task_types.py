"""Examples of task types."""

from dags import State
from manager.answers import Page, TaskTypeAnswer

_TASK_TYPE = TaskTypeAnswer(
    name="count",
    version=1,
    summary="Counts the events of each key.",
    inputs=("in",),
    outputs=("out",),
    state=State.KEY,
    config={
        "type": "object",
        "title": "CountConfig",
        "properties": {"by": {"title": "By", "type": "array", "items": {"type": "string"}, "default": []}},
        "additionalProperties": False,
    },
)
TASK_TYPE_PAGE = Page[TaskTypeAnswer](items=(_TASK_TYPE,))
