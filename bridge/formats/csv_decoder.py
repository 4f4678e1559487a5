"""CSV: lines of values, read by the kinds of their columns.

Messages without quotes whose columns are the same are read at once, as columns, by Arrow. If a single value of them is
unfit, Arrow refuses all without saying which. They are then read line by line, which finds out; so are messages with
quotes, in which a value can go over many lines, and groups that are too small for Arrow.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from bridge.formats.texts import FALSE, FROM_TEXT, TRUE, Kinds, undeclared
from bridge.messages import LARGEST_EVENT, LARGEST_RAW_MESSAGE
from bridge.raw_events import (
    ARROW_TYPES,
    EARLIEST,
    LATEST,
    TooMuch,
    Unfit,
    UnfitField,
    arrow_schema,
    check_count,
    check_size,
    json_text,
    shown_text,
    together,
    too_much,
    typed_events,
    why_too_large,
    why_unread,
)
from dags import Kind, Schema
from dags.message_formats import MOST_COLUMNS, CsvMessages

_WORTH_IT = 2_000
"""Bytes from which on messages are read at once."""
_FEW = 100_000
"""Bytes of a message that cannot hold too many events."""
_SHOWN = 1_000
"""Characters that are shown of a line that is unfit."""
_MARK = b"\xef\xbb\xbf"
"""What some programs write before UTF-8."""
_READ_BY_ARROW = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.FLOAT})
_LONGEST_NAMES = 4 * LARGEST_RAW_MESSAGE
"""Bytes that the names of undeclared columns may take in all events of a message, each of which repeats them."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The columns of a message, and its lines without the one of their names."""

    columns: tuple[str, ...]
    lines: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """The places of values in a line."""

    count: int
    declared: tuple[tuple[str, Kind, int | None], ...]
    """The fields of the schema, with their kinds; None for those that the line lacks."""
    undeclared: tuple[tuple[str, int], ...]
    names: int
    """Bytes that the names of undeclared columns take in each event, at least."""


@lru_cache(maxsize=100)
def _places(columns: tuple[str, ...], schema: Schema) -> _Places:
    place = {name: at for at, name in enumerate(columns)}
    more = tuple((name, at) for name, at in place.items() if name not in schema.fields)
    return _Places(
        count=len(columns),
        declared=tuple((name, schema.fields[name], place.get(name)) for name in schema.names()),
        undeclared=more,
        names=sum(len(name.encode()) + 6 for name, _ in more),
    )


class CsvDecoder:
    """A decoder of CSV messages."""

    def __init__(self, messages: CsvMessages, schema: Schema, kinds: Kinds) -> None:
        self._kinds = kinds
        self._format = messages
        self._quote = messages.quote.encode()
        self._schema = schema
        self._columns = arrow_schema(schema)
        self._typed = typed_events(schema)
        # Arrow reads 0x10 as a number.
        self._has_numbers = any(kind in {Kind.INTEGER, Kind.TIMESTAMP} for kind in schema.fields.values())

    def __call__(self, messages: Sequence[bytes]) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
        """The events of messages as columns, and what is unfit of them."""
        unfit: list[Unfit] = []
        tables = self._tables(messages, unfit)
        batches: list[pa.RecordBatch] = []
        for columns, group in groupby(tables, lambda table: None if self._quote in table.lines else table.columns):
            run = list(group)
            if columns is None or (batch := self._at_once(columns, [table.lines for table in run])) is None:
                batch = self._line_by_line(run, unfit)
            batches.append(batch)
        if len(batches) == 1:
            return batches[0], tuple(unfit)
        whole = pa.Table.from_batches(batches, self._columns).combine_chunks().to_batches()
        return whole[0] if whole else self._typed.batch([], self._columns), tuple(unfit)

    def _tables(self, messages: Sequence[bytes], unfit: list[Unfit]) -> Iterator[_Table]:
        for message in messages:
            try:
                yield self._table(message)
            except TooMuch as error:
                unfit.append(too_much(message, error))
            except ValueError as error:
                unfit.append(Unfit(event=shown_text(message), reason=str(error)))

    def _table(self, message: bytes) -> _Table:
        check_size(message)
        message = message.removeprefix(_MARK)
        columns, lines = self._format.columns, message
        if not columns:
            columns, lines = self._header(message)
        names = _places(columns, self._schema).names
        if len(lines) > _FEW or names * len(lines) > _LONGEST_NAMES:
            # Blank lines are no events, but nobody sends many.
            count = (
                lines.count(b"\n") + lines.count(b"\r") - lines.count(b"\r\n") + (not lines.endswith((b"\n", b"\r")))
            )
            check_count(count)
            if names * count > _LONGEST_NAMES:
                raise TooMuch("the names of its undeclared columns are too long for so many events; declare them")
        return _Table(columns, lines)

    def _header(self, message: bytes) -> tuple[tuple[str, ...], bytes]:
        lines = message.lstrip(b"\r\n")
        end = min((at for at in (lines.find(b"\n"), lines.find(b"\r")) if at >= 0), default=len(lines))
        try:
            header, rest = lines[:end].decode(), lines[end:].lstrip(b"\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"the message is not UTF-8: {error}") from None
        names: Any = next(self._cells(header), [])
        if isinstance(names, csv.Error):
            raise ValueError(f"the names of its columns are not CSV: {names}")  # noqa: TRY004 - the data is wrong
        columns = tuple(name.strip() for name in names)
        if len(columns) > MOST_COLUMNS:
            raise TooMuch(f"the message has {len(columns):,} columns, and may have {MOST_COLUMNS:,}")
        if len(set(columns)) < len(columns):
            raise ValueError("two columns of the message have the same name")
        if columns and not rest:
            # It is rather one line of values.
            raise ValueError("the message has one line, which names its columns; name them in the format instead")
        return columns, rest

    def _at_once(self, columns: tuple[str, ...], parts: list[bytes]) -> pa.RecordBatch | None:
        """The events of messages with the same columns; None if an event of them is unfit, or Arrow does not pay."""
        lines = b"\n".join(parts)
        if len(lines) < _WORTH_IT or not columns or max(map(len, parts)) > LARGEST_EVENT:
            return None
        if self._has_numbers and (b"0x" in lines or b"0X" in lines):
            return None
        types = {
            name: ARROW_TYPES[kind] if kind in _READ_BY_ARROW else pa.string()
            for name in columns
            for kind in [self._schema.fields.get(name)]
        }
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(lines),
                arrow_csv.ReadOptions(column_names=columns, use_threads=False, block_size=len(lines) + 1),
                arrow_csv.ParseOptions(delimiter=self._format.separator, quote_char=False),
                arrow_csv.ConvertOptions(
                    column_types=types,
                    null_values=[""],
                    strings_can_be_null=True,
                    true_values=list(TRUE),
                    false_values=list(FALSE),
                ),
            ).combine_chunks()
            arrays = [
                _column(table, field.name, self._schema.fields[field.name])
                if field.name in columns
                else pa.nulls(len(table), field.type)
                for field in list(self._columns)[:-1]
            ]
            rest = table.drop_columns([name for name in columns if name in self._schema.fields])
            arrays.append(_rest(rest, self._kinds))
            return pa.RecordBatch.from_arrays(arrays, schema=self._columns)
        except (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError):
            return None

    def _line_by_line(self, tables: list[_Table], unfit: list[Unfit]) -> pa.RecordBatch:
        events: list[Any] = []
        for table in tables:
            refused: list[Unfit] = []
            events += self._events(table, refused)
            unfit += together(refused)
        return self._typed.batch(events, self._columns)

    def _events(self, table: _Table, unfit: list[Unfit]) -> Iterator[Any]:
        try:
            text = table.lines.decode()
        except UnicodeDecodeError as error:
            unfit.append(Unfit(event=shown_text(table.lines), reason=f"the message is not UTF-8: {error}"))
            return
        places = _places(table.columns, self._schema)
        for cells in self._cells(text):
            if isinstance(cells, csv.Error):
                unfit.append(Unfit(event=text[:_SHOWN], reason=f"a line is not CSV: {cells}"))
                continue
            try:
                yield self._typed.event(*_row(cells, places, self._kinds))
            except Exception as error:  # noqa: BLE001 - one line must not stop all later ones
                line = self._format.separator.join(cells)
                unfit.append(Unfit(event=line[:_SHOWN], reason=why_unread(error, "event")))

    def _cells(self, text: str) -> Iterator[Any]:
        """The values of each line that is not blank, or the error in it."""
        if self._format.quote not in text:
            for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
                if line:
                    yield line.split(self._format.separator)
            return
        lines = csv.reader(
            io.StringIO(text, newline=""), delimiter=self._format.separator, quotechar=self._format.quote
        )
        while True:
            try:
                cells = next(lines)
            except StopIteration:
                return
            except csv.Error as error:
                yield error
                continue
            if cells:
                yield cells


