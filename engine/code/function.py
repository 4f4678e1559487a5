"""Published functions, what they make of the events of a batch, and the behaviour of the task types that call them.

A function that an operator vouches for is called in the worker, any other in cells. It takes an event or a batch.

For a function of an event: if a cell ends before its time, the event that it worked on is to blame, and the others get
another cell. After a few such ends, or when the time is over, the rest of the batch is refused too, so that the batch
goes on.

A function that keeps something gets it from the task's state, and what it keeps is staged there. A cell sends it with
the outcomes, so that events after one that ended a cell go on from those before it. A migration is refused as a whole
if it fails for one key.

For a function of a batch: it is called for all events of a batch, or for fewer. If it raises, or ends its cell, the
events are halved until those are found that make it fail alone. When the time is over, or nothing but failures comes,
the rest of the batch is refused too.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from bridge.raw_events import ARROW_TYPES
from bridge.spools.log import packed
from dags import Kind
from engine.behaviour import Implementation, NoBehaviour, PortEmission, Refusal, RefusingBehaviour, TakeOutcome
from engine.code.batch_state import BatchState, config_text
from engine.code.cell.batch_calls import BatchOutcome, called, plain_columns
from engine.code.cell.calls import EventCalls, Failure, Outcome, failure, load
from engine.code.cell.kept_values import KeepingCalls, Migration, unpacked_kept
from engine.code.cell.parent import LOADING, CellRequest, KeptRequest, frames_in
from engine.code.cells import CellEnd, Connections, NoCells, cells
from engine.code.store import NoCode, WheelCheck, read_source
from engine.event_streams import Numbers, nothing
from engine.records.state import Staged, packed_key, packed_value
from engine.side_effect import OutsideUnreachable
from engine.tasks.code import (
    CODE,
    CONNECTING_CODE,
    STATEFUL_CODE,
    CodeConfig,
    CodeOutput,
    ConnectingCodeConfig,
    StatefulCodeConfig,
)

MOST_AT_ONCE = 10_000
"""The most events that a function or a cell takes in one call."""
FUNCTION_SECONDS = 20.0
"""The most time that a function has for one batch, in cells."""
WRONG = Failure("WrongOutput", "its process sends something that its function did not give")


class Function:
    """A function of a published source, as the config of its task names it."""

    def __init__(self, config: CodeConfig, entry: str = "") -> None:
        """Another `entry` of the source may be called in place of the config's."""
        self.entry = entry or config.entry
        """The name of the function."""
        self.digest = config.digest
        self.needed = {name: kind.value for name, kind in config.input.needed.items()}
        """The kinds of the fields that it takes."""
        self.fields = {name: kind.value for name, kind in config.output.fields.items()}
        """The kinds of the fields that it gives."""
        self._config = config
        self._path = config.in_host.code(config.digest)
        self._wheels = tuple(map(config.in_host.wheel, config.wheels))
        self._connections = None
        if isinstance(config, ConnectingCodeConfig):
            self._connections = Connections(config.connects, config.in_host.addresses)

    @cached_property
    def source(self) -> str:
        """The source of the function, read once. Raises `NoCode`."""
        return read_source(self._path)

    @cached_property
    def loaded(self) -> Callable[..., Any] | Failure:
        """The function, loaded into this process; or why it cannot be. Raises `NoCode`."""
        source = self.source
        try:
            return load(self.digest, source, self.entry)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
            return unloadable(failure(error, self.digest))

    def in_cell(self, events: pa.RecordBatch, late: float, keeps: KeptRequest | None = None) -> CellEnd:
        """Call the function in a new cell, for some events one by one or as a batch."""
        per = self._config.per
        return self._run(
            late,
            count=len(events),
            columns=plain_columns(events.columns) if per == "event" else [],
            batch=packed(events) if per == "batch" else b"",
            keeps=keeps,
        )

    def migrating_in_cell(self, migration: Migration, late: float) -> CellEnd:
        """Call the function in a new cell, for some keys of a migration."""
        return self._run(late, count=0, migration=migration)

    def _run(self, late: float, **asked: Any) -> CellEnd:
        request = CellRequest(
            digest=self.digest,
            source=self.source,
            entry=self.entry,
            per=self._config.per,
            needed=self.needed,
            fields=self.fields,
            **asked,
        )
        return cells(self._config.per).run(
            msgspec.msgpack.encode(request),
            path=self._path,
            seconds=max(1.0, late - time.monotonic()),
            wheels=self._wheels,
            connections=self._connections,
        )


