"""Functions of an event, called for all events of a batch.

A function that an operator vouches for is called in the worker, any other in cells. If a cell ends before its time, the
event that it worked on is to blame, and the others get another cell. After a few such ends, or when the time is over,
the rest of the batch is refused too, so that the batch goes on.
"""

import time
from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import msgspec
import pyarrow as pa

from engine.code.cell.event_calls import EventCalls, Outcome
from engine.code.cell.frames import frames_in
from engine.code.cell.published import Failure
from engine.code.cell.work import LOADING, CellRequest
from engine.code.cells import CellEnd, cells
from engine.code.function import (
    FUNCTION_SECONDS,
    MOST_AT_ONCE,
    WRONG,
    Failed,
    Function,
    FunctionOutcome,
    columns_of,
    joined_pieces,
    loaded,
    made_of,
    unloadable,
)

MOST_ENDS = 3
"""The cells that may end before their time in one batch."""
Work: TypeAlias = Callable[[pa.RecordBatch], FunctionOutcome]
"""Makes something of the events of a batch, which have only the fields that the function needs."""


class _Sent(msgspec.Struct, frozen=True):
    """A message of a cell."""

    outcomes: list[list[bool | int | float | str | None] | Failed | None] = []
    unloadable: Failed | None = None


_SENT = msgspec.msgpack.Decoder(_Sent)


class EventsInWorker:
    """Work by calls in this process."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def __call__(self, events: pa.RecordBatch) -> FunctionOutcome:
        """What the function makes of events."""
        calls = self._calls
        if isinstance(calls, Failure):
            return made_of([calls] * len(events), self._function.fields)
        return made_of(list(calls.outcomes(len(events), columns_of(events))), self._function.fields)

    @cached_property
    def _calls(self) -> EventCalls | Failure:
        found = loaded(self._function)
        if isinstance(found, Failure):
            return found
        return EventCalls(found, self._function.digest, self._function.needed, self._function.fields)


class EventsInCells:
    """Work by calls in cells."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def __call__(self, events: pa.RecordBatch) -> FunctionOutcome:
        """What the function makes of events."""
        found = _Batch(self._function, self._source, events)
        found.work_off()
        pieces = []
        for first in range(0, len(events), MOST_AT_ONCE):
            some = found.outcomes[first : first + MOST_AT_ONCE]
            try:
                made = made_of(some, self._function.fields)
            except (ValueError, TypeError, OverflowError):
                made = made_of([WRONG] * len(some), self._function.fields)
            pieces.append((first, made))
        return joined_pieces(pieces, self._function.fields)

    @cached_property
    def _source(self) -> str:
        return self._function.source


class _Batch:
    """The events of one batch, and what has become of them so far."""

    def __init__(self, function: Function, source: str, events: pa.RecordBatch) -> None:
        self.outcomes: list[Outcome] = []
        self._function = function
        self._source = source
        self._events = events
        self._blamed: dict[int, Failure] = {}
        """Events that ended their cells."""
        self._until = len(events)
        """The end of the events that get a cell."""
        self._late = time.monotonic() + FUNCTION_SECONDS

    def work_off(self) -> None:
        """Find the outcome of every event."""
        rest = Failure("CodeEnded", f"the process of {MOST_ENDS} earlier events of the batch ended before its time")
        while (first := len(self.outcomes)) < self._until:
            if (blamed := self._blamed.get(first)) is not None:
                self.outcomes.append(blamed)
                continue
            if time.monotonic() > self._late:
                rest = Failure("CodeEnded", f"the batch took over {FUNCTION_SECONDS:g} s, and this event had no turn")
                break
            end = min([first + MOST_AT_ONCE, self._until, *(each for each in self._blamed if each > first)])
            unable = self._run(first, end)
            if unable is not None:
                rest = unable
                break
        self.outcomes += [rest] * (len(self._events) - len(self.outcomes))

    def _run(self, first: int, end: int) -> Failure | None:
        """Run a cell for some events; why none of the rest can be run."""
        ending = self._ending(first, end)
        try:
            messages = [_SENT.decode(each) for each in frames_in(ending.results)]
        except msgspec.MsgspecError:
            return WRONG
        for each in messages:
            if each.unloadable is not None:
                return unloadable(each.unloadable.failure)
            self.outcomes += [one.failure if isinstance(one, Failed) else one for one in each.outcomes]
        if len(self.outcomes) > end:
            del self.outcomes[first:]
            return WRONG
        if len(self.outcomes) < end:
            why = Failure("CodeEnded", ending.why or "it ended its process")
            if ending.at == LOADING:
                return why._replace(message=f"while it was loaded, {why.message}")
            self._blame(first, end, ending.at, why)
        return None

    def _blame(self, first: int, end: int, at: int, why: Failure) -> None:
        """Blame an event for the end of a cell that was to work on some."""
        last = self.outcomes[-1] if len(self.outcomes) > first else None
        if isinstance(last, Failure) and last.error == MemoryError.__name__:
            # It is refused already.
            blamed = len(self.outcomes) - 1
        else:
            blamed = min(max(len(self.outcomes), first + at), end - 1)
        self._blamed[blamed] = why
        if len(self._blamed) >= MOST_ENDS:
            self._until = blamed + 1

    def _ending(self, first: int, end: int) -> CellEnd:
        function = self._function
        request = CellRequest(
            digest=function.digest,
            source=self._source,
            entry=function.entry,
            per="event",
            needed=dict(function.needed),
            fields=dict(function.fields),
            count=end - first,
            columns=columns_of(self._events.slice(first, end - first)),
        )
        seconds = max(1.0, self._late - time.monotonic())
        return cells("event").run(
            msgspec.msgpack.encode(request),
            path=function.path,
            seconds=seconds,
            wheels=function.wheels,
            connections=function.connections,
        )
