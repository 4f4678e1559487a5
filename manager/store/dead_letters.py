"""Dead letters in the database: kept once each and bounded in number, each with the tenants whose it is.

A tenant that discards one is struck from its readers. One without readers is seen by operators only, until it is
discarded or newer ones need its place; one whose last reader discarded it is gone.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, Text, cast, delete, exists, func, select
from sqlmodel import Session, col

from manager.store.tables import DataflowRow, DeadLetterDropRow, DeadLetterReaderRow, DeadLetterRow

T = TypeVar("T")
MOST_OF_INSTANCE = 1_000
MOST_IN_ALL = 100_000
_LATELY_REMOVED = 1_000
"""Dataflows that are looked through for one that an instance served; the last ones that were removed."""
_AT_ONCE = 500
"""Values in one statement."""

Readers = Mapping[str, Sequence[str]]
"""For each tenant its dataflows that an instance serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter as it came over the broker; made by `manager.reconciler.parking`."""

    instance: int
    port: str
    batch: int
    reason: str
    events: Sequence[Any]

    @property
    def digest(self) -> str:
        """The same for the same letter; equal events that are parked twice in one batch are one letter, too."""
        told = [self.instance, self.port, self.batch, self.reason, self.events]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def keep(  # noqa: PLR0913 - what, whose, when, and two bounds
    session: Session,
    letters: Iterable[Letter],
    readers: Mapping[int, Readers],
    *,
    at: float,
    most_of_instance: int = MOST_OF_INSTANCE,
    most_in_all: int = MOST_IN_ALL,
) -> int:
    """Keep letters that are not there yet; how many older ones had to go for them."""
    unseen = {letter.digest: letter for letter in letters}
    for digests in _parts(list(unseen)):
        for known in session.scalars(select(col(DeadLetterRow.digest)).where(col(DeadLetterRow.digest).in_(digests))):
            del unseen[known]
    rows = [
        DeadLetterRow(
            at=at,
            instance=letter.instance,
            port=letter.port,
            batch=letter.batch,
            reason=letter.reason,
            events=list(letter.events),
            digest=digest,
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
    return _drop(session, instances, most_of_instance, most_in_all)


def letters_of(tenant: str | None, dataflow: str | None) -> Select[DeadLetterRow]:
    """The letters of a tenant, or all of them; those at which a dataflow was served, or all of these."""
    wanted = select(DeadLetterRow)
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


def _drop(session: Session, instances: Iterable[int], most_of_instance: int, most_in_all: int) -> int:
    number, of = col(DeadLetterRow.id), col(DeadLetterRow.instance)
    dropped = 0
    for instance in sorted(instances):
        newest = select(number).where(of == instance).order_by(number.desc())
        oldest_kept = session.scalar(newest.offset(most_of_instance - 1).limit(1))
        if oldest_kept is not None:
            dropped += _drop_where(session, (of == instance) & (number < oldest_kept))
    oldest_kept = session.scalar(select(number).order_by(number.desc()).offset(most_in_all - 1).limit(1))
    if oldest_kept is not None:
        dropped += _drop_where(session, number < oldest_kept)
    return dropped


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
