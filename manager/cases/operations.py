"""The journal of operations, as callers may read it."""

from sqlalchemy import select
from sqlmodel import col

from manager.answers import OperationAnswer, OperationKind, Page
from manager.cases.base import Base, Caller, Paging, moment, paged
from manager.store.tables import OperationRow


class Operations(Base):
    """The journal."""

    def page(
        self, caller: Caller, paging: Paging, *, kind: OperationKind | None = None, subject: str | None = None
    ) -> Page[OperationAnswer]:
        """The journal, newest first: a tenant's own operations, all of them for an operator."""
        wanted = select(OperationRow).order_by(col(OperationRow.id).desc())
        if paging.after is not None:
            wanted = wanted.where(col(OperationRow.id) < paging.after_number)
        for column, value in (("who", caller.tenant), ("kind", kind), ("subject", subject)):
            if value is not None:
                wanted = wanted.where(col(getattr(OperationRow, column)) == value)
        with self._store.read() as session:
            rows = session.scalars(wanted.limit(paging.limit + 1)).all()
        return paged(
            rows,
            paging.limit,
            cursor=lambda row: row.id,
            answer=lambda row: OperationAnswer.model_validate(
                row.model_dump() | {"at": moment(row.at), "kind": OperationKind(row.kind)}
            ),
        )
