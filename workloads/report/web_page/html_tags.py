"""HTML as strings of a type of their own; other text is escaped when it is inserted. Pure."""

import html
import re
from collections.abc import Sequence

VOID = frozenset({"br", "meta"})
"""Elements without an end tag."""
# A page may not contain these, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: str) -> Html:
    """Text escaped as HTML; HTML stays as it is.

    >>> escaped("a < b"), escaped(Html("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """
    return text if isinstance(text, Html) else Html(html.escape(_FORBIDDEN.sub("\ufffd", text)))


def tag(name: str, /, *inside: str, **attributes: str | None) -> Html:
    """An element; attributes that are None are left out, and a trailing underscore is removed, as of `class_`.

    >>> tag("td", "1 < 2", class_="number", title=None)
    '<td class="number">1 &lt; 2</td>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{given} />")
    return Html(f"<{name}{given}>{joined(*inside)}</{name}>")


def joined(*parts: str) -> Html:
    """Concatenate texts and HTML."""
    return Html("".join(map(escaped, parts)))


def table(caption: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, texts: int = 1) -> Html:
    """A table with a caption; the first `texts` columns are text, the first of them the headings of the rows."""
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *(tag("th", each, scope="col") for each in head))),
            tag("tbody", *(_row(row, texts) for row in rows)),
        ),
        class_="table",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def _row(row: tuple[str, ...], texts: int) -> Html:
    first, *others = row
    cells = (tag("td", each, class_="number" if at >= texts else None) for at, each in enumerate(others, start=1))
    return tag("tr", tag("th", first, scope="row"), *cells)
