"""The journal of operations, as callers may read it."""

from sqlalchemy import and_, or_, select
from sqlmodel import col

from manager.answers import OperationAnswer, OperationKind, Page
from manager.cases.base import Base, Caller, Paging, moment, paged
from manager.store.tables import DataflowRow, OperationRow


class Operations(Base):
    """The journal."""

    def page(
        self, caller: Caller, paging: Paging, *, kind: OperationKind | None = None, subject: str | None = None
    ) -> Page[OperationAnswer]:
        """The journal, newest first: of a tenant what it did and why its dataflows adapt, all for an operator."""
        wanted = select(OperationRow).order_by(col(OperationRow.id).desc())
        if paging.after is not None:
            wanted = wanted.where(col(OperationRow.id) < paging.after_number)
        if caller.tenant is not None:
            own = select(col(DataflowRow.id)).where(col(DataflowRow.tenant) == caller.tenant)
            # The service adapts a dataflow, so who did it is not its tenant.
            adapts = and_(col(OperationRow.kind) == OperationKind.ADAPT, col(OperationRow.subject).in_(own))
            wanted = wanted.where(or_(col(OperationRow.who) == caller.tenant, adapts))
        for column, value in (("kind", kind), ("subject", subject)):
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
