"""Where dataflows begin and end."""

from dags import Config, NamesSource, TaskType

_SOURCE = TaskType(
    name="source",
    summary="Begins a dataflow: the events of a registered source, by its name.",
    config=NamesSource,
    inputs=(),
    selectivity="what the source gives",
)
"""A registered source, by name."""


class OutputConfig(Config):
    """An output has nothing to configure: its topic follows from the dataflow and the task's id."""


OUTPUT = TaskType(
    name="output",
    summary="Ends a dataflow: what reaches it is delivered on a topic of that dataflow's own.",
    config=OutputConfig,
    outputs=(),
    selectivity="delivers all",
)
"""The dataflow's own output topic. Delivery is per dataflow, so the task itself has no effect and may be shared."""

TYPES = (_SOURCE, OUTPUT)
"""All of this family."""
