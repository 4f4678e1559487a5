"""The pieces of a file that a source takes: some of its rows, as events of the source's schema.

A file is read piece by piece, so its size does not matter: lines in blocks of some hundred kilobytes, Avro by the
blocks of its container, Parquet by some thousand rows. JSON and formats in which a file is one message are read as a
whole, and have the bounds of a message. Rows are numbered so that a file can be read on from any piece: lines without
the one that names the columns, rows of Parquet, events of Avro, and one for a file that is read as a whole.

A row that does not fit is reported, and the next is read. A file may be compressed by gzip, except for Parquet, which
compresses its columns itself.
"""

import csv
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pydantic import ValidationError

from bridge.formats.avro_decoder import container_blocks
from bridge.formats.decoders import Decoder, decoder
from bridge.formats.table_rows import table_events
from bridge.formats.texts import Kinds
from bridge.messages import LARGEST_EVENT, LARGEST_RAW_MESSAGE
from bridge.output_messages import python_rows
from bridge.raw_events import Unfit, arrow_schema, together, why_too_large
from dags import Schema
from dags.message_formats import (
    JSON,
    AvroMessages,
    ContentFormat,
    CsvMessages,
    JsonLinesMessages,
    ParquetFiles,
    UnusableFormat,
)

_BLOCK = 200_000
"""Bytes of lines that are read at once; in the shortest lines they are the most events of a message."""
_ROWS = 2_000
"""Rows of Parquet that are read at once."""
_MOST_BYTES = 1_000_000
"""The approximate size of a piece of Parquet."""
_SHOWN = 1_000
"""Characters that are shown of a row that does not fit."""
_LARGEST_GROUP, _MOST_VALUES = 2**30, 50_000_000
"""Bytes of a group of rows in Parquet once it is decompressed, and values of one of its columns."""
_TEXTS = frozenset({"ENUM", "JSON", "NONE", "STRING"})
"""What columns of Parquet may hold whose values have any length."""
_MARK = b"\xef\xbb\xbf"
"""What some programs write before UTF-8."""
_COMPRESSED = ".gz"
_ENDINGS: Mapping[str, ContentFormat] = {
    ".avro": AvroMessages(),
    ".csv": CsvMessages(),
    ".json": JSON,
    ".jsonl": JsonLinesMessages(),
    ".ndjson": JsonLinesMessages(),
    ".parquet": ParquetFiles(),
}