class Failed(msgspec.Struct, frozen=True):
    """A failure as a cell sends it, which is not to be trusted."""

    error: str
    message: str
    traceback: str

    @property
    def failure(self) -> Failure:
        """The failure, of a bounded length."""
        return Failure(self.error[:100], self.message[:1_000], self.traceback[:8_000])


def unloadable(why: Failure) -> Failure:
    """The failure of a source that cannot be loaded, as it is shown."""
    return why._replace(message=f"it cannot be loaded: {why.message}")


def ended(ending: CellEnd) -> Failure:
    """The failure that a cell has ended before its time."""
    why = ending.why or "it ended its process"
    return Failure("CodeEnded", f"while it was loaded, {why}" if ending.at == LOADING else why)


class FunctionOutcome(NamedTuple):
    """The outcome of a function for the events of a batch."""

    kept: Numbers
    """The indexes of the events that leave."""
    columns: list[pa.Array]
    refusals: list[Refusal]


def made_of(outcomes: Sequence[Outcome], fields: Mapping[str, str]) -> FunctionOutcome:
    """The columns of outcomes. Raises ValueError, TypeError or OverflowError if they are not of the fields' kinds."""
    kept = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, list)]
    rows = [outcome for outcome in outcomes if isinstance(outcome, list)]
    if any(len(row) != len(fields) for row in rows):
        raise ValueError("an event has more or fewer fields than are declared")
    columns = [column_of([row[at] for row in rows], kind) for at, kind in enumerate(fields.values())]
    refusals = [refusal(at, outcome) for at, outcome in enumerate(outcomes) if isinstance(outcome, Failure)]
    return FunctionOutcome(np.array(kept, np.int64), columns, refusals)


def column_of(values: Sequence[Any], kind: str) -> pa.Array:
    """The column of some values of a kind, in which a time is an integer."""
    type_ = ARROW_TYPES[Kind(kind)]
    return pa.array(values, pa.int64()).cast(type_) if kind == Kind.TIMESTAMP else pa.array(values, type_)


def refusal(at: int, why: Failure) -> Refusal:
    """The refusal of an event that a function failed at."""
    # A class may have any text as its name, and so pretend to be another reason.
    error = why.error if why.error.isidentifier() else "Exception"
    return Refusal(at, f"{error}: {why.message}", why.traceback)


def joined_pieces(pieces: Sequence[tuple[int, FunctionOutcome]], fields: Mapping[str, str]) -> FunctionOutcome:
    """The outcome of a whole batch, from those of its pieces, each given with the index of its first event."""
    if len(pieces) == 1 and not pieces[0][0]:
        return pieces[0][1]
    return FunctionOutcome(
        np.concatenate([np.empty(0, np.int64), *(first + made.kept for first, made in pieces)]),
        [
            pa.concat_arrays([column_of([], kind), *(made.columns[at] for _, made in pieces)])
            for at, kind in enumerate(fields.values())
        ],
        [refused._replace(at=first + refused.at) for first, made in pieces for refused in made.refusals],
    )


MOST_ENDS = 3
"""The cells that may end before their time in one batch."""
Work: TypeAlias = Callable[[pa.RecordBatch, BatchState | None], FunctionOutcome]
"""Makes something of the events of a batch, which have only the fields that the function needs; and keeps something."""
_Value: TypeAlias = bool | int | float | str | None


