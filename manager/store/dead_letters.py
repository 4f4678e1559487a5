"""Dead letters in the database: kept once each, bounded in number and bytes, each with the tenants whose it is.

A tenant that discards one is struck from its readers. One without readers is seen by operators only, until it is
discarded or newer ones need its place; one whose last reader discarded it is gone. One that is replayed is under way:
nobody is shown it. It goes once its job has taken the events, and is there again where the job ends before.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, Text, cast, delete, exists, func, select, true
from sqlmodel import Session, col

from manager.store.tables import (
    DataflowRow,
    DeadLetterDropRow,
    DeadLetterReaderRow,
    DeadLetterReplayRow,
    DeadLetterRow,
)

T = TypeVar("T")
MOST_OF_INSTANCE = 1_000
MOST_IN_ALL = 100_000
MOST_BYTES_OF_INSTANCE = 16 * 1024 * 1024
"""Of what one task could not take; the newest letter is kept however large it is."""
MOST_BYTES_IN_ALL = 1024 * 1024 * 1024
_LATELY_REMOVED = 1_000
"""Dataflows that are looked through for one that an instance served; the last ones that were removed."""
_REMEMBERED = 30 * 86_400.0
"""Seconds for which what was replayed is known."""
_AT_ONCE = 500
"""Values in one statement."""

_UNDER_WAY = exists().where(col(DeadLetterReplayRow.letter) == col(DeadLetterRow.id))
"""Whether a letter is fed to its task, which is not known yet to have taken it."""

Readers = Mapping[str, Sequence[str]]
"""For each tenant its dataflows that an instance serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter as it came over the broker; made by `manager.reconciler.parked_dead_letters`."""

    instance: int
    port: str
    batch: int
    first: int = 0
    """The number of its first event among all that the batch could not take."""
    reason: str
    events: Sequence[Any]

    @property
    def digest(self) -> str:
        """The same for the same letter, and for no other."""
        told = [self.instance, self.port, self.batch, self.first, self.reason, self.events]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    @property
    def size(self) -> int:
        """Bytes that it takes to keep."""
        return len(self.reason.encode()) + len(json.dumps(self.events, ensure_ascii=False).encode())


def keep(  # noqa: PLR0913 - what, whose, when, and four bounds
    session: Session,
    letters: Iterable[Letter],
    readers: Mapping[int, Readers],
    *,
    at: float,
    most_of_instance: int = MOST_OF_INSTANCE,
    most_in_all: int = MOST_IN_ALL,
    most_bytes_of_instance: int = MOST_BYTES_OF_INSTANCE,
    most_bytes_in_all: int = MOST_BYTES_IN_ALL,
) -> int:
    """Keep letters that are not there yet; how many older ones had to go for them."""
    unseen = {letter.digest: letter for letter in letters}
    for digests in _parts(list(unseen)):
        for digest in (col(DeadLetterRow.digest), col(DeadLetterReplayRow.digest)):
            for known in session.scalars(select(digest).where(digest.in_(digests))):
                unseen.pop(known, None)
    rows = [
        DeadLetterRow(
            at=at,
            instance=letter.instance,
            port=letter.port,
            batch=letter.batch,
            reason=letter.reason,
            events=list(letter.events),
            digest=digest,
            size=letter.size,
        )
        for digest, letter in unseen.items()
    ]
    session.add_all(rows)
    session.flush()
    instances = {row.instance for row in rows}
    of = {instance: readers.get(instance) or _last_readers(session, instance) for instance in instances}
    session.add_all(
        DeadLetterReaderRow(letter=row.id or 0, tenant=tenant, dataflows=list(dataflows))
        for row in rows
        for tenant, dataflows in of[row.instance].items()
    )
    session.flush()
    dropped = 0
    for instance in sorted(instances):
        # Those under way are events again.
        of_it = (col(DeadLetterRow.instance) == instance) & ~_UNDER_WAY
        dropped += _drop(session, of_it, most_of_instance, most_bytes_of_instance)
    return dropped + _drop(session, true(), most_in_all, most_bytes_in_all)


def letters_of(tenant: str | None, dataflow: str | None) -> Select[DeadLetterRow]:
    """The letters of a tenant, or all of them; those at which a dataflow was served, or all of these."""
    wanted = select(DeadLetterRow).where(~_UNDER_WAY)
    if tenant is None and dataflow is None:
        return wanted
    return wanted.where(
        exists().where(col(DeadLetterReaderRow.letter) == col(DeadLetterRow.id), *_readers(tenant, dataflow))
    )


def discard(session: Session, tenant: str | None, *, letter: int | None = None, dataflow: str | None = None) -> int:
    """Discard one letter, or those at which a dataflow was served: for one tenant, or for everybody; how many."""
    found = letters_of(tenant, dataflow)
    if letter is not None:
        found = found.where(col(DeadLetterRow.id) == letter)
    hit = list(session.scalars(found.with_only_columns(col(DeadLetterRow.id))))
    for part in _parts(hit):
        theirs = [] if tenant is None else [col(DeadLetterReaderRow.tenant) == tenant]
        session.execute(delete(DeadLetterReaderRow).where(col(DeadLetterReaderRow.letter).in_(part), *theirs))
        unread = ~exists().where(col(DeadLetterReaderRow.letter) == col(DeadLetterRow.id))
        session.execute(delete(DeadLetterRow).where(col(DeadLetterRow.id).in_(part), unread))
    return len(hit)


def replayed(session: Session, letters: Sequence[DeadLetterRow], *, at: float) -> None:
    """Letters are fed again: they are under way, and not kept should they come once more, as hosts that died send them.

    That is known for a while, and for as long as they are under way.
    """
    old = (col(DeadLetterReplayRow.at) < at - _REMEMBERED) & ~exists().where(
        col(DeadLetterRow.id) == col(DeadLetterReplayRow.letter)
    )
    session.execute(delete(DeadLetterReplayRow).where(old))
    session.add_all(DeadLetterReplayRow(digest=row.digest, letter=row.id or 0, at=at) for row in letters)


def taken(session: Session, letters: Sequence[int]) -> None:
    """The jobs of letters that were under way have taken their events: they are gone."""
    for part in _parts(letters):
        session.execute(delete(DeadLetterReaderRow).where(col(DeadLetterReaderRow.letter).in_(part)))
        session.execute(delete(DeadLetterRow).where(col(DeadLetterRow.id).in_(part)))


def given_back(session: Session, letters: Sequence[int]) -> None:
    """The jobs of letters that were under way are not known to have taken their events, and end: they are as before."""
    for part in _parts(letters):
        session.execute(delete(DeadLetterReplayRow).where(col(DeadLetterReplayRow.letter).in_(part)))


def _readers(tenant: str | None, dataflow: str | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if tenant is not None:
        conditions.append(col(DeadLetterReaderRow.tenant) == tenant)
    if dataflow is not None:
        # As both databases keep a list of texts.
        written = cast(col(DeadLetterReaderRow.dataflows), Text)
        conditions.append(written.contains(json.dumps(dataflow), autoescape=True))
    return conditions


def _last_readers(session: Session, instance: int) -> Readers:
    """Whom an instance served that serves nobody any more: those of its dataflows that were removed last."""
    names = (DataflowRow.id, DataflowRow.tenant, DataflowRow.removed, DataflowRow.instances)
    wanted = select(*map(col, names)).where(col(DataflowRow.removed).is_not(None))
    rows = session.execute(wanted.order_by(col(DataflowRow.removed).desc()).limit(_LATELY_REMOVED))
    found: dict[str, list[str]] = {}
    moment: float | None = None
    for dataflow, tenant, removed, instances in rows:
        if moment is not None and removed < moment:
            break
        if instance in instances:
            moment = removed
            found.setdefault(tenant, []).append(dataflow)
    return found


def _drop(session: Session, which: ColumnElement[bool], most: int, most_bytes: int) -> int:
    """Drop the oldest of some letters until the others are no more and no larger than they may be; how many."""
    number, size = col(DeadLetterRow.id), col(DeadLetterRow.size)
    newest = select(number).where(which).order_by(number.desc())
    kept = session.scalar(newest.offset(most - 1).limit(1)) or 0
    if (session.scalar(select(func.sum(size)).where(which)) or 0) > most_bytes:
        # With each the size of all that are as new or newer.
        summed = func.sum(size).over(order_by=number.desc()).label("bytes")
        parts = select(number.label("id"), summed).where(which).subquery()
        fits = session.scalar(select(func.min(parts.c.id)).where(parts.c.bytes <= most_bytes))
        kept = max(kept, fits if fits is not None else session.scalar(newest.limit(1)) or 0)
    return _drop_where(session, which & (number < kept)) if kept else 0


def _drop_where(session: Session, condition: ColumnElement[bool]) -> int:
    of = col(DeadLetterRow.instance)
    counted = session.execute(select(of, func.count()).where(condition).group_by(of)).all()
    for instance, count in counted:
        row = session.get(DeadLetterDropRow, instance) or DeadLetterDropRow(instance=instance, count=0)
        row.count += count
        session.add(row)
    if counted:
        gone = select(col(DeadLetterRow.id)).where(condition)
        session.execute(delete(DeadLetterReaderRow).where(col(DeadLetterReaderRow.letter).in_(gone)))
        session.execute(delete(DeadLetterRow).where(condition))
    return sum(count for _, count in counted)


def _parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]
