"""The work of a cell: it calls published code for the events of a request, and sends the outcomes."""

import mmap
import struct
import time
from typing import Any

import msgspec

from engine.code.cell.event_calls import EventCalls, Outcome
from engine.code.cell.frames import write_frame
from engine.code.cell.published import Failure, failure, load
from engine.code.cell.values import WrongOutput

LOADING = -1
"""The progress of a cell until its code is loaded; then it is the index of the event that it works on."""
PROGRESS = struct.Struct("=q")
_SEND_AFTER = 0.05
"""Seconds after which outcomes are sent, so that few are lost with the cell."""
_SEND_MOST = 2_000


class CellRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Events for a function; made by the worker."""

    digest: str
    source: str
    entry: str
    per: str
    needed: dict[str, str]
    """The kinds of the input fields."""
    fields: dict[str, str]
    """The kinds of the output fields."""
    count: int
    columns: list[list[Any]] = []
    """The values of the input fields, if the function takes events."""
    batch: bytes = b""
    """They as an Arrow stream, if it takes batches."""


def work(request: bytes, results: int, progress: mmap.mmap) -> None:
    """Work a request off. Sends lists of outcomes of events, or what became of the batch."""
    asked = msgspec.msgpack.decode(request, type=CellRequest)
    try:
        function = load(asked.digest, asked.source, asked.entry)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
        found = failure(error, asked.digest)
        _send(results, {"unloadable": found._asdict()})
        return
    if asked.per == "batch":
        PROGRESS.pack_into(progress, 0, 0)
        _send(results, _batch(asked, function))
        return
    calls = EventCalls(function, asked.digest, asked.needed, asked.fields)
    some: list[Outcome] = []
    sent = time.monotonic()
    outcomes = calls.outcomes(asked.count, asked.columns)
    for at in range(asked.count):
        PROGRESS.pack_into(progress, 0, at)
        some.append(outcome := next(outcomes))
        # What took all memory may still hold it, so the next events get another cell.
        exhausted = isinstance(outcome, Failure) and outcome.error == MemoryError.__name__
        if exhausted or len(some) >= _SEND_MOST or time.monotonic() - sent > _SEND_AFTER:
            _send(results, {"outcomes": _plain(some)})
            some, sent = [], time.monotonic()
            if exhausted:
                return
    _send(results, {"outcomes": _plain(some)})


def _plain(some: list[Outcome]) -> list[Any]:
    # A failure is a tuple, and becomes a map, so that it is distinguished from values.
    return [each._asdict() if isinstance(each, tuple) else each for each in some]


def _send(results: int, content: Any) -> None:
    write_frame(results, msgspec.msgpack.encode(content))


def _batch(asked: CellRequest, function: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - only for batches, because it makes a process large

    from engine.code.cell.batch_calls import called  # noqa: PLC0415 - likewise

    with pa.ipc.open_stream(asked.batch) as stream:
        batch = stream.read_next_batch()
    try:
        found = called(function, batch, asked.fields)
    except WrongOutput as error:
        return {"failure": Failure("WrongOutput", str(error))._asdict()}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
        return {"failure": failure(error, asked.digest)._asdict()}
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in found.columns
    ]
    return {"columns": columns, "kept": None if found.kept is None else found.kept.to_pylist()}