class _Sent(msgspec.Struct, frozen=True):
    """A message of a cell: the outcomes of events, what became of a batch, or what was migrated."""

    outcomes: list[list[_Value] | Failed | None] = []
    kept_at: dict[int, bytes | None] = {}
    """What is kept since the last message, by the place of its key."""
    migrated: list[bytes | None] | None = None
    columns: list[list[_Value]] = []
    kept: list[bool] | None = None
    failure: Failed | None = None
    unloadable: Failed | None = None


_SENT = msgspec.msgpack.Decoder(_Sent)


def _events_here(function: Function, events: pa.RecordBatch, state: BatchState | None) -> FunctionOutcome:
    """The outcome of events, by calls of a function of an event in this process."""
    loaded = function.loaded
    if isinstance(loaded, Failure):
        return made_of([loaded] * len(events), function.fields)
    described, columns = (loaded, function.digest, function.needed, function.fields), plain_columns(events.columns)
    if state is None:
        outcomes = EventCalls(*described).outcomes(len(events), columns)
    else:
        outcomes = KeepingCalls(*described, state.values, state.config).outcomes_at(state.places.tolist(), columns)
    return made_of(list(outcomes), function.fields)


def _events_in_cells(function: Function, events: pa.RecordBatch, state: BatchState | None) -> FunctionOutcome:
    """The outcome of events, by calls of a function of an event in cells."""
    batch = _EventBatch(function, events, state)
    batch.work_off()
    pieces = []
    for first in range(0, len(events), MOST_AT_ONCE):
        some = batch.outcomes[first : first + MOST_AT_ONCE]
        try:
            made = made_of(some, function.fields)
        except (ValueError, TypeError, OverflowError):
            made = made_of([WRONG] * len(some), function.fields)
        pieces.append((first, made))
    return joined_pieces(pieces, function.fields)


class _EventBatch:
    """The events of one batch, and the outcomes so far."""

    def __init__(self, function: Function, events: pa.RecordBatch, state: BatchState | None) -> None:
        self.outcomes: list[Outcome] = []
        self._state = state
        self._function = function
        self._events = events
        self._blamed: dict[int, Failure] = {}
        """Events that ended their cells."""
        self._until = len(events)
        """The end of the events that get a cell."""
        self._late = time.monotonic() + FUNCTION_SECONDS

    def work_off(self) -> None:
        rest = Failure("CodeEnded", f"the process of {MOST_ENDS} earlier events of the batch ended before its time")
        while (first := len(self.outcomes)) < self._until:
            if (blamed := self._blamed.get(first)) is not None:
                self.outcomes.append(blamed)
                continue
            if time.monotonic() > self._late:
                rest = Failure("CodeEnded", f"the batch took over {FUNCTION_SECONDS:g} s, and this event had no turn")
                break
            end = min([first + MOST_AT_ONCE, self._until, *(at for at in self._blamed if at > first)])
            if (unable := self._run(first, end)) is not None:
                rest = unable
                break
        self.outcomes += [rest] * (len(self._events) - len(self.outcomes))

    def _run(self, first: int, end: int) -> Failure | None:
        """Run a cell for some events; why none of the rest can be run."""
        keeps = None if self._state is None else self._state.request(first, end)
        ending = self._function.in_cell(self._events.slice(first, end - first), self._late, keeps)
        try:
            messages = [_SENT.decode(frame) for frame in frames_in(ending.results)]
        except msgspec.MsgspecError:
            return WRONG
        kept_at: dict[int, bytes | None] = {}
        for message in messages:
            if message.unloadable is not None:
                return unloadable(message.unloadable.failure)
            kept_at |= message.kept_at
            self.outcomes += [one.failure if isinstance(one, Failed) else one for one in message.outcomes]
        accepted = len(self.outcomes) <= end and (self._state is None or self._state.accept(first, end, kept_at))
        if not accepted:
            del self.outcomes[first:]
            return WRONG
        if len(self.outcomes) < end:
            if ending.at == LOADING:
                return ended(ending)
            self._blame(first, end, ending.at, ended(ending))
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


