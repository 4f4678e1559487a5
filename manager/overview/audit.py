"""The audit: the part of the journal that callers have asked for, with who they were, and what was refused to them.

An entry of a change is written with the change, in one transaction. Only the audit shows the entries of sign-ins and
refusals.
"""

import time
from contextlib import suppress
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlmodel import col

from braid_client.answers.base import Page
from braid_client.answers.overview import AuditAnswer, AuditOutcome, OperationKind
from manager.problem import DatabaseAway
from manager.store.requester import Requester
from manager.store.tables import OperationRow
from manager.use_case import Base, Caller, Paging, paged

_DAY = 86_400.0
KEPT_DAYS, REFUSALS_KEPT_DAYS = 400, 30
"""Days for which entries of the journal are kept, and for which refusals are."""
_MOST_AT_ONCE = 10_000
_MOST_SUBJECT = 300
STRANGER = "a stranger"
"""The name in the journal of people in no group; no tenant's name has a space."""


class Audit(Base):
    """Who did what."""

    def page(
        self,
        caller: Caller,
        paging: Paging,
        *,
        by: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page[AuditAnswer]:
        """What callers did, newest first: a tenant's own for a tenant, all of it for an operator."""
        wanted = select(OperationRow).where(col(OperationRow.caller) != "").order_by(col(OperationRow.id).desc())
        if paging.after is not None:
            wanted = wanted.where(col(OperationRow.id) < paging.after_number)
        if caller.tenant is not None:
            wanted = wanted.where(col(OperationRow.who) == caller.tenant)
        if by is not None:
            wanted = wanted.where(col(OperationRow.caller) == by)
        if since is not None:
            wanted = wanted.where(col(OperationRow.at) >= since.timestamp())
        if until is not None:
            wanted = wanted.where(col(OperationRow.at) < until.timestamp())
        with self._store.read() as session:
            rows = session.scalars(wanted.limit(paging.limit + 1)).all()
        return paged(rows, paging.limit, cursor=lambda row: row.id, answer=_answer)

    def note_refusal(self, asked: Requester, path: str, why: str) -> None:
        """Note that something was refused to a caller."""
        subject = "".join(letter if letter.isprintable() else "?" for letter in path)[:_MOST_SUBJECT]
        # The refusal is answered all the same.
        with suppress(DatabaseAway), self._store.write() as session:
            session.add(
                OperationRow(
                    at=time.time(),
                    kind=OperationKind.REFUSED,
                    who=asked.who or STRANGER,
                    subject=subject,
                    seconds=0.0,
                    note=why,
                )
            )

    def forget(self) -> None:
        """Delete the entries of the journal that are old."""
        now, at = time.time(), col(OperationRow.at)
        refused = (col(OperationRow.kind) == OperationKind.REFUSED, at < now - REFUSALS_KEPT_DAYS * _DAY)
        with self._store.read() as session:
            last = session.scalar(select(func.max(col(OperationRow.id))).where(at < now - KEPT_DAYS * _DAY))
            ids = session.scalars(select(col(OperationRow.id)).where(*refused).limit(_MOST_AT_ONCE)).all()
        if last is None and not ids:
            return
        with self._store.write() as session:
            # Found before, since nobody can write while all are looked through.
            session.execute(delete(OperationRow).where(col(OperationRow.id) <= (last or 0)))
            session.execute(delete(OperationRow).where(col(OperationRow.id).in_(ids)))


def _answer(row: OperationRow) -> AuditAnswer:
    outcome = AuditOutcome.REFUSED if row.kind == OperationKind.REFUSED else AuditOutcome.DONE
    return AuditAnswer.model_validate(row.model_dump() | {"outcome": outcome})
