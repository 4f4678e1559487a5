"""Visual tasks: pictures of what events tell."""

from dags import NUMBER, Config, Kind, Read, Schemas, State, TaskType
from engine.tasks.stream_statistics import Key, Window, key_of, key_reads
from engine.tasks.windows import TIME_KINDS


class LinePlotConfig(Config):
    """What to draw, and how many points a picture has."""

    field: str
    """The number that is drawn."""
    x: str | None = None
    """The number or time that it is drawn over; without it, the points are numbered."""
    by: Key = ()
    window: Window = 20
    """How many points a picture has."""


def _point(config: LinePlotConfig) -> tuple[Read, ...]:
    across = () if config.x is None else (Read(at="x", field=config.x, kinds=NUMBER | TIME_KINDS),)
    return Read(at="field", field=config.field, kinds=NUMBER), *across, *key_reads(config)


def _drawn(config: LinePlotConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].only(config.by).plus("svg", Kind.STRING)}


LINE_PLOT = TaskType(
    name="line_plot",
    summary="Draws a field as a line, a picture for every `window` events of a key, and emits it as SVG in the text "
    "field `svg`. Events that lack a number are passed over.",
    selectivity="one event per `window` events of a key",
    gathers="window",
    config=LinePlotConfig,
    reads=_point,
    output_schema=_drawn,
    state=State.KEY,
    key_fields=key_of,
)
"""A picture of a line."""


class MultiLinePlotConfig(LinePlotConfig):
    """What to draw, and by which field the points are divided into lines."""

    line: str = "field"
    """The field that names a point's line."""


MULTI_LINE_PLOT = TaskType(
    name="multi_line_plot",
    summary="Draws a field as lines, one for each value of another, a picture for every `window` events of a key, and "
    "emits it as SVG in the text field `svg`. Events that lack a number or the line's name are passed over.",
    selectivity="one event per `window` events of a key",
    gathers="window",
    config=MultiLinePlotConfig,
    reads=lambda config: (
        *_point(config),
        Read(at="line", field=config.line, kinds=frozenset({Kind.STRING})),
    ),
    output_schema=_drawn,
    state=State.KEY,
    key_fields=key_of,
)
"""A picture of several lines."""

TYPES = (LINE_PLOT, MULTI_LINE_PLOT)
"""All of this family."""