_HOPELESS = 20
"""If this many first events fail alone, the rest is refused without a try."""


class _Unable(NamedTuple):
    """Why a function cannot be called at all."""

    failure: Failure


def _batch(function: Function, events: pa.RecordBatch, _state: BatchState | None, *, vouched: bool) -> FunctionOutcome:
    """The outcome of events, by calls of a function of a batch."""
    seconds = float("inf") if vouched else FUNCTION_SECONDS
    late = time.monotonic() + seconds
    pieces: list[tuple[int, FunctionOutcome]] = []
    waiting = [(at, min(at + MOST_AT_ONCE, len(events))) for at in range(0, len(events), MOST_AT_ONCE)][::-1]
    alone = 0
    rest: Failure | None = None
    while waiting:
        first, end = waiting.pop()
        if rest is None and time.monotonic() > late:
            rest = Failure("CodeEnded", f"the batch took over {seconds:g} s, and this event had no turn")
        some = events.slice(first, end - first)
        outcome = rest or (_batch_here(function, some) if vouched else _batch_in_cell(function, some, late))
        if isinstance(outcome, _Unable):
            outcome = rest = outcome.failure
        if isinstance(outcome, BatchOutcome):
            pieces.append((first, _left(outcome, end - first)))
        elif rest is not None or end - first == 1:
            pieces.append((first, made_of([outcome] * (end - first), function.fields)))
            alone += rest is None
            if alone == _HOPELESS == end:
                rest = outcome
        else:
            middle = (first + end) // 2
            waiting += [(middle, end), (first, middle)]
    return joined_pieces(pieces, function.fields)


def _left(outcome: BatchOutcome, count: int) -> FunctionOutcome:
    if outcome.kept is None:
        return FunctionOutcome(np.arange(count, dtype=np.int64), outcome.columns, [])
    kept = np.flatnonzero(outcome.kept.to_numpy(zero_copy_only=False)).astype(np.int64)
    return FunctionOutcome(kept, [column.filter(outcome.kept) for column in outcome.columns], [])


def _batch_here(function: Function, events: pa.RecordBatch) -> BatchOutcome | Failure | _Unable:
    loaded = function.loaded
    if isinstance(loaded, Failure):
        return _Unable(loaded)
    try:
        return called(loaded, events, function.fields)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
        return failure(error, function.digest)


def _batch_in_cell(function: Function, events: pa.RecordBatch, late: float) -> BatchOutcome | Failure | _Unable:
    ending = function.in_cell(events, late)
    frames = frames_in(ending.results)
    if not frames:
        return _Unable(ended(ending)) if ending.at == LOADING else ended(ending)
    try:
        sent = _SENT.decode(frames[0])
        if sent.unloadable is not None:
            return _Unable(unloadable(sent.unloadable.failure))
        if sent.failure is not None:
            return sent.failure.failure
        columns = [column_of(*column) for column in zip(sent.columns, function.fields.values(), strict=True)]
        kept = None if sent.kept is None else pa.array(sent.kept, pa.bool_())
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError):
        return WRONG
    if any(len(column) != len(events) for column in (*columns, *([] if kept is None else [kept]))):
        return WRONG
    return BatchOutcome(columns, kept)


def _code(config: CodeConfig) -> RefusingBehaviour:
    """A function per event takes a dictionary of the fields it needs, and returns one, or None to drop the event.

    It returns every field that the config declares. A function per batch takes a `pyarrow.RecordBatch`, and returns one
    with a row for each event, or a pair of one and an array of booleans, where false drops an event. It has no memory:
    where no operator vouches for it, every batch begins anew. An event for which it raises, or returns something else
    than declared, is parked.
    """
    return _behaviour(config)


