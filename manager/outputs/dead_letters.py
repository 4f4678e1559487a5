"""Dead letters: shown to those whose tasks could not take them, fed to these again, and discarded.

The next plan of a job brings what is fed, so it is as durable as the plan and is taken as often: once. It must stay
small enough to be sent and kept with each plan until it is taken, so a job has only so much of it on its way at a time.

Whose they are was written down when they came, so that those of a dataflow that was removed or replaced since
are still its owner's, and nobody sees what came before or after the time of its dataflow.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Select, func, select
from sqlmodel import Session, col

from braid_client.answers.base import Page
from braid_client.answers.dead_letters import DeadLetterAnswer, DeadLetterGroupAnswer, Discarded, Replayed
from braid_client.answers.overview import OperationKind
from engine.plan import Feed
from manager.kernel.state import CommittedState
from manager.problem import Conflict, Forbidden, NotFound, StateNotReady, Trouble
from manager.store.dead_letters import discard, groups_of, letters_of, replayed
from manager.store.tables import DataflowRow, DeadLetterDropRow, DeadLetterReaderRow, DeadLetterRow
from manager.use_case import Base, Caller, Paging, moment, note, number_in, paged
from merge import Instance, JobId

MOST_BYTES = 1_000_000
"""Bytes of events that a job may be fed at a time; a single letter may be a little larger."""
AGAIN = 2.0
"""Seconds after which it is worth asking for more."""


@dataclass(kw_only=True)
class DeadLetterReplay:
    """A replay of dead letters; filled from the oldest on."""

    state: CommittedState
    letters: list[DeadLetterRow] = field(default_factory=list)
    feeds: dict[JobId, list[Feed]] = field(default_factory=dict)
    full: set[JobId] = field(default_factory=set)
    left: int = 0
    trouble: Trouble | None = None
    """The reason why the first of those is left."""
    _bytes: dict[JobId, int] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """The number of events that are fed."""
        return sum(len(row.events) for row in self.letters)

    def leave(self, why: Trouble) -> None:
        """Leave a letter as it is."""
        self.left += 1
        self.trouble = self.trouble or why

    def add(self, rows: Iterable[DeadLetterRow]) -> None:
        """Take letters that can be fed, for as long as there is room."""
        for row in rows:
            job = self.state.jobs.homes[Instance(row.instance)].job
            events = json.dumps(row.events, separators=(",", ":"), ensure_ascii=False)
            if job not in self._bytes:
                self._bytes[job] = sum(len(feed.events.encode()) for feed in self.state.plans[job].feeds)
            if job in self.full or (self._bytes[job] and self._bytes[job] + len(events.encode()) > MOST_BYTES):
                # Whatever comes later waits too, so that the order stays.
                self.full.add(job)
                why = "its job still takes what was replayed before; ask again in a moment for the rest"
                self.leave(StateNotReady(why, retry_after=AGAIN))
                continue
            self._bytes[job] += len(events.encode())
            feed = Feed(id=row.id or 0, instance=row.instance, port=row.port, events=events)
            self.feeds.setdefault(job, []).append(feed)
            self.letters.append(row)


def _why_not(state: CommittedState, tenant: str | None, instance: int) -> Trouble | None:
    running = state.running
    tenants = running.tenants_of(Instance(instance))
    if not tenants or (tenant is not None and tenant not in tenants):
        return Conflict(
            f"instance {instance}, which could not take it, runs {'for nobody' if tenant is None else 'not for you'} "
            "any more; look at the dead letter, or discard it"
        )
    if not running.tasks[Instance(instance)].inputs:
        return Conflict(
            f"instance {instance} is a source, whose schema the events do not fit; publish them anew, corrected"
        )
    if tenant is not None and tenants != {tenant}:
        return Forbidden(
            f"instance {instance}, which could not take it, serves others as well, who would get its events too; ask "
            "an operator to replay it"
        )
    return None


_AT_ONCE = 20
"""Letters that are read at a time."""


class DeadLetters(Base):
    """Dead letters: shown, replayed and discarded."""

    def page(self, caller: Caller, paging: Paging, *, dataflow: str | None = None) -> Page[DeadLetterAnswer]:
        """The dead letters of the caller's dataflows, newest first; all of them for an operator."""
        wanted = letters_of(caller.tenant, dataflow).order_by(col(DeadLetterRow.id).desc())
        if paging.after is not None:
            wanted = wanted.where(col(DeadLetterRow.id) < paging.after_number)
        with self._store.read() as session:
            if dataflow is not None and not _is_own(session, caller, dataflow):
                return Page(items=())
            rows = session.scalars(wanted.limit(paging.limit + 1)).all()
            served = _dataflows(session, caller, [row.id or 0 for row in rows])
            dropped = _dropped(session, {row.instance for row in rows})
        return paged(
            rows,
            paging.limit,
            cursor=lambda row: row.id,
            answer=lambda row: DeadLetterAnswer(
                **row.model_dump(include={"id", "at", "instance", "port", "reason", "events"}),
                dataflows=served.get(row.id or 0, ()),
                dropped=dropped.get(row.instance, 0),
                # It shows lines of the source, so not even operators see that of a tenant.
                traceback=row.traceback if row.owner == (caller.tenant or "") else None,
            ),
        )

    def groups(self, caller: Caller, paging: Paging, *, dataflow: str | None = None) -> Page[DeadLetterGroupAnswer]:
        """The same letters by task and reason, the group with the newest first."""
        wanted = groups_of(caller.tenant, dataflow)
        if paging.after is not None:
            wanted = wanted.having(func.max(col(DeadLetterRow.id)) < paging.after_number)
        with self._store.read() as session:
            if dataflow is not None and not _is_own(session, caller, dataflow):
                return Page(items=())
            rows = session.execute(wanted.limit(paging.limit + 1)).all()
            served = _dataflows(session, caller, [row.newest for row in rows])
        return paged(
            rows,
            paging.limit,
            cursor=lambda row: row.newest,
            answer=lambda row: DeadLetterGroupAnswer(
                newest=row.newest,
                instance=row.instance,
                dataflows=served.get(row.newest, ()),
                reason=row.reason,
                dead_letters=row.letters,
                first=moment(row.first),
                last=moment(row.last),
            ),
        )

    def replay(self, caller: Caller, letter: str, *, alike: bool = False) -> Replayed:
        """Feed the events of one dead letter, or of its group, to its task again, once; none is shown any more."""
        answer = self._replay(caller, letter, _wanted(caller, letter, alike=alike))
        if not answer.dead_letters:
            raise NotFound("dead letter", letter)
        return answer

    def replay_all(self, caller: Caller, dataflow: str) -> Replayed:
        """Feed the dead letters of a dataflow to its tasks again, the oldest first; none is shown any more."""
        self._own_dataflow(caller, dataflow)
        return self._replay(caller, dataflow, letters_of(caller.tenant, dataflow))

    def _replay(self, caller: Caller, subject: str, letters: Select[DeadLetterRow]) -> Replayed:
        made: list[DeadLetterReplay] = []

        def choose(session: Session, state: CommittedState) -> Mapping[JobId, Sequence[Feed]]:
            replay = _chosen(session, state, caller, letters)
            if not replay.letters:
                raise replay.trouble or _NothingToDo
            replayed(session, replay.letters, at=time.time())
            made.append(replay)
            return replay.feeds

        try:
            self._changes.jobs.feed(choose, who=caller.who, subject=subject)
        except _NothingToDo:
            return Replayed(dead_letters=0, events=0)
        (replay,) = made
        return Replayed(
            dead_letters=len(replay.letters),
            events=replay.events,
            left=replay.left,
            why_left=replay.trouble.detail if replay.trouble else None,
        )

    def discard(self, caller: Caller, letter: str, *, alike: bool = False) -> Discarded:
        """Discard one dead letter, or its group: a tenant for itself, an operator for everybody."""
        answer = self._discard(caller, letter, _wanted(caller, letter, alike=alike))
        if not answer.dead_letters:
            raise NotFound("dead letter", letter)
        return answer

    def discard_all(self, caller: Caller, dataflow: str) -> Discarded:
        """Discard the dead letters of a dataflow, which may be removed: a tenant for itself, an operator for all."""
        self._own_dataflow(caller, dataflow)
        return self._discard(caller, dataflow, letters_of(caller.tenant, dataflow))

    def _discard(self, caller: Caller, subject: str, letters: Select[DeadLetterRow]) -> Discarded:
        begun = time.monotonic()
        with self._store.write() as session:
            if count := discard(session, caller.tenant, letters):
                note(session, OperationKind.DISCARD, caller, subject, begun)
        return Discarded(dead_letters=count)


