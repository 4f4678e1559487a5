"""Dead letters: shown to those whose tasks could not take them, and discarded.

Whose they are was written down when they came, so that those of a dataflow that was removed or replaced since are still
its owner's, and nobody sees what came before or after the time of its dataflow.
"""

import time

from sqlalchemy import select
from sqlmodel import Session, col

from manager.answers import DeadLetterAnswer, Discarded, OperationKind, Page
from manager.cases.base import Base, Caller, Paging, moment, number_in, paged
from manager.problem import NotFound
from manager.store.dead_letters import discard, letters_of
from manager.store.tables import DataflowRow, DeadLetterDropRow, DeadLetterReaderRow, DeadLetterRow, OperationRow


class DeadLetters(Base):
    """What is done with dead letters."""

    def dead_letters(self, caller: Caller, paging: Paging, *, dataflow: str | None = None) -> Page[DeadLetterAnswer]:
        """What tasks of the caller's dataflows could not take, newest first; all of it for an operator."""
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
            ),
        )

    def discard_dead_letter(self, caller: Caller, letter: str) -> Discarded:
        """Discard one dead letter: a tenant for itself, an operator for everybody."""
        begun = time.monotonic()
        with self._store.write() as session:
            number = number_in(letter)
            count = discard(session, caller.tenant, letter=number) if number is not None else 0
            if not count:
                raise NotFound("dead letter", letter)
            _note(session, caller, letter, begun)
        return Discarded(dead_letters=count)

    def discard_dead_letters(self, caller: Caller, dataflow: str) -> Discarded:
        """Discard the dead letters of a dataflow, which may be removed: a tenant for itself, an operator for all."""
        begun = time.monotonic()
        with self._store.write() as session:
            if not _is_own(session, caller, dataflow):
                raise NotFound("dataflow", dataflow)
            count = discard(session, caller.tenant, dataflow=dataflow)
            if count:
                _note(session, caller, dataflow, begun)
        return Discarded(dead_letters=count)


def _is_own(session: Session, caller: Caller, dataflow: str) -> bool:
    owner = session.scalar(select(col(DataflowRow.tenant)).where(col(DataflowRow.id) == dataflow))
    return owner is not None and caller.tenant in {None, owner}


def _dataflows(session: Session, caller: Caller, letters: list[int]) -> dict[int, tuple[str, ...]]:
    """Which dataflows that the caller may know of were served at each letter."""
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
