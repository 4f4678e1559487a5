"""Dead letters: shown to those whose tasks could not take them, fed to these again, and discarded.

Whose they are was written down when they came, so that those of a dataflow that was removed or replaced since are still
its owner's, and nobody sees what came before or after the time of its dataflow.
"""

import time
from collections.abc import Mapping, Sequence

from sqlalchemy import Select, func, select
from sqlmodel import Session, col

from engine.plan import Feed
from manager.answers import DeadLetterAnswer, DeadLetterGroupAnswer, Discarded, OperationKind, Page, Replayed
from manager.cases.base import Base, Caller, Paging, moment, number_in, paged
from manager.committed.state import CommittedState
from manager.committer.dead_letter_feeds import DeadLetterReplay, Kept, feedable
from manager.problem import NotFound
from manager.store.dead_letters import discard, groups_of, letters_of, replayed
from manager.store.tables import DataflowRow, DeadLetterDropRow, DeadLetterReaderRow, DeadLetterRow, OperationRow
from merge import JobId

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
            of = _dataflows(session, caller, [row.id or 0 for row in rows])
            dropped = _dropped(session, {row.instance for row in rows})
        return paged(
            rows,
            paging.limit,
            cursor=lambda row: row.id,
            answer=lambda row: DeadLetterAnswer(
                id=row.id or 0,
                at=moment(row.at),
                instance=row.instance,
                port=row.port,
                dataflows=of.get(row.id or 0, ()),
                reason=row.reason,
                events=tuple(row.events),
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
            of = _dataflows(session, caller, [row.newest for row in rows])
        return paged(
            rows,
            paging.limit,
            cursor=lambda row: row.newest,
            answer=lambda row: DeadLetterGroupAnswer(
                newest=row.newest,
                instance=row.instance,
                dataflows=of.get(row.newest, ()),
                reason=row.reason,
                dead_letters=row.letters,
                first=moment(row.first),
                last=moment(row.last),
            ),
        )

    def replay(self, caller: Caller, letter: str, *, alike: bool = False) -> Replayed:
        """Feed the events of one dead letter, or of its group, to its task again, once; none is shown any more."""
        number = number_in(letter)
        if number is None:
            raise NotFound("dead letter", letter)
        return self._replay(caller, letter, letter=number, alike=alike)

    def replay_all(self, caller: Caller, dataflow: str) -> Replayed:
        """Feed the dead letters of a dataflow to its tasks again, the oldest first; none is shown any more."""
        with self._store.read() as session:
            if not _is_own(session, caller, dataflow):
                raise NotFound("dataflow", dataflow)
        return self._replay(caller, dataflow, dataflow=dataflow)

    def _replay(
        self,
        caller: Caller,
        subject: str,
        *,
        letter: int | None = None,
        alike: bool = False,
        dataflow: str | None = None,
    ) -> Replayed:
        made: list[DeadLetterReplay] = []

        def choose(session: Session, state: CommittedState) -> Mapping[JobId, Sequence[Feed]]:
            found = _letters(session, letters_of(caller.tenant, dataflow, letter, alike=alike))
            if not found and letter is not None:
                raise NotFound("dead letter", letter)
            replay = _chosen(session, state, caller, found)
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
        begun = time.monotonic()
        with self._store.write() as session:
            number = number_in(letter)
            count = discard(session, caller.tenant, letter=number, alike=alike) if number is not None else 0
            if not count:
                raise NotFound("dead letter", letter)
            _note(session, caller, letter, begun)
        return Discarded(dead_letters=count)

    def discard_all(self, caller: Caller, dataflow: str) -> Discarded:
        """Discard the dead letters of a dataflow, which may be removed: a tenant for itself, an operator for all."""
        begun = time.monotonic()
        with self._store.write() as session:
            if not _is_own(session, caller, dataflow):
                raise NotFound("dataflow", dataflow)
            count = discard(session, caller.tenant, dataflow=dataflow)
            if count:
                _note(session, caller, dataflow, begun)
        return Discarded(dead_letters=count)


class _NothingToDo(Exception):
    """There is nothing to replay."""


def _letters(session: Session, wanted: Select[DeadLetterRow]) -> list[Kept]:
    """The letters that are asked for, the oldest first."""
    columns = wanted.with_only_columns(col(DeadLetterRow.id), col(DeadLetterRow.instance))
    return [Kept(*row) for row in session.execute(columns.order_by(col(DeadLetterRow.id)))]


def _chosen(session: Session, state: CommittedState, caller: Caller, letters: Sequence[Kept]) -> DeadLetterReplay:
    """The replay of some letters; events are read only while there is room."""
    fit, unfit = feedable(state, caller.tenant, letters)
    replay = DeadLetterReplay(state=state)
    for each in letters:
        if each.id in unfit:
            replay.leave(unfit[each.id])
    for begin in range(0, len(fit), _AT_ONCE):
        ids = fit[begin : begin + _AT_ONCE]
        wanted = select(DeadLetterRow).where(col(DeadLetterRow.id).in_(ids)).order_by(col(DeadLetterRow.id))
        replay.add(session.scalars(wanted))
    return replay


def _is_own(session: Session, caller: Caller, dataflow: str) -> bool:
    owner = session.scalar(select(col(DataflowRow.tenant)).where(col(DataflowRow.id) == dataflow))
    return owner is not None and caller.tenant in {None, owner}


def _dataflows(session: Session, caller: Caller, letters: list[int]) -> dict[int, tuple[str, ...]]:
    """For each letter the dataflows that were served and that the caller may know."""
    wanted = select(DeadLetterReaderRow).where(col(DeadLetterReaderRow.letter).in_(letters))
    if caller.tenant is not None:
        wanted = wanted.where(col(DeadLetterReaderRow.tenant) == caller.tenant)
    found: dict[int, tuple[str, ...]] = {}
    for row in session.scalars(wanted.order_by(col(DeadLetterReaderRow.tenant))):
        found[row.letter] = (*found.get(row.letter, ()), *row.dataflows)
    return found


def _dropped(session: Session, instances: set[int]) -> dict[int, int]:
    wanted = select(DeadLetterDropRow).where(col(DeadLetterDropRow.instance).in_(instances))
    return {row.instance: row.count for row in session.scalars(wanted)}


def _note(session: Session, caller: Caller, subject: str, begun: float) -> None:
    seconds = time.monotonic() - begun
    session.add(
        OperationRow(at=time.time(), kind=OperationKind.DISCARD, who=caller.who, subject=subject, seconds=seconds)
    )
