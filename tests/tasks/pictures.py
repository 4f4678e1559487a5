"""Pictures read back: from an SVG alone, the points of each line as numbers, by the ticks of its axes."""

import re
from dataclasses import dataclass
from typing import TypeAlias
from xml.etree import ElementTree as ET

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
