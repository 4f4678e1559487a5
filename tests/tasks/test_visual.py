"""Plots: read back from the SVG alone, and equal bytes for equal events."""

import math
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from dags import Kind, Schema
from engine.implementations import visual
from engine.implementations.visual import line_plot, multi_line_plot
from engine.trial import At, Event, Parked, try_out
from tests.tasks.agreeing import agrees
from tests.tasks.references import EPOCH, key_of

SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a picture shows; made by `read_back`."""

    across: str
    """What is written below the picture."""
    up: str
    """What is written beside it."""
    lines: dict[str, list[Point]]
    """The points of each line, by its name in the legend; where there is no legend, by what is written beside it."""


def parsed(svg: str) -> ET.Element:
    """The picture's elements."""
    return ET.fromstring(svg)  # noqa: S314 - we wrote it


def texts(svg: str) -> list[str]:
    """Everything that is written in a picture."""
    return _texts(parsed(svg))


def drawn(svg: str) -> dict[str, list[Point]]:
    """The points of each line, by its number, where they lie in the picture; each has a mark, and a path joins them."""
    found = {}
    for group in parsed(svg).iter(f"{SVG}g"):
        name = group.get("id", "")
        path = group.find(f"{SVG}path")
        if name.startswith("line-") and path is not None:
            joined = [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path.get("d", ""))]
            marks = [(float(use.get("x", "")), float(use.get("y", ""))) for use in group.iter(f"{SVG}use")]
            assert joined == marks, "the path goes from mark to mark"
            found[name] = joined
    return found


