"""How commands show what they found: to people as text and tables, to programs as one JSON document."""

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
"""How wide a table may become where no screen limits it; else what is long would be cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a command found; made by commands, printed by whoever runs them."""

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
    """Rows below the names of their columns; where there are none, a sentence instead."""
    shown = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    for column in shown.columns:
        column.overflow = "fold"
    for row in rows:
        shown.add_row(*(Text(_cell(value)) for value in row))
    return shown if shown.row_count else Text(empty)


def lines(*parts: RenderableType | None) -> RenderableType:
    """Parts below each other; what is not there is left out."""
    return Group(*(Text(part) if isinstance(part, str) else part for part in parts if part))


def moment(at: datetime | None) -> str:
    """A time as people read it, in their own zone."""
    return "" if at is None else f"{(at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone():%Y-%m-%d %H:%M:%S}"


def slashed(*values: float | None) -> str:
    """Values that belong together, as long as they are known."""
    return "/".join(str(round(value, 3)) for value in values if value is not None)


def complain(message: str) -> None:
    """Say on standard error what is wrong."""
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
            shown = f"{value:.3g}"
        case str():
            shown = value
        case Iterable():
            shown = ", ".join(_cell(each) for each in value)
        case _:
            shown = str(value)
    return shown
