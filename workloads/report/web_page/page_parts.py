"""Parts that sections of a page share: figures, lists of sentences, foldable settings. Pure."""

from collections.abc import Iterable, Mapping
from json import dumps
from typing import TypeAlias

from workloads.report.web_page.html_tags import Html, tag

Pictures: TypeAlias = Mapping[str, tuple[str, Html]]
"""The title and the SVG of each figure, by name."""
NO_DATA = "These results contain no such data."


def figure(pictures: Pictures, name: str) -> Html:
    """A figure with its title; a note if it was not drawn."""
    if name not in pictures:
        return tag("p", NO_DATA, class_="soft")
    title, svg = pictures[name]
    return tag("figure", svg, tag("figcaption", title))


def sentences(found: Iterable[str], otherwise: str) -> Html:
    """Sentences as a list; without any, the text `otherwise`."""
    listed = list(found)
    if not listed:
        return tag("p", otherwise) if otherwise else Html()
    return tag("ul", *(tag("li", each) for each in listed))


def details(what: str, settings: Mapping[str, object]) -> Html:
    """Settings as JSON, folded."""
    if not settings:
        return Html()
    shown = dumps(settings, indent=2, ensure_ascii=False, default=str)
    return tag("details", tag("summary", what), tag("pre", shown))
