"""The ends of dataflows: sources and outputs."""

from dags import Config, NamesSource, TaskType
from dags.task_type import sets_nothing

_SOURCE = TaskType(
    name="source",
    summary="Begins a dataflow with the events of a registered source.",
    config=NamesSource,
    inputs=(),
    selectivity="all events of the source",
)
"""A registered source, by name."""


class OutputConfig(Config):
    """No settings: the topic follows from the dataflow and the task's id."""


OUTPUT = TaskType(
    name="output",
    summary="Ends a dataflow: its events are delivered on the dataflow's own topic.",
    config=OutputConfig,
    sets=sets_nothing,
    outputs=(),
    selectivity="delivers all",
)
"""The dataflow's output. Delivery is per dataflow, so the task itself has no effect and may be shared."""

END_TYPES = (_SOURCE, OUTPUT)
