"""Dead letters in the database: each kept once, limited in number and bytes, and readable by its tenants.

A tenant that discards a letter is no longer among its readers; when the last reader discards it, it is deleted. A
letter that had no readers is visible to operators only, until it is discarded or dropped for newer ones. A letter that
is being replayed is hidden. It is deleted once its job has taken the events, and visible again if the job ends before.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field
from sqlalchemy import ColumnElement, Exists, Select, Text, cast, delete, exists, func, select, true, tuple_
from sqlmodel import Session, col

from manager.store.tables import (
    DataflowRow,
    DeadLetterDropRow,
    DeadLetterReaderRow,
    DeadLetterReplayRow,
    DeadLetterRow,
)

T = TypeVar("T")
MOST_LETTERS_OF_INSTANCE = 1_000
MOST_LETTERS_OF_TENANT = 10_000
MOST_LETTERS_IN_ALL = 100_000
MOST_LETTER_BYTES_OF_INSTANCE = 16 * 1024 * 1024
"""The newest letter of an instance is kept even if it is larger."""
MOST_LETTER_BYTES_OF_TENANT = 128 * 1024 * 1024
MOST_LETTER_BYTES_IN_ALL = 1024 * 1024 * 1024
_LATELY_REMOVED = 1_000
"""The number of latest removed dataflows that are searched for one that an instance served."""
_REMEMBERED = 30 * 86_400.0
"""Seconds that a replayed letter is remembered."""
_AT_ONCE = 500
"""Values in one statement."""

_LETTER, _OF = col(DeadLetterRow.id), col(DeadLetterReaderRow.letter)
_GROUP = (col(DeadLetterRow.instance), col(DeadLetterRow.reason))
"""What the letters of a group have in common."""
_UNDER_WAY = exists().where(col(DeadLetterReplayRow.letter) == _LETTER)
"""True for a letter that is fed to its task, until the task has taken it."""

_Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
# Error messages can quote null characters, which not all databases store.
_Plain = Annotated[str, AfterValidator(lambda text: text.replace("\x00", "\ufffd"))]
Readers = Mapping[str, Sequence[str]]
"""The dataflows that an instance serves, by tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter as it arrived."""

    instance: _Count
    port: _Plain
    batch: _Count
    first: _Count = 0
    """The position of its first event among all that the batch could not process."""
    reason: _Plain
    events: list[Any]
    owner: _Plain = ""
    """The owner of the published code that failed."""
    traceback: _Plain = ""
    """The traceback, for that owner only."""

    @property
    def digest(self) -> str:
        """The digest of the whole letter."""
        content = [self.instance, self.port, self.batch, self.first, self.reason, self.events]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def size(self) -> int:
        """The bytes that it takes in the database."""
        texts = (self.reason, self.traceback, json.dumps(self.events, ensure_ascii=False))
        return sum(len(text.encode()) for text in texts)


def keep(  # noqa: PLR0913 - six of the arguments are limits that tests lower
    session: Session,
    letters: Iterable[Letter],
    readers: Mapping[int, Readers],
    *,
    at: float,
    most_of_instance: int = MOST_LETTERS_OF_INSTANCE,
    most_of_tenant: int = MOST_LETTERS_OF_TENANT,
    most_in_all: int = MOST_LETTERS_IN_ALL,
    most_bytes_of_instance: int = MOST_LETTER_BYTES_OF_INSTANCE,
    most_bytes_of_tenant: int = MOST_LETTER_BYTES_OF_TENANT,
    most_bytes_in_all: int = MOST_LETTER_BYTES_IN_ALL,
) -> int:
    """Keep letters that are not there yet; return the number of older ones that were dropped for them."""
    unseen = {letter.digest: letter for letter in letters}
    for digests in parts(list(unseen)):
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
            events=letter.events,
            digest=digest,
            size=letter.size,
            owner=letter.owner if letter.traceback else None,
            traceback=letter.traceback or None,
        )
        for digest, letter in unseen.items()
    ]
    session.add_all(rows)
    session.flush()
    instances = {row.instance for row in rows}
    users = {instance: readers.get(instance) or _last_readers(session, instance) for instance in instances}
    session.add_all(
        DeadLetterReaderRow(letter=row.id or 0, tenant=tenant, dataflows=list(dataflows))
        for row in rows
        for tenant, dataflows in users[row.instance].items()
    )
    session.flush()
    dropped = 0
    for instance in sorted(users):
        # Letters that are being replayed do not count.
        of_it = (col(DeadLetterRow.instance) == instance) & ~_UNDER_WAY
        dropped += _drop(session, of_it, most_of_instance, most_bytes_of_instance)
    for tenant in sorted({tenant for tenants in users.values() for tenant in tenants}):
        dropped += _take_from(session, tenant, most_of_tenant, most_bytes_of_tenant)
    return dropped + _drop(session, true(), most_in_all, most_bytes_in_all)


def letters_of(
    tenant: str | None, dataflow: str | None, letter: int | None = None, *, alike: bool = False
) -> Select[DeadLetterRow]:
    """Select the visible letters: of a tenant, of a dataflow, one of them or all of its group, if these are given."""
    wanted = select(DeadLetterRow).where(~_UNDER_WAY)
    if tenant is not None or dataflow is not None:
        wanted = wanted.where(_read_by(*_readers(tenant, dataflow)))
    if letter is None:
        return wanted
    if not alike:
        return wanted.where(col(DeadLetterRow.id) == letter)
    model = letters_of(tenant, dataflow, letter).with_only_columns(*_GROUP).correlate(None)
    return wanted.where(tuple_(*_GROUP).in_(model))


def groups_of(tenant: str | None, dataflow: str | None) -> Select[int | None, int, str, float, int, float]:
    """Select the groups of the visible letters, by task and reason; the one with the newest letter comes first."""
    newest, at = func.max(_LETTER), col(DeadLetterRow.at)
    columns = (func.count().label("letters"), func.min(at).label("first"), func.max(at).label("last"))
    wanted = letters_of(tenant, dataflow).with_only_columns(newest.label("newest"), *_GROUP, *columns)
    return wanted.group_by(*_GROUP).order_by(newest.desc())


def discard(session: Session, tenant: str | None, letters: Select[DeadLetterRow]) -> int:
    """Discard letters that `letters_of` selects, for one tenant or for all; return the number."""
    discarded = list(session.scalars(letters.with_only_columns(_LETTER)))
    theirs = [] if tenant is None else [col(DeadLetterReaderRow.tenant) == tenant]
    for part in parts(discarded):
        session.execute(delete(DeadLetterReaderRow).where(_OF.in_(part), *theirs))
        session.execute(delete(DeadLetterRow).where(_LETTER.in_(part), ~_read_by()))
    return len(discarded)


def replayed(session: Session, letters: Sequence[DeadLetterRow], *, at: float) -> None:
    """Mark letters as being replayed, which hides them, and keeps them from being stored if a host sends them again.

    They are remembered for a month, and for as long as the replay takes.
    """
    old = (col(DeadLetterReplayRow.at) < at - _REMEMBERED) & ~exists().where(col(DeadLetterReplayRow.letter) == _LETTER)
    session.execute(delete(DeadLetterReplayRow).where(old))
    session.add_all(DeadLetterReplayRow(digest=row.digest, letter=row.id or 0, at=at) for row in letters)


def taken(session: Session, letters: Sequence[int]) -> None:
    """Delete replayed letters whose events were taken."""
    for part in parts(letters):
        session.execute(delete(DeadLetterReaderRow).where(_OF.in_(part)))
        session.execute(delete(DeadLetterRow).where(_LETTER.in_(part)))


def given_back(session: Session, letters: Sequence[int]) -> None:
    """Show replayed letters again, because their jobs ended and may not have taken the events."""
    for part in parts(letters):
        session.execute(delete(DeadLetterReplayRow).where(col(DeadLetterReplayRow.letter).in_(part)))


def _read_by(*conditions: ColumnElement[bool]) -> Exists:
    """True for a letter with such readers."""
    return exists().where(_OF == _LETTER, *conditions)


def _readers(tenant: str | None, dataflow: str | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if tenant is not None:
        conditions.append(col(DeadLetterReaderRow.tenant) == tenant)
    if dataflow is not None:
        # Both databases store a list of texts as JSON.
        text = cast(col(DeadLetterReaderRow.dataflows), Text)
        conditions.append(text.contains(json.dumps(dataflow), autoescape=True))
    return conditions


def _last_readers(session: Session, instance: int) -> Readers:
    """Return the last readers of an instance without users: those of its dataflows that were removed last."""
    removed_at = col(DataflowRow.removed)
    wanted = select(col(DataflowRow.id), col(DataflowRow.tenant), removed_at, col(DataflowRow.instances))
    wanted = wanted.where(removed_at.is_not(None)).order_by(removed_at.desc()).limit(_LATELY_REMOVED)
    readers: dict[str, list[str]] = {}
    moment: float | None = None
    for dataflow, tenant, removed, instances in session.execute(wanted):
        if moment is not None and removed < moment:
            break
        if instance in instances:
            moment = removed
            readers.setdefault(tenant, []).append(dataflow)
    return readers


def _drop(session: Session, which: ColumnElement[bool], most: int, most_bytes: int) -> int:
    """Drop the oldest letters until the others are within the limits; return the number."""
    kept = _oldest_kept(session, which, most, most_bytes)
    return _drop_where(session, which & (kept > _LETTER)) if kept else 0


def _take_from(session: Session, tenant: str, most: int, most_bytes: int) -> int:
    """Take the oldest letters from a tenant until it has no more than it may; others who read them keep them.

    So a tenant whose letters are many drops its own, and not those of others.
    """
    which = _read_by(col(DeadLetterReaderRow.tenant) == tenant) & ~_UNDER_WAY
    kept = _oldest_kept(session, which, most, most_bytes)
    if not kept:
        return 0
    others = _read_by(col(DeadLetterReaderRow.tenant) != tenant)
    older = select(_LETTER, others.label("by_others")).where(which, kept > _LETTER)
    read_by_others = {row.id: row.by_others for row in session.execute(older)}
    gone = [letter for letter, also in read_by_others.items() if not also]
    for part in parts(list(read_by_others)):
        letters = _OF.in_(part)
        session.execute(delete(DeadLetterReaderRow).where(letters, col(DeadLetterReaderRow.tenant) == tenant))
    return sum(_drop_where(session, _LETTER.in_(part)) for part in parts(gone))


def _oldest_kept(session: Session, which: ColumnElement[bool], most: int, most_bytes: int) -> int:
    """The number of the oldest letter that is within the limits with all newer ones; 0 if all are."""
    size = col(DeadLetterRow.size)
    newest = select(_LETTER).where(which).order_by(_LETTER.desc())
    kept = session.scalar(newest.offset(most - 1).limit(1)) or 0
    if (session.scalar(select(func.sum(size)).where(which)) or 0) > most_bytes:
        # The total size of each letter and all newer ones.
        summed = func.sum(size).over(order_by=_LETTER.desc()).label("bytes")
        sums = select(_LETTER.label("id"), summed).where(which).subquery()
        fits = session.scalar(select(func.min(sums.c.id)).where(sums.c.bytes <= most_bytes))
        kept = max(kept, fits if fits is not None else session.scalar(newest.limit(1)) or 0)
    return kept


def _drop_where(session: Session, condition: ColumnElement[bool]) -> int:
    by_instance = col(DeadLetterRow.instance)
    counted = session.execute(select(by_instance, func.count()).where(condition).group_by(by_instance)).all()
    for instance, count in counted:
        row = session.get(DeadLetterDropRow, instance) or DeadLetterDropRow(instance=instance, count=0)
        row.count += count
        session.add(row)
    if counted:
        gone = select(_LETTER).where(condition)
        session.execute(delete(DeadLetterReaderRow).where(_OF.in_(gone)))
        session.execute(delete(DeadLetterRow).where(condition))
    return sum(count for _, count in counted)


def parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """The values in parts that fit into one statement."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]
