"""Tasks that write events to files or topics, read files, or pack them: blobs, archives, sinks and MQTT.

A blob is a file per event, an archive has the files of several events, and a file sink writes one file per batch.
Over MQTT events are published as raw events. The null sink drops them.
"""

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from bridge.output_messages import event_texts
from dags.source_topics import source_topic
from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.outside.file_stores import check_name, file_store
from engine.implementations.values import contents, field_value, one_port, replaced, texts_of, with_receipts
from engine.plan import Subscribed, unfit
from engine.records.state import Staged
from engine.side_effect import MESSAGES, ActingBehaviour, EventNames
from engine.tasks import outside as described


def _blob_upload(config: described.BlobUploadConfig) -> Behaviour:
    """A blob without a name is named by its content. A blob with a name replaces the one of the same name.

    The receipt is the blob's name. Null content and names that lead outside the folder are refused. A repeated batch
    writes the same blobs in the same order, so it has no further effect.

    >>> folder = TemporaryDirectory()
    >>> outside, here = HostOutside(Path(folder.name)), {"place": "plots", "owner": "ann"}
    >>> upload = {"to": here, "field": "svg", "name": "name"}
    >>> try_out("blob_upload", upload, [{"name": "t.svg", "svg": "<svg/>"}], outside=outside)
    {'out': [{'name': 't.svg', 'svg': '<svg/>', 'receipt': 't.svg'}]}
    >>> folder.cleanup()
    """
    kept = file_store(config.to)

    def upload(_port: str, events: pa.RecordBatch, _state: Staged, _names: EventNames) -> Mapping[str, PortEmission]:
        blobs = contents(events, config.field, config.encoding)
        names = (
            [check_name(config.name, text) for text in texts_of(events, config.name)]
            if config.name
            else [f"{hashlib.sha256(blob).hexdigest()}{config.suffix}" for blob in blobs]
        )
        # For a repeated name, the last blob counts.
        for name, blob in dict(zip(names, blobs, strict=True)).items():
            kept.put(name, blob)
        return {"out": PortEmission(with_receipts(events, names))}

    return ActingBehaviour(act=upload)