class UnreadableFile(Exception):
    """A file that is not of its format, or exceeds a bound of it. Says where, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece:
    """Some rows of a file; made by `pieces`."""

    rows: int
    """How many rows they are; none for those that were skipped."""
    events: pa.RecordBatch
    unfit: tuple[Unfit, ...] = ()


def format_of_name(name: str) -> ContentFormat | None:
    """The format that a file's ending stands for, compressed or not; None for any other ending.

    >>> format_of_name("in/a.CSV.gz").kind, format_of_name("a.txt")
    ('csv', None)
    """
    plain = name.lower().removesuffix(_COMPRESSED)
    return next((content for ending, content in _ENDINGS.items() if plain.endswith(ending)), None)


def pieces(  # noqa: PLR0913, PLR0917 - a file, its name and format, the schema with more kinds, and a row are six
    stream: BinaryIO, name: str, content: ContentFormat, schema: Schema, kinds: Kinds, skipped: int
) -> Iterator[FilePiece]:
    r"""Yield the rows of a file after the first ones. Raises `UnreadableFile` where it cannot be read any further.

    What the stream itself raises as a `RuntimeError` is passed on: it says nothing about what the file holds.

    >>> from io import BytesIO
    >>> from dags import Kind
    >>> rows = pieces(BytesIO(b"t\n1\n2\n"), "a.csv", CsvMessages(), Schema.of(t=Kind.FLOAT), {}, 1)
    >>> [piece.events.to_pylist() for piece in rows]
    [[{'t': 2.0, '_rest': None}]]
    """
    row = skipped
    try:
        if name.lower().endswith(_COMPRESSED):
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
        for piece in _read(stream, content, schema, kinds, skipped):
            yield piece
            row += piece.rows
    except RecursionError:
        raise UnreadableFile(f"{_after(row)}it is nested too deeply") from None
    except Exception as error:  # one file must not stop all later ones
        if isinstance(error, UnusableFormat) or _is_of_stream(error):
            raise
        raise UnreadableFile(f"{_after(row)}it cannot be read as {content.kind}: {error}") from error


def _after(row: int) -> str:
    return f"after row {row:,}: " if row else ""


def _is_of_stream(error: Exception) -> bool:
    # Arrow's own are of this kind if it has not implemented something.
    return isinstance(error, RuntimeError) and not isinstance(error, NotImplementedError)


def _read(stream: BinaryIO, content: ContentFormat, schema: Schema, kinds: Kinds, skipped: int) -> Iterator[FilePiece]:
    match content:
        case ParquetFiles():
            return _parquet(stream, schema, skipped)
        case JsonLinesMessages():
            before = stream.read(_BLOCK).removeprefix(_MARK)
            return _lines(stream, before, b"", decoder(content, schema, kinds), schema, skipped)
        case CsvMessages():
            return _csv(stream, content, schema, kinds, skipped)
        case AvroMessages():
            return _messages(container_blocks(stream), decoder(content, schema, kinds), schema, skipped)
        case _:
            return _messages(_whole(stream), decoder(content, schema, kinds), schema, skipped)


def _whole(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    message = stream.read(LARGEST_RAW_MESSAGE + 1)
    if len(message) > LARGEST_RAW_MESSAGE:
        raise ValueError(f"it has more than {LARGEST_RAW_MESSAGE:,} bytes; write several, or an event on each line")
    if message:
        yield 1, message.removeprefix(_MARK)


def _messages(
    messages: Iterator[tuple[int, bytes]], decode: Decoder, schema: Schema, skipped: int
) -> Iterator[FilePiece]:
    for count, message in messages:
        if skipped >= count > 0:
            skipped -= count
            yield _nothing(schema)
            continue
        events, unfit = decode([message])
        yield FilePiece(rows=count, events=events, unfit=unfit)


def _csv(stream: BinaryIO, content: CsvMessages, schema: Schema, kinds: Kinds, skipped: int) -> Iterator[FilePiece]:
    before = stream.read(_BLOCK).removeprefix(_MARK)
    quote = content.quote.encode()
    if not content.columns:
        before = before.lstrip(b"\r\n")
        end = _rows_end(before, quote, first=True) or len(before)
        header, before = before[:end].decode(), before[end:]
        rows = csv.reader([header], delimiter=content.separator, quotechar=content.quote)
        names = tuple(name.strip() for name in next(rows, []))
        if not names:
            return iter(())
        try:
            content = CsvMessages(columns=names, separator=content.separator, quote=content.quote)
        except ValidationError as error:
            raise ValueError(f"the names of its columns cannot be used: {error.errors()[0]['msg']}") from None
    return _lines(stream, before, quote, decoder(content, schema, kinds), schema, skipped)


def _lines(  # noqa: PLR0913, PLR0917 - a file and its beginning, what reads it, the schema, and a row are six
    stream: BinaryIO, before: bytes, quote: bytes, decode: Decoder, schema: Schema, skipped: int
) -> Iterator[FilePiece]:
    for block in _blocks(stream, before, quote):
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        if skipped >= count:
            skipped -= count
            yield _nothing(schema)
            continue
        lines = block
        if skipped:
            lines, count = b"\n".join(block.split(b"\n")[skipped:]), count - skipped
            skipped = 0
        events, unfit = decode([lines])
        yield FilePiece(rows=count, events=events, unfit=unfit)


def _blocks(stream: BinaryIO, before: bytes, quote: bytes) -> Iterator[bytes]:
    """Whole lines, as many as are read at once."""
    rest = before
    while True:
        if end := _rows_end(rest, quote):
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > LARGEST_RAW_MESSAGE:
            quoted = ", or a quote is not closed" if quote else ""
            raise ValueError(f"a line has more than {LARGEST_RAW_MESSAGE:,} bytes{quoted}")
        if not (part := stream.read(_BLOCK)):
            break
        rest += part
    if rest:
        yield rest


def _rows_end(text: bytes, quote: bytes, *, first: bool = False) -> int:
    r"""Where the last row of a text ends, or its first; 0 if none does. Ends of lines within quotes end none.

    >>> _rows_end(b'a\nb,"c\nd', b'"'), _rows_end(b'a\nb,"c\nd"\ne', b'"'), _rows_end(b'a\nb\n', b"", first=True)
    (2, 10, 2)
    """
    if first:
        end = text.find(b"\n") + 1
        while end and quote and text.count(quote, 0, end) % 2:
            end = text.find(b"\n", end) + 1
        return end
    end = text.rfind(b"\n") + 1
    is_open = bool(quote) and text.count(quote, 0, end) % 2 == 1
    while end and is_open:
        start = text.rfind(b"\n", 0, end - 1) + 1
        is_open ^= text.count(quote, start, end) % 2 == 1
        end = start
    return end


def _parquet(stream: BinaryIO, schema: Schema, skipped: int) -> Iterator[FilePiece]:
    with parquet.ParquetFile(stream) as plain:
        columns = [plain.schema.column(place) for place in range(len(plain.schema.names))]
        texts = [
            column.path
            for column in columns
            if column.physical_type == "BYTE_ARRAY" and column.logical_type.type in _TEXTS
        ]
        # A short file may hold one long text in millions of places, so each text is read once, and then measured.
        file = parquet.ParquetFile(stream, metadata=plain.metadata, read_dictionary=texts)
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            if skipped >= group.num_rows:
                skipped -= group.num_rows
                continue
            values = max((group.column(place).num_values for place in range(group.num_columns)), default=0)
            if group.total_byte_size > _LARGEST_GROUP or values > _MOST_VALUES:
                raise ValueError(
                    f"a group of its rows has more than {_LARGEST_GROUP:,} bytes, or more than {_MOST_VALUES:,} values "
                    "of a column; write smaller groups"
                )
            for batch in file.iter_batches(_ROWS, row_groups=[number]):
                rows = batch.slice(min(skipped, len(batch)))
                skipped -= len(batch) - len(rows)
                for portion in _portions(rows):
                    yield _table_piece(portion, plain.schema_arrow, schema)


def _portions(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in parts that are not too large, or of one row."""
    if len(rows) <= 1 or _size(rows) <= _MOST_BYTES:
        yield rows
        return
    half = len(rows) // 2
    yield from _portions(rows.slice(0, half))
    yield from _portions(rows.slice(half))


