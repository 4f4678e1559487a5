"""What sections of a page have in common: figures, lists of sentences, settings to unfold. Pure."""

from collections.abc import Iterable, Mapping
from json import dumps
from typing import TypeAlias

from workloads.report.web_page.html_tags import Html, tag

Pictures: TypeAlias = Mapping[str, tuple[str, Html]]
"""Title and SVG of each figure, by name."""
NOTHING = "These results hold nothing of this."


def figure(pictures: Pictures, name: str) -> Html:
    """A figure of the report with its title, if it was drawn."""
    if name not in pictures:
        return tag("p", NOTHING, class_="soft")
    title, svg = pictures[name]
    return tag("figure", svg, tag("figcaption", title))


def sentences(told: Iterable[str], otherwise: str) -> Html:
    """Sentences as a list; where there are none, what is said instead."""
    found = list(told)
    if not found:
        return tag("p", otherwise) if otherwise else Html()
    return tag("ul", *(tag("li", each) for each in found))


def details(what: str, told: Mapping[str, object]) -> Html:
    """Settings as JSON, shown when they are asked for."""
    if not told:
        return Html()
    shown = dumps(told, indent=2, ensure_ascii=False, default=str)
    return tag("details", tag("summary", what), tag("pre", shown))
