"""Sinks that write files, or drop events."""

import io
from collections.abc import Mapping
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from bridge.output_messages import event_texts
from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.outside.file_stores import file_store
from engine.records.state import Staged
from engine.side_effect import Act, ActingBehaviour, EventNames
from engine.tasks.outside import FILE_SINK, NULL_SINK, FileSinkConfig, NullSinkConfig

_RECEIPTS = pa.schema({"file": pa.string(), "events": pa.int64()})


def _file_sink(config: FileSinkConfig) -> Behaviour:
    """A repeated batch has the same events, so its file replaces the earlier one.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from engine.outside import HostOutside
    >>> from engine.trial import try_out
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
            kept.put(file, _lines(events) if config.format == "jsonl" else _parquet(events))
            receipts.append({"file": file, "events": len(events)})
        # The emissions of a sink are delivered to its tenant, as for an output.
        return {
            "out": PortEmission(
                pa.RecordBatch.from_pylist(receipts, schema=_RECEIPTS),
                np.full(len(receipts), len(events) - 1, np.int64),
            )
        }

    act: Act = write
    return ActingBehaviour(act=act, whole=True)


def _lines(events: pa.RecordBatch) -> bytes:
    return b"".join(text + b"\n" for text in event_texts(events))


def _parquet(events: pa.RecordBatch) -> bytes:
    content = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_batches([events]), content)
    return content.getvalue()


def _null_sink(_config: NullSinkConfig) -> Behaviour:
    """Emits nothing.

    >>> from engine.trial import try_out
    >>> try_out("null_sink", {}, [{"t": 21.5}])
    {}
    """
    return lambda _port, _events, _state: {}


file_sink = Implementation(type=FILE_SINK, make=_file_sink)
null_sink = Implementation(type=NULL_SINK, make=_null_sink)