def _stateful_code(config: StatefulCodeConfig) -> RefusingBehaviour:
    """The function takes an event, what is kept under its key, or None, and its config.

    It returns a pair: what leaves, as functions of the type `code` do, and what to keep, or None to forget the key. An
    event that is parked changes nothing that is kept. See [modules](modules.md#state).

    >>> from engine.code.store import CodeStore, digest_of
    >>> source = "def process(event, kept, config): return {'seen': (kept or 0) + 1}, (kept or 0) + 1"
    >>> root = TemporaryDirectory()
    >>> CodeStore(Path(root.name)).put(digest_of(source), source)
    >>> config = {"digest": digest_of(source), "entry": "process", "owner": "ann", "module": "seen", "by": ["room"]}
    >>> config |= {"input": {"in": {"room": "string"}}, "output": {"fields": {"seen": "integer"}}}
    >>> rooms = [{"room": "a"}, {"room": "b"}, {"room": "a"}]
    >>> try_out("stateful_code", config, rooms, outside=HostOutside(Path(root.name)))["out"]
    [{'room': 'a', 'seen': 1}, {'room': 'b', 'seen': 1}, {'room': 'a', 'seen': 2}]
    >>> root.cleanup()
    """
    return _behaviour(config)


def _behaviour(config: CodeConfig) -> RefusingBehaviour:
    names = list(config.input.needed)
    work: tuple[bool, Work] | None = None
    check = WheelCheck()

    def take(events: pa.RecordBatch, state: Staged) -> TakeOutcome:
        nonlocal work
        if not len(events):
            return TakeOutcome(PortEmission(nothing(_schema(events.schema, config.output))), [])
        try:
            # Looked up for each batch, so that an operator who withdraws a voucher need not wait for a plan.
            # What is imported from wheels must not meet what other tasks of the worker import.
            vouched = _is_vouched(config)
            if work is None or work[0] != vouched:
                work = vouched, _work(config, vouched=vouched)
            check(tuple(map(config.in_host.wheel, config.wheels)))
            needed = events.select(names)
            kept = BatchState(config, needed, state) if isinstance(config, StatefulCodeConfig) else None
            made = work[1](needed, kept)
            if kept is not None:
                kept.stage()
        except (NoCode, NoCells) as error:
            raise OutsideUnreachable(str(error)) from error
        left = events if len(made.kept) == len(events) else events.take(pa.array(made.kept))
        added = dict(zip(config.output.fields, made.columns, strict=True))
        schema = _schema(events.schema, config.output)
        columns = [added[name] if name in added else left.column(name) for name in schema.names]
        return TakeOutcome(PortEmission(pa.RecordBatch.from_arrays(columns, schema=schema), made.kept), made.refusals)

    return RefusingBehaviour(take=take, owner=config.owner)


def _is_vouched(config: CodeConfig) -> bool:
    vouched = config.in_host.vouched(config.owner, config.digest, config.entry, config.per)
    return vouched and not config.wheels and not isinstance(config, ConnectingCodeConfig)


def _work(config: CodeConfig, *, vouched: bool) -> Work:
    if config.per == "batch":
        return partial(_batch, Function(config), vouched=vouched)
    return partial(_events_here if vouched else _events_in_cells, Function(config))


def _schema(taken: pa.Schema, output: CodeOutput) -> pa.Schema:
    """The columns that leave: what passes on in its place, then what is added."""
    added = {name: pa.field(name, ARROW_TYPES[kind]) for name, kind in output.fields.items()}
    passed = [field for field in taken if output.rest and field.name not in output.drop]
    changed = {field.name for field in passed}
    return pa.schema(
        [added.get(field.name, field) for field in passed]
        + [field for field in added.values() if field.name not in changed]
    )


MIGRATION_SECONDS = 10.0
"""The most time that the migration of a task's state has, for all its keys."""


