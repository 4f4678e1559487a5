"""Where dataflows begin and end."""

from dags import Config, NamesSource, TaskType

SOURCE = TaskType(name="source", config=NamesSource, inputs=())
"""A registered source, by name."""


class OutputConfig(Config):
    """An output has nothing to configure: its topic follows from the dataflow and the task's id."""


OUTPUT = TaskType(name="output", config=OutputConfig, outputs=())
"""The dataflow's own output topic. Delivery is per dataflow, so the task itself has no effect and may be shared."""
