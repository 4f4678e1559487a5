"""Tasks that write to or read from the outside world: tables, files, blobs, topics, webhooks.

Each works on a secret with a URL, or on a place among the files that the hosts keep for the tenant. A task that writes
passes each event on with a receipt that names the place. None of them is ever shared.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    Discriminator,
    Field,
    PrivateAttr,
    StringConstraints,
    Tag,
    ValidationInfo,
    model_validator,
)

from dags import (
    Config,
    Effect,
    Emission,
    FieldFates,
    Kind,
    Outside,
    Read,
    Schema,
    Schemas,
    Secret,
    State,
    StateFate,
    TaskType,
)
from dags.config import Where
from dags.kafka import KafkaTopic
from dags.task_type import sets_nothing
from engine.tasks.parse import TEXT, extended, listed

_Folder = Annotated[Where, Field(description="A secret with the URL of a bucket or folder, or a place of a folder.")]
_Server = Annotated[
    Where, Field(description="A secret with the URL of a database server, or a place of a SQLite file.")
]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
"""The name of a table or column that every database accepts."""
Topic = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Encoding = Annotated[Literal["text", "base64"], Field(description="The form of the content: text, or bytes in base64.")]
KEY_KINDS = frozenset({Kind.INTEGER, Kind.STRING})
"""The kinds of fields that become keys of messages."""
RECEIPT = "receipt"
"""The field with the place where an event was written."""


def _with_receipt(_config: Config, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].plus(RECEIPT, Kind.STRING)}


class TableInsertConfig(Config):
    """The table, and the fields that become its columns."""

    database: _Server
    table: Identifier
    fields: Annotated[tuple[Identifier, ...], Field(min_length=1)]
    """The fields to write, each to the column of its name."""
    batch: Annotated[int, Field(ge=1, le=10_000)] = 100
    """The number of rows to send at once."""


TABLE_INSERT = TaskType(
    name="table_insert",
    summary="Writes a row to a database table for each event, exactly once. Creates the table if it is missing.",
    config=TableInsertConfig,
    reads=lambda config: listed("fields", config.fields),
    output_schema=_with_receipt,
    effect=Effect.WRITES_OUTSIDE,
)


class TableRangeQueryConfig(Config):
    """The table, and the rows to read for an event."""

    database: _Server
    table: Identifier
    column: Identifier
    """The column to compare with the bounds, both inclusive. Rows come in its order."""
    low: str
    """The field with the lower bound."""
    high: str
    """The field with the upper bound."""
    columns: Annotated[dict[Identifier, Kind], Field(min_length=1)]
    """Names and kinds of the columns to read."""
    keep: tuple[str, ...] = ()
    """Fields of the event to copy to each row."""
    most: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """The most rows per event. An event that needs more is refused."""


TABLE_RANGE_QUERY = TaskType(
    name="table_range_query",
    summary="Reads the rows of a table in which a column is between two bounds from the event.",
    config=TableRangeQueryConfig,
    sets=lambda config: tuple(config.columns),
    reads=lambda config: (
        Read(at="low", field=config.low),
        Read(at="high", field=config.high),
        *listed("keep", config.keep),
    ),
    output_schema=lambda config, inputs: {"out": extended(inputs["in"].only(config.keep), config.columns)},
    effect=Effect.READS_OUTSIDE,
    deterministic=False,
    emission=Emission.MANY,
    selectivity="one event per row found",
)


class BlobUploadConfig(Config):
    """The folder or bucket, and the content to write."""

    to: _Folder
    field: str
    """The field with the content."""
    encoding: Encoding = "text"
    name: str | None = None
    """The field with the blob's name. By default the name is made from the content."""
    suffix: Annotated[str, StringConstraints(pattern=r"^(\.[A-Za-z0-9]{1,10}){0,2}$")] = ""
    """The suffix of names made from the content, such as `.svg`."""


BLOB_UPLOAD = TaskType(
    name="blob_upload",
    summary="Writes a field of each event to its own file, on disk or in an object store.",
    config=BlobUploadConfig,
    reads=lambda config: (
        Read(at="field", field=config.field, kinds=TEXT),
        *((Read(at="name", field=config.name, kinds=TEXT),) if config.name else ()),
    ),
    output_schema=_with_receipt,
    effect=Effect.WRITES_OUTSIDE,
)


class BlobDownloadConfig(Config):
    """The folder or bucket, and the blob to read."""

    of: _Folder
    field: str = RECEIPT
    """The field with the blob's name, such as the receipt of `blob_upload`."""
    into: str = "content"
    """The field for the content."""
    encoding: Encoding = "text"
    most_bytes: Annotated[int, Field(ge=1, le=100_000_000)] = 16_000_000
    """A larger blob is refused."""


BLOB_DOWNLOAD = TaskType(
    name="blob_download",
    summary="Reads the file named by each event, on disk or in an object store.",
    config=BlobDownloadConfig,
    sets=lambda config: (config.into,),
    reads=lambda config: (Read(at="field", field=config.field, kinds=TEXT),),
    output_schema=lambda config, inputs: {"out": inputs["in"].plus(config.into, Kind.STRING)},
    effect=Effect.READS_OUTSIDE,
    deterministic=False,
)