def _row(cells: Sequence[str], places: _Places, kinds: Kinds) -> tuple[object, ...]:
    """The values of a line, in the order of an event's columns."""
    if len(cells) != places.count:
        raise ValueError(f"the line has {len(cells):,} values, and there are {places.count:,} columns")
    if (size := sum(map(len, cells))) > LARGEST_EVENT:
        raise ValueError(why_too_large(size))
    row: list[object] = []
    for name, kind, at in places.declared:
        if at is None or not (cell := cells[at]):
            row.append(None)
            continue
        try:
            row.append(FROM_TEXT[kind](cell))
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise UnfitField(name, kind) from None
    rest = {name: undeclared(name, cells[at], kinds) for name, at in places.undeclared if cells[at]}
    row.append(json_text(rest) if rest else None)
    return tuple(row)


def _column(table: pa.Table, name: str, kind: Kind) -> pa.Array:
    """A column of its kind; raises an error if one of its values is not."""
    column = table.column(name).combine_chunks()
    match kind:
        case Kind.FLOAT:
            if pc.all(pc.is_finite(column)).as_py() is False:
                raise ValueError
        case Kind.TIMESTAMP:
            return _times(column)
        case Kind.JSON:
            return pa.array(
                [None if text is None else FROM_TEXT[kind](text) for text in column.to_pylist()], pa.string()
            )
    return column


def _times(texts: pa.Array) -> pa.Array:
    """Times, written as milliseconds since 1970 or as ISO 8601."""
    moment = ARROW_TYPES[Kind.TIMESTAMP]
    for through in (pa.int64(), pa.timestamp("ms"), moment):
        try:
            times = texts.cast(through).cast(moment)
        except pa.ArrowException:
            continue
        ends = pc.min_max(times.cast(pa.int64())).as_py()
        if ends["min"] is not None and not EARLIEST <= ends["min"] <= ends["max"] <= LATEST:
            raise OverflowError
        return times
    return pa.array([None if text is None else FROM_TEXT[Kind.TIMESTAMP](text) for text in texts.to_pylist()], moment)


def _rest(table: pa.Table, kinds: Kinds) -> pa.Array:
    """The undeclared columns as one."""
    if not table.num_columns:
        return pa.nulls(len(table), pa.string())
    rows = (
        {name: undeclared(name, text, kinds) for name, text in row.items() if text is not None}
        for row in table.to_pylist()
    )
    return pa.array([json_text(row) if row else None for row in rows], pa.string())