def read_back(svg: str) -> Drawn:
    """What a picture shows, in the numbers of its axes."""
    found = parsed(svg)
    groups = {group.get("id", ""): group for group in found.iter(f"{SVG}g")}
    across, up = (_texts(groups[f"matplotlib.axis_{axis}"])[-1] for axis in (1, 2))
    scales = [_scale(found, name, at) for name, at in (("xtick", "x"), ("ytick", "y"))]
    points = [[(scales[0].number(x), scales[1].number(y)) for x, y in each] for each in drawn(svg).values()]
    names = _texts(groups["legend_1"]) if "legend_1" in groups else [up]
    return Drawn(across=across, up=up, lines=dict(zip(names, points, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """An axis: where it has which numbers."""

    origin: float
    number_there: float
    numbers_a_point: float

    def number(self, place: float) -> float:
        return self.number_there + (place - self.origin) * self.numbers_a_point


def _scale(found: ET.Element, name: str, at: str) -> _Scale:
    """The scale that all ticks of an axis agree on."""
    ticks = [_tick(group, at) for group in found.iter(f"{SVG}g") if group.get("id", "").startswith(f"{name}_")]
    (first, low), (last, high) = ticks[0], ticks[-1]
    scale = _Scale(origin=first, number_there=low, numbers_a_point=(high - low) / (last - first))
    for place, number in ticks:
        assert abs(scale.number(place) - number) < abs(high - low) / 1_000, "ticks lie where their numbers say"
    return scale


def _tick(group: ET.Element, at: str) -> Point:
    use = next(each for each in group.iter(f"{SVG}use") if each.get(_LINK))
    return float(use.get(at, "")), float(_texts(group)[0].replace("\N{MINUS SIGN}", "-"))


def _texts(element: ET.Element) -> list[str]:
    return ["".join(each.itertext()) for each in element.iter(f"{SVG}text")]


SCHEMA = Schema.of(at=Kind.TIMESTAMP, field=Kind.STRING, k=Kind.STRING, value=Kind.FLOAT)
ROWS: list[Event] = [
    {
        "at": EPOCH + timedelta(seconds=number),
        "field": "dust" if number % 3 else "light",
        "k": "a" if number % 4 else None,
        "value": None if number == 5 else float(number * number),
    }
    for number in range(11)
]


def in_one_batch(config: dict[str, Any], type_: str, lacking: tuple[str, ...]) -> Any:
    """The pictures of each window alone."""

    def reference(events: Iterator[Event]) -> Iterator[At]:
        kept: dict[Any, list[Event]] = defaultdict(list)
        for event in events:
            if all(event[name] is not None for name in lacking):
                block = kept[key_of(event, config["by"])]
                block.append(event)
                if len(block) == config["window"]:
                    yield "out", try_out(type_, config, block, SCHEMA)["out"][0]
                    block.clear()

    return reference


@pytest.mark.parametrize(
    ("implementation", "config", "lacking"),
    [
        (line_plot, {"field": "value", "by": ["k"], "window": 4}, ("value",)),
        (multi_line_plot, {"field": "value", "x": "at", "by": [], "window": 5}, ("value", "at", "field")),
    ],
)
def test_a_plot_does_not_depend_on_the_ends_of_batches(
    implementation: Any, config: dict[str, Any], lacking: tuple[str, ...]
) -> None:
    """Equal events give equal bytes, in one plot per window of complete events."""
    agrees(
        implementation,
        config,
        ROWS,
        in_one_batch(config, implementation.type.name, lacking),
        SCHEMA,
        poisonous=[{"k": "a", "field": "dust", "at": EPOCH, "value": math.nan}],
    )


EVENT = st.fixed_dictionaries(
    {
        "at": st.none() | st.integers(0, 90).map(lambda seconds: EPOCH + timedelta(seconds=seconds)),
        "field": st.none() | st.sampled_from(["dust", "light", "warmth"]),
        "k": st.none() | st.sampled_from(["a", "b"]),
        "value": st.none() | st.integers(-900, 900).map(lambda tenths: tenths / 10),
    }
)


def pictures(events: list[Event], config: dict[str, Any], *, line: bool) -> list[tuple[str | None, Drawn]]:
    """What plots show by their definition, with the key of each: a point after the other, each in the line it names."""
    found: list[tuple[str | None, Drawn]] = []
    kept: dict[str | None, list[Event]] = defaultdict(list)
    needed = ["value", *(["at"] if config["x"] else []), *(["field"] if line else [])]
    for event in events:
        if any(event[name] is None for name in needed):
            continue
        block = kept[event["k"]]
        block.append(event)
        if len(block) < config["window"]:
            continue
        lines: dict[str, list[tuple[float, float]]] = {}
        for number, each in enumerate(block, 1):
            across = (each["at"] - block[0]["at"]).total_seconds() if config["x"] else float(number)
            lines.setdefault(each["field"] if line else "value", []).append((across, each["value"]))
        since = f"at: seconds since {block[0]['at'].isoformat()[:19]}.000Z" if config["x"] else "number"
        # A single line has no legend.
        shown = lines if len(lines) > 1 else {"value": next(iter(lines.values()))}
        found.append((event["k"], Drawn(across=since, up="value", lines=shown)))
        block.clear()
    return found


@settings(max_examples=6)
@given(st.lists(EVENT, min_size=10, max_size=30), st.integers(2, 6), st.sampled_from([None, "at"]), st.booleans())
def test_a_plot_shows_the_points_of_its_window(events: list[Event], window: int, x: str | None, line: bool) -> None:  # noqa: FBT001 - hypothesis calls it
    """Each point in its place, in its line and in order, with its labels."""
    config = {"field": "value", "x": x, "by": ["k"], "window": window}
    made = try_out("multi_line_plot" if line else "line_plot", config, events, SCHEMA)["out"]
    expected = pictures(events, config, line=line)
    assert [key for key, _ in expected] == [each["k"] for each in made]
    for (_, wanted), each in zip(expected, made, strict=True):
        shown = read_back(each["svg"])
        assert (wanted.across, wanted.up) == (shown.across, shown.up)
        assert list(wanted.lines) == list(shown.lines)
        for name, points in wanted.lines.items():
            assert [pytest.approx(point, abs=1e-3) for point in points] == shown.lines[name]


NUMBER = st.sampled_from([0.0, 5e-324, 1e-9, 0.1, 1.0, 1 + 2**-52, 7.0, 1e6, 1e6 + 1, -1e30, 1e30]) | st.floats(
    -1e30, 1e30
)
WINDOW = st.lists(st.tuples(st.sampled_from(["dust", "light", "warmth"]), NUMBER), min_size=1, max_size=6)


@pytest.mark.full
@settings(max_examples=5)
@given(st.lists(WINDOW, min_size=2, max_size=4))
def test_a_plot_has_nothing_of_earlier_ones(windows: list[list[tuple[str, float]]]) -> None:
    """It has the same bytes as the first plot of a process."""

    def shown(window: list[tuple[str, float]]) -> str:
        rows = [{"field": name, "value": value} for name, value in window]
        (picture,) = try_out("multi_line_plot", {"field": "value", "window": len(rows)}, rows)["out"]
        return str(picture["svg"])

    together = [shown(window) for window in windows]
    for window, after in zip(windows, together, strict=True):
        visual._empty.clear()
        assert shown(window) == after


def test_a_failed_plot_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the next plot."""
    rows = [{"t": 1.0}, {"t": 2.0}]
    plain = try_out("line_plot", {"field": "t", "window": 2}, rows)

    def fail(*_: object, **__: object) -> None:
        raise OSError("there is no font")

    with monkeypatch.context() as broken:
        broken.setattr(Figure, "savefig", fail)
        with pytest.raises(Parked, match="there is no font"):
            try_out("line_plot", {"field": "t", "window": 2}, [{"t": 3.0}, {"t": 3.5}])
    assert plain == try_out("line_plot", {"field": "t", "window": 2}, rows)


def test_a_plot_has_no_date() -> None:
    """Its bytes would change with time."""
    (picture,) = try_out("line_plot", {"field": "t", "window": 2}, [{"t": 1.0}, {"t": 4.0}])["out"]
    assert "<dc:date>" not in picture["svg"]


def test_several_lines_over_time() -> None:
    """One for each name, with a legend. Times are seconds since the first one."""
    (picture,) = try_out("multi_line_plot", {"field": "value", "x": "at", "window": 10}, ROWS, SCHEMA)["out"]
    assert [4, 6] == [len(points) for points in drawn(picture["svg"]).values()]
    shown = texts(picture["svg"])
    assert {"dust", "light", "value", "at: seconds since 1970-01-01T00:00:00.000Z"} <= set(shown)


def test_names_of_lines_are_only_text() -> None:
    """No formula, no markup, no character that XML does not allow, and none that the legend would hide."""
    names = ["$x^$", "<b>&", "_hidden", "a\x00b", "線", ""]
    rows = [{"field": name, "value": 1.0} for name in names]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (picture,) = try_out("multi_line_plot", {"field": "value", "window": len(names)}, rows)["out"]
    assert {"$x^$", "<b>&", "_hidden", "a\N{REPLACEMENT CHARACTER}b", "線"} <= set(texts(picture["svg"]))


def test_a_plot_ignores_settings() -> None:
    """Other settings of matplotlib in the process have no effect, and stay."""
    rows = [{"t": 1.0}, {"t": 2.0}]
    plain = try_out("line_plot", {"field": "t", "window": 2}, rows)
    with mpl.rc_context({"lines.linewidth": 9.0, "svg.hashsalt": "pepper"}):
        assert plain == try_out("line_plot", {"field": "t", "window": 2}, rows)
        assert mpl.rcParams["lines.linewidth"] == pytest.approx(9.0)


@pytest.mark.parametrize("values", [(0.0, 5e-324), (1e30, -1e30), (7.0, 7.0), (1.0, 1 + 2**-52)])
def test_any_two_numbers_are_drawn(values: tuple[float, float]) -> None:
    """The smallest, the greatest, equal and almost equal ones."""
    rows = [{"t": value} for value in values]
    (picture,) = try_out("line_plot", {"field": "t", "x": "t", "window": 2}, rows)["out"]
    assert all(math.isfinite(x) and math.isfinite(y) for x, y in drawn(picture["svg"])["line-0"])


def test_a_number_too_large_to_draw_is_refused() -> None:
    """Alone, before it could spoil a plot with others."""
    with pytest.raises(Parked, match=re.escape("the field 't' is 1e+31; plots draw numbers up to 1e+30")):
        try_out("line_plot", {"field": "t"}, [{"t": 1e31}])