def _size(rows: pa.RecordBatch) -> int:
    return sum(map(_column_size, rows.columns))


def _column_size(column: pa.Array) -> int:
    """Bytes of a column once its texts are in their places."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(column.dictionary).cast(pa.int64()).take(column.indices)
        return int((pc.sum(lengths).as_py() or 0) + column.indices.nbytes)
    if pa.types.is_map(kind):
        return sum(_column_size(part.slice(*_span(column))) for part in (column.keys, column.items))
    if pa.types.is_struct(kind):
        return sum(map(_column_size, column.flatten()))
    if pa.types.is_nested(kind):
        return _column_size(column.flatten())
    return int(column.nbytes)


def _span(column: pa.Array) -> tuple[int, int]:
    """Where the entries of a column of maps begin, and how many there are."""
    first, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
    return first, end - first


def _table_piece(rows: pa.RecordBatch, plain: pa.Schema, schema: Schema) -> FilePiece:
    if (size := _size(rows)) > LARGEST_EVENT and len(rows) == 1:
        unfit = Unfit(event="", reason=why_too_large(size))
        return FilePiece(rows=1, events=_nothing(schema).events, unfit=(unfit,))
    events, refused = table_events(rows.cast(plain), schema)
    reported = [Unfit(event=_shown(rows.slice(row, 1)), reason=reason) for row, reason in refused]
    return FilePiece(rows=len(rows), events=events, unfit=tuple(together(reported)))


def _shown(row: pa.RecordBatch) -> str:
    return str(next(iter(python_rows(row))))[:_SHOWN]


def _nothing(schema: Schema) -> FilePiece:
    return FilePiece(rows=0, events=pa.RecordBatch.from_pylist([], schema=arrow_schema(schema)))
