"""The documentation as data: pages with their links, headings, tables, code and examples."""

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
_NO_PAGES = {"mutants"}
_MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Example:
    """A fenced block, with the output that the text shows right after it."""

    language: str
    text: str
    line: int
    file: str | None
    """The name under which the sentence before it says to save it."""
    output: str | None
    not_run: str | None
    """Why no test runs it, as the page says beside the language: `not_run="takes minutes"`."""


@dataclass(frozen=True)
class Table:
    """A table and the heading that it stands under. Cells are Markdown."""

    heading: str
    rows: tuple[tuple[str, ...], ...]
    """The first is the table's head."""

    def column(self, place: int = 0) -> list[str]:
        """The cells of one column without the head, less the quotes that code has."""
        return [row[place].strip("`") for row in self.rows[1:]]


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    path: Path

    def __str__(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def tokens(self) -> list[Token]:
        return _MARKDOWN.parse(self.path.read_text(encoding="utf-8"))

    @cached_property
    def anchors(self) -> set[str]:
        """What a link may name after `#`: the headings, as they are known on the web."""
        found: list[str] = []
        for heading in self._headings():
            anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
        return set(found)

    @property
    def links(self) -> Iterator[str]:
        """Where links and images lead."""
        for token in self._inside():
            target = token.attrGet("href" if token.type == "link_open" else "src")
            if token.type in {"link_open", "image"}:
                yield str(target)

    @property
    def code(self) -> Iterator[str]:
        """Every piece of code within the text."""
        return (token.content for token in self._inside() if token.type == "code_inline")

    @property
    def commands(self) -> Iterator[str]:
        """Every line that could be typed into a shell."""
        yield from self.code
        for example in self.examples:
            if example.language == "sh":
                yield from example.text.splitlines()

    @property
    def examples(self) -> Iterator[Example]:
        """Every fenced block, in order."""
        before: Token | None = None
        for token, following in zip(self.tokens, [*self.tokens[1:], None], strict=True):
            if token.type == "fence":
                shown = following is not None and following.type == "fence" and following.info == "text"
                language, _, attributes = token.info.partition(" ")
                why = re.fullmatch(r'not_run="([^"]+)"', attributes)
                yield Example(
                    # What stands beside it and is not understood stays, so that no test takes it for a language.
                    language=language if why else token.info,
                    text=token.content,
                    line=token.map[0] + 1 if token.map else 0,
                    file=_file_in(before, token.info),
                    output=following.content if following and shown else None,
                    not_run=why[1] if why else None,
                )
            elif token.type == "inline":
                before = token

    @property
    def tables(self) -> Iterator[Table]:
        """Every table, in order."""
        heading, rows, cells = "", list[tuple[str, ...]](), list[str]()
        for token, following in zip(self.tokens, [*self.tokens[1:], None], strict=True):
            if following is not None and token.type == "heading_open":
                heading = following.content
            elif following is not None and token.type in {"th_open", "td_open"}:
                cells.append(following.content)
            elif token.type == "tr_close":
                rows.append(tuple(cells))
                cells = []
            elif token.type == "table_close":
                yield Table(heading, tuple(rows))
                rows = []

    def table(self, heading: str) -> Table:
        """The only table under a heading."""
        (found,) = (table for table in self.tables if table.heading == heading)
        return found

    def save_files(self, folder: Path) -> None:
        """Save the examples that are files, as the text asks for."""
        for example in self.examples:
            if example.file is not None:
                (folder / example.file).write_text(example.text, encoding="utf-8")

    def run(self) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Run the Python examples in order; also what the text says that each prints, and what it prints."""
        names: dict[str, Any] = {"__name__": f"examples of {self}"}
        printed: list[tuple[str, str]] = []
        for example in self.examples:
            if example.language == "python" and example.not_run is None:
                code = compile("\n" * example.line + example.text, str(self.path), "exec")
                with redirect_stdout(io.StringIO()) as output:
                    exec(code, names)  # noqa: S102 - the documentation's own examples, which readers run too
                printed.append((example.output or "", output.getvalue()))
        return names, printed

    def _headings(self) -> Iterator[str]:
        for token, following in zip(self.tokens, self.tokens[1:], strict=False):
            if token.type == "heading_open":
                yield "".join(child.content for child in following.children or ())

    def _inside(self) -> Iterator[Token]:
        return (child for token in self.tokens for child in token.children or ())


def _file_in(sentence: Token | None, language: str) -> str | None:
    """The file that a sentence ends with, where it is one of the language."""
    codes = (
        [child.content for child in (sentence.children or ())[-2:] if child.type == "code_inline"] if sentence else []
    )
    return next((code for code in codes if code.endswith({"python": ".py"}.get(language, f".{language}"))), None)


def page(path: str) -> Page:
    """The page at a path from the top of the repository."""
    return Page(ROOT / path)


def every_page() -> list[Page]:
    """All pages of the repository."""
    folders = [
        there for there in ROOT.iterdir() if there.is_dir() and there.name[0] != "." and there.name not in _NO_PAGES
    ]
    nested = [path for folder in folders for path in folder.rglob("*.md")]
    return [Page(path) for path in sorted([*ROOT.glob("*.md"), *nested])]