def _blob_download(config: described.BlobDownloadConfig) -> Behaviour:
    """A blob that several events name is read once per call. One that is missing, too large or no text is refused.

    >>> folder = TemporaryDirectory()
    >>> outside, here = HostOutside(Path(folder.name)), {"place": "notes", "owner": "ann"}
    >>> (written,) = try_out("blob_upload", {"to": here, "field": "text"}, [{"text": "warm"}], outside=outside)["out"]
    >>> written["receipt"][:12]
    '0f0aa408c183'
    >>> read = try_out("blob_download", {"of": here}, [{"receipt": written["receipt"]}], outside=outside)["out"][0]
    >>> read["content"]
    'warm'
    >>> folder.cleanup()
    """
    kept = file_store(config.of)

    def download(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        names = [check_name(config.field, text) for text in texts_of(events, config.field)]
        contents_of = {
            name: field_value(kept.read(name, config.most_bytes), name, config.encoding)
            for name in dict.fromkeys(names)
        }
        values = pa.array([contents_of[name] for name in names], pa.string())
        return {"out": PortEmission(replaced(events, config.into, values))}

    return download


blob_upload = Implementation(type=described.BLOB_UPLOAD, make=_blob_upload)
blob_download = Implementation(type=described.BLOB_DOWNLOAD, make=_blob_download)


_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The same in every archive, so that the same files make the same archive."""
_ARCHIVES = pa.schema({"archive": pa.string(), "files": pa.int64()})
_WAITING = ("waiting",)
"""The state's key for the number of files in the incomplete archive. Each file is kept under its place."""


def _zip_files(config: described.ZipFilesConfig, events: pa.RecordBatch, state: Staged) -> PortEmission:
    """Emits an archive at the event that completes it. Two files of the same name are both in it. Null is refused.

    The state is the files of the incomplete archive.

    >>> files = [{"name": f"{i}.txt", "text": "warm"} for i in range(5)]
    >>> made = try_out("zip_files", {"field": "text", "name": "name", "files": 2}, files)["out"]
    >>> [row["files"] for row in made], zipfile.ZipFile(io.BytesIO(base64.b64decode(made[1]["archive"]))).namelist()
    ([2, 2], ['2.txt', '3.txt'])
    """
    blobs = contents(events, config.field, config.encoding)
    names = [check_name(config.name, text) for text in texts_of(events, config.name)]
    before = state.get(_WAITING) or 0
    files = [tuple(state.get((place,))) for place in range(before)]
    archives, ends = [], []
    for at, file in enumerate(zip(names, blobs, strict=True)):
        files.append(file)
        if len(files) >= config.files:
            archives.append({"archive": base64.b64encode(_zipped(files)).decode(), "files": len(files)})
            ends.append(at)
            files = []
    # The earlier ones are kept already, unless they have left.
    for place in range(0 if ends else before, len(files)):
        state.put((place,), files[place])
    for place in range(len(files), before):
        state.delete((place,))
    if len(files) != before:
        state.put(_WAITING, len(files))
    return PortEmission(pa.RecordBatch.from_pylist(archives, schema=_ARCHIVES), np.array(ends, np.int64))


def _zipped(files: Sequence[tuple[str, bytes]]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, blob) in enumerate(files):
            twice = any(other == name for other, _ in files[:number])
            archive.writestr(
                zipfile.ZipInfo(f"{number}-{name}" if twice else name, _ZIP_TIME), blob, zipfile.ZIP_DEFLATED
            )
    return content.getvalue()


zip_files = Implementation(type=described.ZIP_FILES, make=one_port(_zip_files))


_RECEIPTS = pa.schema({"file": pa.string(), "events": pa.int64()})


def _file_sink(config: described.FileSinkConfig) -> Behaviour:
    """A receipt of each file is delivered as the dataflow's output.

    A repeated batch has the same events, so its file replaces the earlier one.

    >>> folder = TemporaryDirectory()
    >>> to = {"place": "readings", "owner": "ann"}
    >>> try_out("file_sink", {"to": to}, [{"t": 21.5}, {"t": 19.0}], outside=HostOutside(Path(folder.name)))
    {'out': [{'file': '-1/-000000000000.jsonl', 'events': 2}]}
    >>> folder.cleanup()
    """
    kept = file_store(config.to)

    def write(_port: str, events: pa.RecordBatch, _state: Staged, names: EventNames) -> Mapping[str, PortEmission]:
        receipts = []
        if len(events):
            writer = names.writer.replace("/", "-")
            file = f"{writer}/{quote(names.batch, safe='').replace('%', '=')}.{config.format}"
            lines = config.format == "jsonl"
            kept.put(file, b"".join(text + b"\n" for text in event_texts(events)) if lines else _parquet(events))
            receipts.append({"file": file, "events": len(events)})
        # The emissions of a sink are delivered to its tenant, as for an output.
        return {
            "out": PortEmission(
                pa.RecordBatch.from_pylist(receipts, schema=_RECEIPTS),
                np.full(len(receipts), len(events) - 1, np.int64),
            )
        }

    return ActingBehaviour(act=write, whole=True)


def _parquet(events: pa.RecordBatch) -> bytes:
    content = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_batches([events]), content)
    return content.getvalue()


def _null_sink(_config: described.NullSinkConfig) -> Behaviour:
    """Emits nothing.

    >>> try_out("null_sink", {}, [{"t": 21.5}])
    {}
    """
    return lambda _port, _events, _state: {}


file_sink = Implementation(type=described.FILE_SINK, make=_file_sink)
null_sink = Implementation(type=described.NULL_SINK, make=_null_sink)


_MESSAGES = pa.schema({"topic": pa.string(), "event": pa.string()})


def _mqtt_publish(config: described.MqttPublishConfig) -> Behaviour:
    """Events are passed on at once. Their messages are sent after the batch is recorded.

    Each carries its number in the field `_number`, which is the same if the message is sent again.

    >>> try_out("mqtt_publish", {"topic": "ann/models"}, [{"model": 7}])["out"]
    [{'model': 7, 'receipt': 'ann/models#:0.0'}]
    """
    if (why := unfit(Subscribed(topic=config.topic))) or not source_topic(config.topic).is_plain:
        raise ValueError(why or f"{config.topic!r} has wildcards; publish on one topic that they match")

    def publish(_port: str, events: pa.RecordBatch, _state: Staged, names: EventNames) -> Mapping[str, PortEmission]:
        texts = pa.array([text.decode() for text in event_texts(events)], pa.string())
        topics = pa.array([config.topic] * len(events), pa.string())
        return {
            "out": PortEmission(with_receipts(events, [f"{config.topic}#{name}" for name in names.texts()])),
            MESSAGES: PortEmission(pa.record_batch([topics, texts], schema=_MESSAGES)),
        }

    return ActingBehaviour(act=publish)


mqtt_publish = Implementation(type=described.MQTT_PUBLISH, make=_mqtt_publish)
