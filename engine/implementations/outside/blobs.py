"""Blobs: files, one per event."""

import hashlib
from collections.abc import Mapping

import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.outside.contents import contents, field_value, texts
from engine.implementations.outside.file_stores import check_name, file_store
from engine.implementations.outside.receipts import with_field, with_receipts
from engine.records.state import Staged
from engine.side_effect import Act, ActingBehaviour, EventNames
from engine.tasks.outside import BLOB_DOWNLOAD, BLOB_UPLOAD, BlobDownloadConfig, BlobUploadConfig


def _blob_upload(config: BlobUploadConfig) -> Behaviour:
    """A blob without a name is named by its content. A blob with a name replaces the one of the same name.

    A repeated batch writes the same blobs in the same order, so it has no further effect.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from engine.outside import HostOutside
    >>> from engine.trial import try_out
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
            [check_name(config.name, each) for each in texts(events, config.name)]
            if config.name
            else [f"{hashlib.sha256(blob).hexdigest()}{config.suffix}" for blob in blobs]
        )
        # For a repeated name, the last blob counts.
        for name, blob in dict(zip(names, blobs, strict=True)).items():
            kept.put(name, blob)
        return {"out": PortEmission(with_receipts(events, names))}

    act: Act = upload
    return ActingBehaviour(act=act)


def _blob_download(config: BlobDownloadConfig) -> Behaviour:
    """A blob that several events name is read once per call.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from engine.outside import HostOutside
    >>> from engine.trial import try_out
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
        names = [check_name(config.field, each) for each in texts(events, config.field)]
        found = {
            name: field_value(kept.read(name, config.most_bytes), name, config.encoding)
            for name in dict.fromkeys(names)
        }
        values = pa.array([found[name] for name in names], pa.string())
        return {"out": PortEmission(with_field(events, config.into, values))}

    return download


blob_upload = Implementation(type=BLOB_UPLOAD, make=_blob_upload)
blob_download = Implementation(type=BLOB_DOWNLOAD, make=_blob_download)
