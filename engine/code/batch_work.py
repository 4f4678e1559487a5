"""Functions of a batch, called for all events of a batch, or for fewer.

If the function raises, or ends its cell, the events are halved until those are found that make it fail alone. When the
time is over, or nothing but failures comes, the rest of the batch is refused too.
"""

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from bridge.spools.log import packed
from engine.code.cell.batch_calls import BatchOutcome, called
from engine.code.cell.frames import frames_in
from engine.code.cell.published import Failure, failure
from engine.code.cell.values import WrongOutput
from engine.code.cell.work import LOADING, CellRequest
from engine.code.cells import cells
from engine.code.function import (
    FUNCTION_SECONDS,
    MOST_AT_ONCE,
    WRONG,
    Failed,
    Function,
    FunctionOutcome,
    column_of,
    joined_pieces,
    loaded,
    refusal,
    unloadable,
)

_HOPELESS = 20
"""If this many first events fail alone, the rest is refused without a try."""


class _Sent(msgspec.Struct, frozen=True):
    """The message of a cell."""

    columns: list[list[bool | int | float | str | None]] = []
    kept: list[bool] | None = None
    failure: Failed | None = None
    unloadable: Failed | None = None


class _Unable(NamedTuple):
    """Why a function cannot be called at all."""

    failure: Failure


_SENT = msgspec.msgpack.Decoder(_Sent)


class Batches:
    """Work by calls for whole batches."""

    def __init__(self, function: Function, *, vouched: bool) -> None:
        self._function = function
        self._seconds = float("inf") if vouched else FUNCTION_SECONDS
        self._call = self._in_worker if vouched else self._in_cell

    def __call__(self, events: pa.RecordBatch) -> FunctionOutcome:
        """What the function makes of events."""
        late = time.monotonic() + self._seconds
        pieces: list[tuple[int, FunctionOutcome]] = []
        waiting = [(at, min(at + MOST_AT_ONCE, len(events))) for at in range(0, len(events), MOST_AT_ONCE)][::-1]
        alone = 0
        rest: Failure | None = None
        while waiting:
            first, end = waiting.pop()
            if rest is None and time.monotonic() > late:
                rest = Failure("CodeEnded", f"the batch took over {self._seconds:g} s, and this event had no turn")
            found = rest or self._call(events.slice(first, end - first), late)
            if isinstance(found, _Unable):
                found = rest = found.failure
            if isinstance(found, BatchOutcome):
                pieces.append((first, self._made(found, end - first)))
            elif rest is not None or end - first == 1:
                pieces.append((first, self._refused(found, end - first)))
                alone += rest is None
                if alone == _HOPELESS == end:
                    rest = found
            else:
                middle = (first + end) // 2
                waiting += [(middle, end), (first, middle)]
        return joined_pieces(pieces, self._function.fields)

    def _made(self, found: BatchOutcome, count: int) -> FunctionOutcome:
        if found.kept is None:
            return FunctionOutcome(np.arange(count, dtype=np.int64), found.columns, [])
        kept = np.flatnonzero(found.kept.to_numpy(zero_copy_only=False)).astype(np.int64)
        return FunctionOutcome(kept, [column.filter(found.kept) for column in found.columns], [])

    def _refused(self, why: Failure, count: int) -> FunctionOutcome:
        columns = [column_of([], kind) for kind in self._function.fields.values()]
        return FunctionOutcome(np.empty(0, np.int64), columns, [refusal(at, why) for at in range(count)])

    def _in_worker(self, events: pa.RecordBatch, _late: float) -> BatchOutcome | Failure | _Unable:
        function = self._loaded
        if isinstance(function, Failure):
            return _Unable(function)
        try:
            return called(function, events, self._function.fields)
        except WrongOutput as error:
            return Failure("WrongOutput", str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
            return failure(error, self._function.digest)

    @cached_property
    def _loaded(self) -> Callable[[Any], Any] | Failure:
        return loaded(self._function)

    @cached_property
    def _source(self) -> str:
        return self._function.source

    def _in_cell(self, events: pa.RecordBatch, late: float) -> BatchOutcome | Failure | _Unable:
        function = self._function
        request = CellRequest(
            digest=function.digest,
            source=self._source,
            entry=function.entry,
            per="batch",
            needed=dict(function.needed),
            fields=dict(function.fields),
            count=len(events),
            batch=packed(events),
        )
        seconds = max(1.0, late - time.monotonic())
        ending = cells("batch").run(
            msgspec.msgpack.encode(request),
            path=function.path,
            seconds=seconds,
            wheels=function.wheels,
            connections=function.connections,
        )
        frames = frames_in(ending.results)
        if not frames:
            why = Failure("CodeEnded", ending.why or "it ended its process")
            if ending.at == LOADING:
                return _Unable(why._replace(message=f"while it was loaded, {why.message}"))
            return why
        try:
            return self._read(_SENT.decode(frames[0]), len(events))
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError):
            return WRONG

    def _read(self, sent: _Sent, count: int) -> BatchOutcome | Failure | _Unable:
        if sent.unloadable is not None:
            return _Unable(unloadable(sent.unloadable.failure))
        if sent.failure is not None:
            return sent.failure.failure
        columns = [column_of(*each) for each in zip(sent.columns, self._function.fields.values(), strict=True)]
        kept = None if sent.kept is None else pa.array(sent.kept, pa.bool_())
        if any(len(each) != count for each in (*columns, *([] if kept is None else [kept]))):
            raise ValueError("it sends more or fewer rows than events")
        return BatchOutcome(columns, kept)
