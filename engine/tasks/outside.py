"""Tasks that write to or read from the world outside: tables, files, blobs, topics.

Where they do is either a secret that holds a URL, or a place among the files that the hosts keep for the tenant. What
writes gives each event on with a receipt that says where it went. None of them is ever shared.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from dags import Config, Effect, Emission, Kind, Place, Read, Schemas, Secret, State, TaskType
from engine.tasks.parse import TEXT

Where = Secret | Place
"""A secret that holds a URL, or a place of the tenant's."""
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
"""The name of a table or column, as every database takes it."""
Topic = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Encoding = Literal["text", "base64"]
RECEIPT = "receipt"
"""The field that says where an event was written."""


def _with_receipt(_config: Config, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].plus(RECEIPT, Kind.STRING)}


class TableInsertConfig(Config):
    """Which fields become the columns of which table."""

    database: Where
    """A secret with the URL of a database server, or a place, which is a file of SQLite."""
    table: Identifier
    fields: Annotated[tuple[Identifier, ...], Field(min_length=1)]
    """The fields that are written, each into the column of its name."""
    batch: Annotated[int, Field(ge=1, le=10_000)] = 100
    """How many rows are sent at once."""


TABLE_INSERT = TaskType(
    name="table_insert",
    summary="Writes a row into a table of a database for each event, once; makes the table where it is missing.",
    config=TableInsertConfig,
    reads=lambda config: tuple(Read(at=f"fields/{i}", field=field) for i, field in enumerate(config.fields)),
    output_schema=_with_receipt,
    effect=Effect.WRITES_OUTSIDE,
)
"""Writes rows into a table. Null is written as NULL; NaN and infinities are refused.

What was written is noted in a table `braid_written` of the same database, in the same transaction.
"""


class TableRangeQueryConfig(Config):
    """Which rows of which table an event asks for."""

    database: Where
    """A secret with the URL of a database server, or a place, which is a file of SQLite."""
    table: Identifier
    column: Identifier
    """The column whose values lie between the bounds, both included; rows come in its order."""
    low: str
    """The field with the lower bound."""
    high: str
    """The field with the upper bound."""
    columns: Annotated[dict[Identifier, Kind], Field(min_length=1)]
    """What is read of each row, and of what kind it is."""
    keep: tuple[str, ...] = ()
    """Fields of the asking event that each row is given with."""
    most: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """An event that asks for more rows is refused."""


def _rows(config: TableRangeQueryConfig, inputs: Schemas) -> Schemas:
    schema = inputs["in"].only(config.keep)
    for name, kind in config.columns.items():
        schema = schema.plus(name, kind)
    return {"out": schema}


TABLE_RANGE_QUERY = TaskType(
    name="table_range_query",
    summary="Reads the rows of a table whose column lies between two bounds that an event has.",
    config=TableRangeQueryConfig,
    reads=lambda config: (
        Read(at="low", field=config.low),
        Read(at="high", field=config.high),
        *(Read(at=f"keep/{i}", field=field) for i, field in enumerate(config.keep)),
    ),
    output_schema=_rows,
    effect=Effect.READS_OUTSIDE,
    deterministic=False,
    emission=Emission.MANY,
    unique_per_cause=False,
    selectivity="one event per row found",
)
"""Asks a table. A bound that is null is refused."""


class BlobUploadConfig(Config):
    """What is written to which folder or bucket."""

    to: Where
    """A secret with the URL of a bucket or folder, or a place, which is a folder."""
    field: str
    """The field with the content."""
    encoding: Encoding = "text"
    """What the content is: text, or bytes in base64."""
    name: str | None = None
    """The field with the blob's name; else it is named by its content."""
    suffix: Annotated[str, StringConstraints(pattern=r"^(\.[A-Za-z0-9]{1,10}){0,2}$")] = ""
    """How names made from contents end, such as `.svg`."""