def _migrated(
    old: StatefulCodeConfig, new: StatefulCodeConfig, kept: Sequence[tuple[tuple[Any, ...], Any]]
) -> list[Any]:
    """What the function that the new config names makes of each key's value. Raises `NoBehaviour`."""
    function = Function(new, new.migrate)
    vouched, late = _is_vouched(new), time.monotonic() + MIGRATION_SECONDS
    migrated: list[bytes | None] = []
    for first in range(0, len(kept), MOST_AT_ONCE):
        some = kept[first : first + MOST_AT_ONCE]
        migration = Migration(
            old=config_text(old),
            new=config_text(new),
            kinds=[function.needed[name] for name in new.by],
            keys=[list(key) for key, _ in some],
            values=[packed_value(value) for _, value in some],
        )
        if time.monotonic() > late:
            why = Failure("CodeEnded", f"it took over {MIGRATION_SECONDS:g} s for all keys")
            raise _cannot_migrate(why, function, some[0][0])
        made = _migrated_here(function, migration) if vouched else _migrated_in_cell(function, migration, late)
        if isinstance(made, _FailedAt):
            raise _cannot_migrate(made.failure, function, some[made.at][0] if 0 <= made.at < len(some) else None)
        migrated += made
    return _bounded(new, kept, migrated)


def _cannot_migrate(why: Failure, function: Function, key: tuple[Any, ...] | None) -> NoBehaviour:
    at = "" if key is None else f" at the key {key!r}"[:200]
    return NoBehaviour(
        f"its function {function.entry!r} fails{at}: {why.error}: {why.message}; publish a version with one that works"
    )


class _FailedAt(NamedTuple):
    """The failure of a migration, and the place of the key at which it failed."""

    failure: Failure
    at: int


def _migrated_here(function: Function, migration: Migration) -> list[bytes | None] | _FailedAt:
    loaded = function.loaded
    if isinstance(loaded, Failure):
        return _FailedAt(loaded, LOADING)
    made: list[bytes | None] = []
    try:
        made += migration.values_by(loaded)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
        return _FailedAt(failure(error, function.digest), len(made))
    return made


def _migrated_in_cell(function: Function, migration: Migration, late: float) -> list[bytes | None] | _FailedAt:
    ending = function.migrating_in_cell(migration, late)
    frames = frames_in(ending.results)
    if not frames:
        return _FailedAt(ended(ending), ending.at)
    try:
        sent = _SENT.decode(frames[0])
    except msgspec.MsgspecError:
        return _FailedAt(WRONG, LOADING)
    if sent.unloadable is not None:
        return _FailedAt(unloadable(sent.unloadable.failure), LOADING)
    if sent.failure is not None:
        return _FailedAt(sent.failure.failure, ending.at)
    if sent.migrated is None or len(sent.migrated) != len(migration.keys):
        return _FailedAt(WRONG, LOADING)
    return sent.migrated


def _bounded(
    new: StatefulCodeConfig, kept: Sequence[tuple[tuple[Any, ...], Any]], migrated: Sequence[bytes | None]
) -> list[Any]:
    """The values of migrated keys, if they are no more than the config or what was kept before allows."""
    sizes = [(len(packed_key(key)), len(packed_value(value))) for key, value in kept]
    before = sum(map(sum, sizes))
    after = sum(key + len(value) for (key, _), value in zip(sizes, migrated, strict=True) if value is not None)
    if after > max(before, new.most_bytes):
        raise NoBehaviour(
            f"its function {new.migrate!r} would keep {after:,} bytes, and the most are {new.most_bytes:,}; let it "
            "keep less, or allow more"
        )
    try:
        return [None if value is None else unpacked_kept(value) for value in migrated]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise _cannot_migrate(WRONG, Function(new, new.migrate), None) from None


code = Implementation(type=CODE, make=_code)
connecting_code = Implementation(type=CONNECTING_CODE, make=_code)
stateful_code = Implementation(type=STATEFUL_CODE, make=_stateful_code, transform_all=_migrated)
