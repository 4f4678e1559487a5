"""A published function, and what it makes of events."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from bridge.raw_events import ARROW_TYPES
from dags import Kind
from engine.behaviour import Refusal
from engine.code.cell.event_calls import Outcome
from engine.code.cell.published import Failure, failure, load
from engine.code.connections import Connections
from engine.code.store import read_source
from engine.event_streams import Numbers

MOST_AT_ONCE = 10_000
"""The most events that a function or a cell takes in one call."""
FUNCTION_SECONDS = 20.0
"""The most time that a function has for one batch, in cells."""
WRONG = Failure("WrongOutput", "its process sends something that its function did not give")


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of a published source; made by the implementation of the type `code`."""

    path: str
    """The file of the source."""
    digest: str
    entry: str
    needed: Mapping[str, str]
    """The kinds of the fields that it takes."""
    fields: Mapping[str, str]
    """The kinds of the fields that it gives."""
    connections: Connections | None = None
    """The connections that it may have; none if it has none."""
    wheels: tuple[str, ...] = ()
    """The files that it imports from besides what is installed."""

    @property
    def source(self) -> str:
        """Its source. Raises `NoCode`."""
        return read_source(self.path)


class Failed(msgspec.Struct, frozen=True):
    """A failure as a cell sends it, which is not to be trusted."""

    error: str
    message: str
    traceback: str

    @property
    def failure(self) -> Failure:
        """The failure, of a bounded length."""
        return Failure(self.error[:100], self.message[:1_000], self.traceback[:8_000])


def loaded(function: Function) -> Callable[[Any], Any] | Failure:
    """The function, loaded into this process; or why it cannot be. Raises `NoCode`."""
    source = function.source
    try:
        return load(function.digest, source, function.entry)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
        return unloadable(failure(error, function.digest))


def unloadable(found: Failure) -> Failure:
    """The failure of a source that cannot be loaded, as it is shown."""
    return found._replace(message=f"it cannot be loaded: {found.message}")


class FunctionOutcome(NamedTuple):
    """What a function makes of the events of a batch."""

    kept: Numbers
    """The indexes of the events that leave."""
    columns: list[pa.Array]
    """Their output fields."""
    refusals: list[Refusal]


def made_of(outcomes: Sequence[Outcome], fields: Mapping[str, str]) -> FunctionOutcome:
    """The columns of outcomes. Raises ValueError, TypeError or OverflowError if they are not of the fields' kinds."""
    kept = [at for at, each in enumerate(outcomes) if isinstance(each, list)]
    rows = [each for each in outcomes if isinstance(each, list)]
    if any(len(row) != len(fields) for row in rows):
        raise ValueError("an event has more or fewer fields than are declared")
    columns = [column_of([row[at] for row in rows], kind) for at, kind in enumerate(fields.values())]
    refusals = [refusal(at, each) for at, each in enumerate(outcomes) if isinstance(each, Failure)]
    return FunctionOutcome(np.array(kept, np.int64), columns, refusals)


def column_of(values: Sequence[Any], kind: str) -> pa.Array:
    """The column of some values of a kind, in which a time is an integer."""
    type_ = ARROW_TYPES[Kind(kind)]
    return pa.array(values, pa.int64()).cast(type_) if kind == Kind.TIMESTAMP else pa.array(values, type_)


def columns_of(events: pa.RecordBatch) -> list[list[Any]]:
    """The values of the columns, in which a time is an integer."""
    return [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in events.columns
    ]


def refusal(at: int, found: Failure) -> Refusal:
    """The refusal of an event that a function failed at."""
    # A class may have any text as its name, and so pretend to be another reason.
    error = found.error if found.error.isidentifier() else "Exception"
    return Refusal(at, f"{error}: {found.message}", found.traceback)


def joined_pieces(pieces: Sequence[tuple[int, FunctionOutcome]], fields: Mapping[str, str]) -> FunctionOutcome:
    """What was made of consecutive pieces of a batch, each given with the index of its first event."""
    if len(pieces) == 1 and not pieces[0][0]:
        return pieces[0][1]
    return FunctionOutcome(
        np.concatenate([np.empty(0, np.int64), *(first + made.kept for first, made in pieces)]),
        [
            pa.concat_arrays([column_of([], kind), *(made.columns[at] for _, made in pieces)])
            for at, kind in enumerate(fields.values())
        ],
        [each._replace(at=first + each.at) for first, made in pieces for each in made.refusals],
    )
