"""The output of commands: text and tables for people, one JSON document for programs."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

_WIDE = 10_000
"""The width of tables that are not printed on a screen, so that no cell is cut."""
_SMALLEST = 0.0005
_FROM_HERE_WHOLE = 999.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The result of a command, for programs and for people."""

    data: BaseModel | Sequence[BaseModel] | dict[str, Any]
    text: RenderableType

    def print(self, *, as_json: bool) -> None:
        """Print it on standard output."""
        if as_json:
            sys.stdout.write(f"{json.dumps(_plain(self.data), ensure_ascii=False)}\n")
            sys.stdout.flush()
        else:
            _console().print(self.text, soft_wrap=isinstance(self.text, str | Text))


def table(*columns: str, rows: Iterable[Sequence[object]], empty: str) -> RenderableType:
    """A table; a sentence instead if there are no rows."""
    shown = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    for column in shown.columns:
        column.overflow = "fold"
    for row in rows:
        shown.add_row(*(Text(_cell(value)) for value in row))
    return shown if shown.row_count else Text(empty)


def lines(*parts: RenderableType | None) -> RenderableType:
    """Parts below each other, without the empty ones."""
    return Group(*(Text(part) if isinstance(part, str) else part for part in parts if part))


def moment(at: datetime | None) -> str:
    """A time in the reader's time zone."""
    return "" if at is None else f"{(at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone():%Y-%m-%d %H:%M:%S}"


def number(value: float) -> str:
    """A number to three digits; 0 if it is too small to matter.

    >>> number(0.12345), number(1234567.0), number(-0.00001)
    ('0.123', '1,234,567', '0')
    """
    if abs(value) < _SMALLEST:
        return "0"
    return f"{value:,.0f}" if abs(value) >= _FROM_HERE_WHOLE else f"{value:.3g}"


def counted(count: int, noun: str) -> str:
    """A count with its noun, in the plural unless it is one.

    >>> counted(1, "task"), counted(2, "task")
    ('1 task', '2 tasks')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def slashed(*values: float | None) -> str:
    """Values of one kind, without the unknown ones."""
    return "/".join(str(round(value, 3)) for value in values if value is not None)


def complain(message: str) -> None:
    """Print an error message on standard error."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(message))


def _console() -> Console:
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_WIDE)


def _plain(data: BaseModel | Sequence[BaseModel] | dict[str, Any]) -> Any:
    if isinstance(data, BaseModel):
        return data.model_dump(mode="json", by_alias=True)
    return data if isinstance(data, dict) else [_plain(each) for each in data]


def _cell(value: object) -> str:
    match value:
        case None:
            shown = ""
        case datetime():
            shown = moment(value)
        case bool():
            shown = "yes" if value else "no"
        case float():
            shown = number(value)
        case str():
            shown = value
        case Iterable():
            shown = ", ".join(_cell(each) for each in value)
        case _:
            shown = str(value)
    return shown