BLOB_UPLOAD = TaskType(
    name="blob_upload",
    summary="Writes a field of each event to a file of its own, on disk or in an object store.",
    config=BlobUploadConfig,
    reads=lambda config: (
        Read(at="field", field=config.field, kinds=TEXT),
        *((Read(at="name", field=config.name, kinds=TEXT),) if config.name else ()),
    ),
    output_schema=_with_receipt,
    effect=Effect.WRITES_OUTSIDE,
)
"""Writes blobs; the receipt is the blob's name. Null content, and names that lead elsewhere, are refused."""


class BlobDownloadConfig(Config):
    """What is read from which folder or bucket."""

    of: Where
    """A secret with the URL of a bucket or folder, or a place, which is a folder."""
    field: str = RECEIPT
    """The field with the blob's name, as `blob_upload` gives it."""
    into: str = "content"
    """The field that gets the content."""
    encoding: Encoding = "text"
    """What the content becomes: text, or bytes in base64."""
    most_bytes: Annotated[int, Field(ge=1, le=100_000_000)] = 16_000_000
    """A larger blob is refused."""


BLOB_DOWNLOAD = TaskType(
    name="blob_download",
    summary="Reads the file that each event names, on disk or in an object store.",
    config=BlobDownloadConfig,
    reads=lambda config: (Read(at="field", field=config.field, kinds=TEXT),),
    output_schema=lambda config, inputs: {"out": inputs["in"].plus(config.into, Kind.STRING)},
    effect=Effect.READS_OUTSIDE,
    deterministic=False,
)
"""Reads blobs. One that is not there, or is too large, and content that is no text, are refused."""


class ZipFilesConfig(Config):
    """What is put into archives of how many files."""

    field: str
    """The field with a file's content."""
    name: str
    """The field with its name in the archive."""
    encoding: Encoding = "text"
    """What the content is: text, or bytes in base64."""
    files: Annotated[int, Field(ge=1, le=10_000)] = 10


ZIP_FILES = TaskType(
    name="zip_files",
    summary="Packs the contents of so many events into one ZIP archive, as base64.",
    config=ZipFilesConfig,
    reads=lambda config: (
        Read(at="field", field=config.field, kinds=TEXT),
        Read(at="name", field=config.name, kinds=TEXT),
    ),
    output_schema=lambda _config, inputs: {
        "out": inputs["in"].only(()).plus("archive", Kind.STRING).plus("files", Kind.INTEGER)
    },
    state=State.STREAM,
    selectivity="one event per `files` events",
    gathers="files",
)
"""Packs files. It keeps those of the archive that is not full yet, at most `files` of them. Null is refused."""


class MqttPublishConfig(Config):
    """Where events are published."""

    topic: Topic
    """The topic of a source that the tenant has registered."""


MQTT_PUBLISH = TaskType(
    name="mqtt_publish",
    summary="Publishes each event as JSON on the topic of one of the tenant's own sources.",
    config=MqttPublishConfig,
    output_schema=_with_receipt,
    effect=Effect.WRITES_OUTSIDE,
)
"""Publishes events. Each carries its number in the field `_number`, which a message that is sent again repeats."""


class FileSinkConfig(Config):
    """Which files are written where."""

    to: Where
    """A secret with the URL of a bucket or folder, or a place, which is a folder."""
    format: Literal["jsonl", "parquet"] = "jsonl"


FILE_SINK = TaskType(
    name="file_sink",
    summary="Writes what it takes into files, one for each batch in which something comes.",
    config=FileSinkConfig,
    outputs=(),
    effect=Effect.WRITES_OUTSIDE,
)
"""Writes files of JSON lines or Parquet. A receipt of each file is delivered as the dataflow's own output."""


class NullSinkConfig(Config):
    """There is nothing to configure."""


NULL_SINK = TaskType(
    name="null_sink", summary="Takes events and does nothing with them.", config=NullSinkConfig, outputs=()
)
"""Drops what it takes."""

TYPES = (TABLE_INSERT, TABLE_RANGE_QUERY, BLOB_UPLOAD, BLOB_DOWNLOAD, ZIP_FILES, MQTT_PUBLISH, FILE_SINK, NULL_SINK)
"""All of this family."""