class ZipFilesConfig(Config):
    """The files to archive, and their number per archive."""

    field: str
    """The field with the file's content."""
    name: str
    """The field with the file's name in the archive."""
    encoding: Encoding = "text"
    files: Annotated[int, Field(ge=1, le=10_000)] = 10


ZIP_FILES = TaskType(
    name="zip_files",
    summary="Packs the contents of `files` events into one ZIP archive, as base64.",
    config=ZipFilesConfig,
    reads=lambda config: (
        Read(at="field", field=config.field, kinds=TEXT),
        Read(at="name", field=config.name, kinds=TEXT),
    ),
    output_schema=lambda _config, _inputs: {"out": Schema.of(archive=Kind.STRING, files=Kind.INTEGER)},
    state=State.STREAM,
    state_change=FieldFates(encoding=StateFate.KEPT, files=StateFate.KEPT),
    selectivity="one event per `files` events",
    gathers="files",
)


class MqttPublishConfig(Config):
    """The topic to publish on."""

    topic: Topic
    """The topic of a source that the tenant has registered."""


MQTT_PUBLISH = TaskType(
    name="mqtt_publish",
    summary="Publishes each event as JSON on the topic of one of the tenant's own sources.",
    config=MqttPublishConfig,
    output_schema=_with_receipt,
    effect=Effect.WRITES_OUTSIDE,
)


_OWN_HEADERS = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "webhook-id",
        "webhook-signature",
        "webhook-timestamp",
    }
)
"""The headers that the task sets, or that would change how a request is read."""
_HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,100}$")]
_HeaderText = Annotated[str, StringConstraints(max_length=2_000, pattern=r"^[\x20-\x7e]*$")]


def _is_secret(value: Any) -> str:
    return "a secret" if isinstance(value, dict | Secret) else "a text"


class WebhookConfig(Config):
    """Where each event is posted to, and how."""

    url: Annotated[
        Annotated[Secret, Tag("a secret")]
        | Annotated[str, StringConstraints(max_length=2_000, pattern=r"^https?://[^\s]+$"), Tag("a text")],
        Discriminator(_is_secret),
        Field(description="The URL of the receiver, or a secret with it."),
    ]
    signing: Secret | None = None
    """The secret that requests are signed with, as Standard Webhooks say; by default they are not signed."""
    order_by: tuple[str, ...] = ()
    """The fields of the key. Of each key one event is posted after the other; by default all are."""
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    """The method of the requests."""
    headers: Annotated[
        dict[
            _HeaderName,
            Annotated[
                Annotated[Secret, Tag("a secret")] | Annotated[_HeaderText, Tag("a text")], Discriminator(_is_secret)
            ],
        ],
        Field(max_length=20, description="Further headers, each with a text or a secret."),
    ] = Field(default={})
    timeout: Annotated[float, Field(ge=0.1, le=2.5)] = 2.0
    """The seconds that the receiver has to answer."""
    _outside: Outside | None = PrivateAttr(None)

    @property
    def in_host(self) -> Outside:
        """What the host of a worker knows of addresses."""
        if self._outside is None:
            raise LookupError("the addresses of a receiver are found only in a host's worker, which has its plan")
        return self._outside

    @model_validator(mode="after")
    def _with_own_headers(self) -> Self:
        names = [name.lower() for name in self.headers]
        for name in names:
            if name in _OWN_HEADERS or names.count(name) > 1:
                raise ValueError(f"the header {name!r} is set by the task, or twice; leave it out")
        return self

    @model_validator(mode="after")
    def _in_worker(self, info: ValidationInfo) -> Self:
        self._outside = (info.context or {}).get("outside")
        return self


WEBHOOK = TaskType(
    name="webhook",
    summary="Posts each event as JSON to a receiver over HTTP, again if it has to be, and in the order of its key.",
    config=WebhookConfig,
    reads=lambda config: listed("order_by", config.order_by),
    output_schema=_with_receipt,
    effect=Effect.WRITES_OUTSIDE,
)


class KafkaPublishConfig(KafkaTopic):
    """The topic to publish on, and the form of the messages."""

    key: str | None = None
    """The field that becomes the key of each message. Messages of one key keep the order of their events."""
    format: Literal["json"] = "json"
    """The form of a message's value: the event as a JSON object."""


KAFKA_PUBLISH = TaskType(
    name="kafka_publish",
    summary="Publishes each event on a topic of a Kafka cluster, at least once, with a number that tells repeats.",
    config=KafkaPublishConfig,
    reads=lambda config: (Read(at="key", field=config.key, kinds=KEY_KINDS),) if config.key else (),
    output_schema=_with_receipt,
    effect=Effect.WRITES_OUTSIDE,
)


class FileSinkConfig(Config):
    """The folder and format of the files."""

    to: _Folder
    format: Literal["jsonl", "parquet"] = "jsonl"


FILE_SINK = TaskType(
    name="file_sink",
    summary="Writes its events to files, one per batch with events.",
    config=FileSinkConfig,
    outputs=(),
    effect=Effect.WRITES_OUTSIDE,
)


class NullSinkConfig(Config):
    """No settings."""


NULL_SINK = TaskType(
    name="null_sink", summary="Drops its events.", config=NullSinkConfig, sets=sets_nothing, outputs=()
)
