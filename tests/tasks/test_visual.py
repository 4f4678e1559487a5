"""Plots: what is drawn, and that equal events give equal bytes."""

import math
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from dags import Kind, Schema
from engine.implementations.visual import line_plot, multi_line_plot
from engine.trying import At, Event, Parked, tried
from tests.tasks.agreeing import agrees
from tests.tasks.references.statistics import key_of
from tests.tasks.references.windows import EPOCH

SVG = "{http://www.w3.org/2000/svg}"
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


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - we wrote it


def drawn(svg: str) -> dict[str, list[tuple[float, float]]]:
    """The points of each line."""
    found = {}
    for group in parsed(svg).iter(f"{SVG}g"):
        name = group.get("id", "")
        path = group.find(f"{SVG}path")
        if name.startswith("line-") and path is not None:
            told = re.findall(r"[ML] (\S+) (\S+)", path.get("d", ""))
            found[name] = [(float(x), float(y)) for x, y in told]
    return found


def texts(svg: str) -> list[str]:
    return ["".join(each.itertext()) for each in parsed(svg).iter(f"{SVG}text")]


def in_one_batch(config: dict[str, Any], type_: str, lacking: tuple[str, ...]) -> Any:
    """The pictures of each window alone."""

    def reference(events: Iterator[Event]) -> Iterator[At]:
        kept: dict[Any, list[Event]] = defaultdict(list)
        for event in events:
            if all(event[name] is not None for name in lacking):
                block = kept[key_of(event, config["by"])]
                block.append(event)
                if len(block) == config["window"]:
                    yield "out", tried(type_, config, block, SCHEMA)["out"][0]
                    block.clear()

    return reference


@pytest.mark.parametrize(
    ("implementation", "config", "lacking"),
    [
        (line_plot, {"field": "value", "by": ["k"], "window": 4}, ("value",)),
        (multi_line_plot, {"field": "value", "x": "at", "by": [], "window": 5}, ("value", "at", "field")),
    ],
)
def test_a_picture_does_not_hang_on_where_batches_end(
    implementation: Any, config: dict[str, Any], lacking: tuple[str, ...]
) -> None:
    """Equal events give equal bytes, in a picture for every window of events that lack nothing."""
    agrees(
        implementation,
        config,
        ROWS,
        in_one_batch(config, implementation.type.name, lacking),
        SCHEMA,
        poisonous=[{"k": "a", "field": "dust", "at": EPOCH, "value": math.nan}],
    )


def test_a_line_goes_through_the_points() -> None:
    """Across and up in proportion, by their number where nothing else is named."""
    values = [1.0, 4.0, 2.0, 2.0, 8.0]
    (picture,) = tried("line_plot", {"field": "t", "window": 5}, [{"t": value} for value in values])["out"]
    points = drawn(picture["svg"])["line-0"]
    across = points[1][0] - points[0][0]
    up = (points[1][1] - points[0][1]) / 3
    assert across > 0 > up
    expected = [
        (points[0][0] + number * across, points[0][1] + (value - 1) * up) for number, value in enumerate(values)
    ]
    assert [pytest.approx(each, abs=1e-3) for each in expected] == points
    assert {"t", "number"} <= set(texts(picture["svg"]))
    assert "<dc:date>" not in picture["svg"]


def test_several_lines_over_time() -> None:
    """One for each name, with a legend; times are told by the seconds since the first."""
    (picture,) = tried("multi_line_plot", {"field": "value", "x": "at", "window": 10}, ROWS, SCHEMA)["out"]
    assert [4, 6] == [len(points) for points in drawn(picture["svg"]).values()]
    told = texts(picture["svg"])
    assert {"dust", "light", "value", "at: seconds since 1970-01-01T00:00:00.000Z"} <= set(told)


def test_names_of_lines_are_only_text() -> None:
    """No formula, no markup, no sign that XML cannot hold; and none that the legend would hide."""
    names = ["$x^$", "<b>&", "_hidden", "a\x00b", "線", ""]
    rows = [{"field": name, "value": 1.0} for name in names]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (picture,) = tried("multi_line_plot", {"field": "value", "window": len(names)}, rows)["out"]
    assert {"$x^$", "<b>&", "_hidden", "a\N{REPLACEMENT CHARACTER}b", "線"} <= set(texts(picture["svg"]))


def test_a_picture_heeds_no_settings() -> None:
    """Whatever else in the process has set matplotlib to, and it is left so."""
    rows = [{"t": 1.0}, {"t": 2.0}]
    plain = tried("line_plot", {"field": "t", "window": 2}, rows)
    with mpl.rc_context({"lines.linewidth": 9.0, "svg.hashsalt": "pepper"}):
        assert plain == tried("line_plot", {"field": "t", "window": 2}, rows)
        assert mpl.rcParams["lines.linewidth"] == pytest.approx(9.0)


@pytest.mark.parametrize("values", [(0.0, 5e-324), (1e30, -1e30), (7.0, 7.0), (1.0, 1 + 2**-52)])
def test_any_two_numbers_are_drawn(values: tuple[float, float]) -> None:
    """The smallest, the greatest, equal ones and next to equal ones."""
    rows = [{"t": value} for value in values]
    (picture,) = tried("line_plot", {"field": "t", "x": "t", "window": 2}, rows)["out"]
    assert all(math.isfinite(x) and math.isfinite(y) for x, y in drawn(picture["svg"])["line-0"])


def test_a_number_too_large_to_draw_is_refused() -> None:
    """Alone, before it could spoil the picture that others are in."""
    with pytest.raises(Parked, match=re.escape("the field 't' is 1e+31; plots draw numbers up to 1e+30")):
        tried("line_plot", {"field": "t"}, [{"t": 1e31}])
