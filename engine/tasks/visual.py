"""Visual tasks: plots of events."""

from dags import NUMBER, Config, FieldFates, Kind, Read, Schemas, State, StateFate, TaskType
from engine.tasks.stream_statistics import Key, Window, key_of, key_reads
from engine.tasks.windows import TIME_KINDS


class LinePlotConfig(Config):
    """The fields to plot, and the number of points."""

    field: str
    """The number to plot."""
    x: str | None = None
    """The number or time of the horizontal axis; by default, the points are numbered."""
    by: Key = ()
    window: Window = 20
    """The number of points in a plot."""


def _point(config: LinePlotConfig) -> tuple[Read, ...]:
    across = () if config.x is None else (Read(at="x", field=config.x, kinds=NUMBER | TIME_KINDS),)
    return Read(at="field", field=config.field, kinds=NUMBER), *across, *key_reads(config)


def _drawn(config: LinePlotConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].only(config.by).plus("svg", Kind.STRING)}


LINE_PLOT = TaskType(
    name="line_plot",
    summary="Plots a field as a line, one plot per `window` events of a key, and emits it as SVG in the text field "
    "`svg`. Skips events in which a number is null.",
    selectivity="one event per `window` events of a key",
    gathers="window",
    config=LinePlotConfig,
    sets=lambda _config: ("svg",),
    reads=_point,
    output_schema=_drawn,
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(window=StateFate.KEPT),
)


class MultiLinePlotConfig(LinePlotConfig):
    """The fields to plot, and the field that names the line."""

    line: str = "field"
    """The field with the name of the point's line."""


MULTI_LINE_PLOT = TaskType(
    name="multi_line_plot",
    summary="Plots a field as lines, one for each value of another field, one plot per `window` events of a key, and "
    "emits it as SVG in the text field `svg`. Skips events in which a number or the line's name is null.",
    selectivity="one event per `window` events of a key",
    gathers="window",
    config=MultiLinePlotConfig,
    sets=lambda _config: ("svg",),
    reads=lambda config: (*_point(config), Read(at="line", field=config.line, kinds=frozenset({Kind.STRING}))),
    output_schema=_drawn,
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(window=StateFate.KEPT),
)
