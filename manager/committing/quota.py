"""Quotas: what a tenant may have and do, held against the database within the transaction of its change."""

from datetime import datetime

from sqlalchemy import func, select
from sqlmodel import Session, col

from manager.answers import OperationKind
from manager.problem import NotFound, QuotaExceeded
from manager.store.tables import DataflowRow, OperationRow, TenantRow

MINUTE = 60.0
_COUNTED = (OperationKind.SUBMIT, OperationKind.REPLACE)


def used(session: Session, tenant: str) -> tuple[int, int]:
    """How many dataflows a tenant has, and how many tasks they have."""
    mine = (col(DataflowRow.tenant) == tenant, col(DataflowRow.removed).is_(None))
    counted = select(func.count(), func.coalesce(func.sum(col(DataflowRow.tasks)), 0)).where(*mine)
    dataflows, tasks = session.execute(counted).one()
    return dataflows, int(tasks)


def check_size(session: Session, tenant: str, *, dataflows: int, tasks: int) -> None:
    """Refuse so many more dataflows and tasks of them where a tenant may not have them; fewer are always taken."""
    quota = _quota(session, tenant)
    has, runs = used(session, tenant)
    if dataflows > 0 and has + dataflows > quota.dataflows:
        raise QuotaExceeded(
            f"tenant {tenant!r} has {has} dataflows, and may have {quota.dataflows}; remove one, or ask for more"
        )
    if tasks > 0 and runs + tasks > quota.tasks:
        raise QuotaExceeded(
            f"tenant {tenant!r} has dataflows of {runs} tasks, and may have {quota.tasks}; this one would make it "
            f"{runs + tasks}: remove one, or ask for more"
        )


def check_rate(session: Session, tenant: str, now: datetime) -> None:
    """Refuse what a tenant asks for sooner than it may."""
    allowed = _quota(session, tenant).submits_per_minute
    if allowed == 0:
        raise QuotaExceeded(f"tenant {tenant!r} may submit nothing; ask for more")
    # If the one so many before the next lies within the last minute, the next has to wait until it does not.
    recent = (
        select(col(OperationRow.at))
        .where(
            col(OperationRow.who) == tenant,
            col(OperationRow.kind).in_(_COUNTED),
            col(OperationRow.at) > now.timestamp() - MINUTE,
        )
        .order_by(col(OperationRow.at).desc())
    )
    if (at := session.scalar(recent.offset(allowed - 1).limit(1))) is not None:
        wait = max(1.0, at + MINUTE - now.timestamp())
        raise QuotaExceeded(f"tenant {tenant!r} may submit {allowed} times a minute; wait {wait:.0f} s", wait)


def _quota(session: Session, tenant: str) -> TenantRow:
    quota = session.get(TenantRow, tenant)
    if quota is None:
        raise NotFound("tenant", tenant)
    return quota
