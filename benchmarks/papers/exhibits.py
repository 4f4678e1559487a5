"""What papers show, as data: tables and figures, and where a benchmark's results have the same.

A table or figure is a table of rows and columns, each twice: with what the paper says, and with a reading, which is a
path into a benchmark's results. A step of a path is a key, a place in a list, or what an item of a list has to hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

Step: TypeAlias = str | int | Mapping[str, Any]


class PaperRange(NamedTuple):
    """A range of figures that a paper names for several cases; without an end if it says "at least"."""

    low: float
    high: float | None = None


Shown: TypeAlias = float | PaperRange | str | None
"""What a paper says: a number, a range, words, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperBenchmark:
    """A benchmark that makes some of a paper's experiments."""

    name: str
    module: str
    quick: tuple[str, ...] | None = ("--quick",)
    """Its arguments; None if it only runs at full length."""
    full: tuple[str, ...] = ()
    written: str = ""
    """The file below `docs/evidence` that it writes; empty if its results are its last line."""


class MeasuredFigure:
    """A figure of ours: where it stands, what it is divided by, and whether its interval stands beside it."""

    __slots__ = ("_benchmark", "_has_bounds", "_over", "_path")

    def __init__(
        self, benchmark: str, *path: Step, over: tuple[Step, ...] | None = None, has_bounds: bool = False
    ) -> None:
        self._benchmark = benchmark
        self._path = path
        self._over = over
        self._has_bounds = has_bounds

    def taken(self, results: Mapping[str, Any]) -> float | None:
        """The figure from the results of all benchmarks; None if it is not among them."""
        mine = results.get(self._benchmark)
        value, divisor = _at(mine, self._path), 1.0 if self._over is None else _at(mine, self._over)
        return (
            value / divisor if isinstance(value, float | int) and isinstance(divisor, float | int) and divisor else None
        )

    def bounds(self, results: Mapping[str, Any]) -> tuple[float, float] | None:
        """The bounds of its interval, which have its name with `_low` and `_high`; None if it has none."""
        mine, (*above, name) = results.get(self._benchmark), self._path
        low, high = (_at(mine, (*above, f"{name}_{bound}")) for bound in ("low", "high"))
        return (low, high) if self._has_bounds and low is not None and high is not None else None


def _at(value: Any, path: tuple[Step, ...]) -> Any:
    for step in path:
        if isinstance(step, Mapping):
            items = value if isinstance(value, list) else []
            value = next((item for item in items if step.items() <= item.items()), None)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column of a table, or a line of a figure."""

    title: str
    form: str = ".2f"
    """How its numbers are written, as Python formats them."""
    is_drawn: bool = True
    """Whether the picture has it; not if it has another unit than the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """A row of a table, or a place on the axis of a figure; with an entry for each column."""

    name: str
    paper: tuple[Shown, ...]
    ours: tuple[MeasuredFigure | None, ...]


def row_of(name: str, *ours: MeasuredFigure | None, paper: tuple[Shown, ...] = ()) -> ComparedRow:
    """A row of our figures, where the paper says something in the first columns, or in none."""
    return ComparedRow(name=name, paper=(*paper, *(None,) * (len(ours) - len(paper))), ours=ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """How a table is drawn: the paper's on the left and ours on the right, along the same axes."""

    kind: Literal["bars", "lines"]
    up: str
    across: str = ""
    is_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A table or figure of a paper, and what was measured here."""

    place: str
    """Where it stands in the paper, as in "Table 4.2"; empty for what no paper has."""
    title: str
    columns: tuple[ComparedColumn, ...]
    rows: tuple[ComparedRow, ...]
    note: str = ""
    """What explains differences. Figures of ours do not belong here, since nobody would bring them up to date."""
    plot: Plot | None = None
    needs_quiet: bool = False
    """Whether it only counts if nothing else ran on the machine; else ratios within a run are worth something."""
    picture: str = ""
    """One below `docs/evidence` that the benchmark draws itself."""

    @property
    def heading(self) -> str:
        """What stands above it."""
        return f"{self.place}: {self.title}" if self.place else self.title


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What a reader should know of a paper's experiments: a sentence with places for figures of ours."""

    text: str
    """With a replacement field for each reading, in their order."""
    readings: tuple[MeasuredFigure, ...]
    exhibit: str
    """The heading of the one whose picture stands beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper and its experiments."""

    number: str
    title: str
    source: str
    """Who wrote it, and where it stands."""
    about: str
    """What is compared, and how the two differ."""
    benchmarks: tuple[PaperBenchmark, ...]
    exhibits: tuple[Exhibit, ...]
    missing: Mapping[str, str]
    """What it has and no benchmark makes, with the reason."""
    headline: Headline
