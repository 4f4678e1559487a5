"""What a tenant uses of its quota, counted in one statement."""

from datetime import datetime

from sqlalchemy import String, bindparam, func, select
from sqlmodel import Session

from manager.answers import QuotaUse, Start
from manager.store.tables import DataflowRow, KeyRow, ModuleRow, OperationRow, SourceRow, WheelRow, table_of
from manager.submissions.quota import COUNTED, MINUTE

_DATAFLOW, _KEY, _MODULE = (table_of(rows).c for rows in (DataflowRow, KeyRow, ModuleRow))
_OPERATION, _SOURCE, _WHEEL = (table_of(rows).c for rows in (OperationRow, SourceRow, WheelRow))
_TENANT = bindparam("tenant", type_=String())
_RUNS = (_DATAFLOW.tenant == _TENANT, _DATAFLOW.removed.is_(None))
_SUBMITTED = (_OPERATION.who == _TENANT, _OPERATION.kind.in_(COUNTED), _OPERATION.at > bindparam("since"))
_COUNTS = {
    "dataflows": select(func.count()).where(*_RUNS),
    "tasks": select(func.coalesce(func.sum(_DATAFLOW.tasks), 0)).where(*_RUNS),
    "streams": select(func.coalesce(func.sum(_DATAFLOW.streams), 0)).where(*_RUNS),
    "submits_per_minute": select(func.count()).where(*_SUBMITTED),
    "wheel_bytes": select(func.coalesce(func.sum(_WHEEL.bytes), 0)).where(_WHEEL.owner == _TENANT),
    "sources": select(func.count()).where(_SOURCE.owner == _TENANT),
    "modules": select(func.count()).where(_MODULE.owner == _TENANT),
    "keys": select(func.count()).where(_KEY.tenant == _TENANT, _KEY.revoked.is_(None)),
    "from_earliest": select(func.count()).where(*_RUNS, _DATAFLOW.start == Start.EARLIEST.value),
}
_USE = select(*(each.scalar_subquery().label(name) for name, each in _COUNTS.items()))


def quota_use(session: Session, tenant: str, now: datetime, *, secrets: int, state_mb: int | None) -> QuotaUse:
    """What a tenant uses; its secrets and states are not in the database."""
    found = session.execute(_USE, {"tenant": tenant, "since": now.timestamp() - MINUTE}).one()
    return QuotaUse(secrets=secrets, state_mb=state_mb, **{name: int(count) for name, count in found._mapping.items()})  # noqa: SLF001 - the public name for it
