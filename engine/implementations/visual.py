"""Visual tasks: plots of events, as SVG.

Equal events give equal bytes: a plot has no date, its ids come from a fixed salt, and settings files are ignored. Text
stays text, and is never read as a formula.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, NoBehaviour, PortEmission
from engine.implementations.values import Flags, blocks, floats, keyed, plain
from engine.records.state import Staged
from engine.tasks.visual import LINE_PLOT, MULTI_LINE_PLOT, LinePlotConfig, MultiLinePlotConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LARGEST = 1e30
"""The largest number that is plotted. Axes of larger ones would overflow."""
_empty: "list[Figure]" = []
"""The free figures of this process. They are reused, because axes and ticks are up to half of the work of a plot."""


class _Line(NamedTuple):
    name: str
    xs: list[float]
    ys: list[float]


class _Picture(NamedTuple):
    x_label: str
    y_label: str
    lines: Sequence[_Line]


def _line_plot(config: LinePlotConfig) -> Behaviour:
    """Emits a plot at the event that completes a window, with a point for each event, connected in their order.

    On a time axis, points are placed by the seconds since the first one. The state is the points of the incomplete
    window, per key.

    >>> out = try_out("line_plot", {"field": "t", "window": 2}, [{"t": 20.0}, {"t": 21.0}])["out"]
    >>> out[0]["svg"][:14], ">t</text>" in out[0]["svg"]
    ('<?xml version=', True)
    """
    return _plot(LINE_PLOT.name, config, None)


def _multi_line_plot(config: MultiLinePlotConfig) -> Behaviour:
    """Like `line_plot`, with a line for each name in the window, in the order of their first events.

    >>> rows = [{"field": "dust", "value": 20.0}, {"field": "light", "value": 21.0}]
    >>> out = try_out("multi_line_plot", {"field": "value", "window": 2}, rows)["out"]
    >>> ">dust</text>" in out[0]["svg"], ">light</text>" in out[0]["svg"]
    (True, True)
    """
    return _plot(MULTI_LINE_PLOT.name, config, config.line)


def _plot(type_: str, config: LinePlotConfig, line: str | None) -> Behaviour:
    draw = _drawing(type_)
    by = tuple(dict.fromkeys(field for field in config.by if field != "svg"))

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        ys, present = _numbers(events, config.field)
        columns: list[list[Any]] = [ys]
        for name, read in ((config.x, _across), (line, _names)):
            if name is not None:
                values, are_present = read(events, name)
                columns.append(values)
                present &= are_present
        known = np.flatnonzero(present)
        chosen = [[column[place] for place in known.tolist()] for column in columns]
        complete = events.take(pa.array(known))
        completed = blocks(keyed(complete, config.by), chosen, config.window, state)
        timed = config.x is not None and pa.types.is_timestamp(events.schema.field(config.x).type)
        drawn = [draw(_picture(config, line, block.columns, timed=timed)) for block in completed]
        ends = np.array([block.end for block in completed], np.int64)
        kept = {name: complete.column(name).take(pa.array(ends)) for name in by}
        return {"out": PortEmission(pa.record_batch(kept | {"svg": pa.array(drawn, pa.string())}), known[ends])}

    return behave


def _numbers(events: pa.RecordBatch, name: str) -> tuple[list[Any], Flags]:
    values, present = floats(events, name)
    large = values[np.abs(values) > _LARGEST]
    if len(large):
        raise ValueError(f"the field {name!r} is {large[0]}; plots draw numbers up to {_LARGEST:g}")
    return values.tolist(), present.copy()


def _across(events: pa.RecordBatch, name: str) -> tuple[list[Any], Flags]:
    column = events.column(name)
    if not pa.types.is_timestamp(column.type):
        return _numbers(events, name)
    return plain(column), column.is_valid().to_numpy(zero_copy_only=False)


def _names(events: pa.RecordBatch, name: str) -> tuple[list[Any], Flags]:
    column = events.column(name)
    return column.to_pylist(), column.is_valid().to_numpy(zero_copy_only=False)


def _picture(config: LinePlotConfig, line: str | None, columns: Sequence[list[Any]], *, timed: bool) -> _Picture:
    ys = columns[0]
    xs = list(range(1, len(ys) + 1)) if config.x is None else columns[1]
    across = "number" if config.x is None else config.x
    if timed:
        across = f"{across}: seconds since {np.datetime64(xs[0], 'ms')}Z"
        xs = [(x - xs[0]) / 1000 for x in xs]
    names = columns[-1] if line is not None else [config.field] * len(ys)
    lines = {name: _Line(str(name), [], []) for name in names}
    for name, x, y in zip(names, xs, ys, strict=True):
        lines[name].xs.append(x)
        lines[name].ys.append(y)
    return _Picture(across, config.field, list(lines.values()))


def _drawing(type_: str) -> Callable[[_Picture], str]:
    """The function that draws. It loads matplotlib, but not its global state."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an optional package, which only plots need
        from matplotlib.figure import Figure  # noqa: PLC0415 - as above
    except ImportError as error:
        raise NoBehaviour(f"{type_} needs matplotlib ({error}); install it on every worker") from None

    @contextmanager
    def settings() -> Iterator[None]:
        with mpl.rc_context(), warnings.catch_warnings():
            # The viewer draws characters that this font lacks.
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            mpl.rcdefaults()
            mpl.rcParams["path.simplify"] = False
            mpl.rcParams["svg.fonttype"] = "none"
            mpl.rcParams["svg.hashsalt"] = "braid"
            mpl.rcParams["text.parse_math"] = False
            yield

    def draw(picture: _Picture) -> str:
        with settings():
            figure = _empty.pop() if _empty else Figure(figsize=(8, 4.5))
            # Fitting the margins to the texts would take as long as drawing.
            axes = figure.axes[0] if figure.axes else figure.add_axes((0.12, 0.13, 0.85, 0.83))
            for number, line in enumerate(picture.lines):
                axes.plot(line.xs, line.ys, marker=".", gid=f"line-{number}")
            axes.set_xlabel(_printable(picture.x_label))
            axes.set_ylabel(_printable(picture.y_label))
            if len(picture.lines) > 1:
                axes.legend(axes.get_lines(), [_printable(line.name) for line in picture.lines])
            written = StringIO()
            figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
            _clear(axes)
            # Not after a failure, which may leave parts of the plot.
            _empty.append(figure)
        return written.getvalue()

    return draw


def _clear(axes: "Axes") -> None:
    """Remove the lines of a plot, but keep the ticks."""
    for line in axes.get_lines():
        line.remove()
    if (legend := axes.get_legend()) is not None:
        legend.remove()
    axes.set_prop_cycle(None)
    axes.relim()
    axes.autoscale()


def _printable(text: str) -> str:
    """A text without characters that SVG does not allow."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


line_plot = Implementation(type=LINE_PLOT, make=_line_plot)
multi_line_plot = Implementation(type=MULTI_LINE_PLOT, make=_multi_line_plot)