class _NothingToDo(Exception):
    """There is nothing to replay."""


def _wanted(caller: Caller, letter: str, *, alike: bool) -> Select[DeadLetterRow]:
    """One letter, or its group, by what a caller calls it."""
    if (number := number_in(letter)) is None:
        raise NotFound("dead letter", letter)
    return letters_of(caller.tenant, None, number, alike=alike)


def _chosen(session: Session, state: CommittedState, caller: Caller, wanted: Select[DeadLetterRow]) -> DeadLetterReplay:
    """The replay of some letters; events are read only while there is room."""
    number = col(DeadLetterRow.id)
    letters = session.execute(wanted.with_only_columns(number, col(DeadLetterRow.instance)).order_by(number)).all()
    why = {instance: _why_not(state, caller.tenant, instance) for instance in {letter.instance for letter in letters}}
    replay, fit = DeadLetterReplay(state=state), list[int]()
    for letter in letters:
        if (trouble := why[letter.instance]) is None:
            fit.append(letter.id)
        else:
            replay.leave(trouble)
    for begin in range(0, len(fit), _AT_ONCE):
        some = number.in_(fit[begin : begin + _AT_ONCE])
        replay.add(session.scalars(select(DeadLetterRow).where(some).order_by(number)))
    return replay


def _is_own(session: Session, caller: Caller, dataflow: str) -> bool:
    owner = session.scalar(select(col(DataflowRow.tenant)).where(col(DataflowRow.id) == dataflow))
    return owner is not None and caller.tenant in {None, owner}


def _dataflows(session: Session, caller: Caller, letters: list[int]) -> dict[int, tuple[str, ...]]:
    """For each letter the dataflows that were served and that the caller may know."""
    wanted = select(DeadLetterReaderRow).where(col(DeadLetterReaderRow.letter).in_(letters))
    if caller.tenant is not None:
        wanted = wanted.where(col(DeadLetterReaderRow.tenant) == caller.tenant)
    served: dict[int, tuple[str, ...]] = {}
    for row in session.scalars(wanted.order_by(col(DeadLetterReaderRow.tenant))):
        served[row.letter] = (*served.get(row.letter, ()), *row.dataflows)
    return served


def _dropped(session: Session, instances: set[int]) -> dict[int, int]:
    wanted = select(DeadLetterDropRow).where(col(DeadLetterDropRow.instance).in_(instances))
    return {row.instance: row.count for row in session.scalars(wanted)}
