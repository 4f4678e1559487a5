"""Quotas of tenants: checked within the transaction of a change, and what is used of them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Float, Integer, Row, Select, String, bindparam, func, or_, select
from sqlmodel import Session, col

from braid_client.answers.dataflows import Start
from braid_client.answers.overview import OperationKind
from braid_client.answers.tenants import Quota
from manager.problem import NotFound, QuotaExceeded
from manager.store.tables import DataflowRow, KeyRow, ModuleRow, OperationRow, SourceRow, TenantRow, WheelRow, table_of

MINUTE = 60.0
MOST_GENERATED_PER_SECOND = 100_000
"""The most that all generated sources of a tenant make together, since hosts make them at everybody's cost."""
COUNTED = (OperationKind.SUBMIT, OperationKind.REPLACE, OperationKind.RECONFIGURE)
"""What counts as a submission."""
_TENANT, _DATAFLOW, _OPERATION, _KEY, _MODULE, _SOURCE, _WHEEL = (
    table_of(rows).c for rows in (TenantRow, DataflowRow, OperationRow, KeyRow, ModuleRow, SourceRow, WheelRow)
)
_ASKED_TENANT = bindparam("tenant", type_=String())
_TASKS, _STREAMS = (func.coalesce(func.sum(summed), 0) for summed in (_DATAFLOW.tasks, _DATAFLOW.streams))


def _runs(tenant: ColumnElement[str]) -> tuple[ColumnElement[bool], ...]:
    return _DATAFLOW.tenant == tenant, _DATAFLOW.removed.is_(None)


def _submitted(tenant: ColumnElement[str]) -> tuple[ColumnElement[bool], ...]:
    return _OPERATION.who == tenant, _OPERATION.kind.in_(COUNTED), _OPERATION.at > bindparam("since")


def _counts(tenant: ColumnElement[str]) -> dict[str, Select[Any]]:
    """The counts of what a tenant uses, by the names of a quota."""
    now = bindparam("now", type_=Float())
    valid = (_KEY.revoked.is_(None), or_(_KEY.expires.is_(None), _KEY.expires > now))
    return {
        "dataflows": select(func.count()).where(*_runs(tenant)),
        "tasks": select(_TASKS).where(*_runs(tenant)),
        "streams": select(_STREAMS).where(*_runs(tenant)),
        "submits_per_minute": select(func.count()).where(*_submitted(tenant)),
        "wheel_bytes": select(func.coalesce(func.sum(_WHEEL.bytes), 0)).where(_WHEEL.owner == tenant),
        "sources": select(func.count()).where(_SOURCE.owner == tenant),
        "modules": select(func.count()).where(_MODULE.owner == tenant),
        "keys": select(func.count()).where(_KEY.tenant == tenant, *valid),
        "from_earliest": select(func.count()).where(*_runs(tenant), _DATAFLOW.start == Start.EARLIEST.value),
    }


_COUNTS_OF_EACH = _counts(_TENANT.name)
_USES = select(
    _TENANT.name, *(count.correlate(table_of(TenantRow)).scalar_subquery() for count in _COUNTS_OF_EACH.values())
).where(_TENANT.name.in_(bindparam("tenants", expanding=True)))
"""What each of some tenants uses; one statement, since an operator looks at all of them again and again."""
_FROM_EARLIEST = _counts(_ASKED_TENANT)["from_earliest"]
_QUOTA = select(*(_TENANT[name] for name in Quota.model_fields)).where(_TENANT.name == _ASKED_TENANT)
_USED = select(func.count(), _TASKS, _STREAMS).where(*_runs(_ASKED_TENANT))
_RECENT = (
    select(_OPERATION.at)
    .where(*_submitted(_ASKED_TENANT))
    .order_by(_OPERATION.at.desc())
    .offset(bindparam("later", type_=Integer))
    .limit(1)
)
"""Selects the time of the last submission but so many."""


class Holding(StrEnum):
    """What a tenant keeps by number; each is a field of its quota."""

    SOURCES = "sources"
    SECRETS = "secrets"
    MODULES = "modules"
    KEYS = "keys"


_REMEDIES = {
    Holding.SOURCES: "revoke one",
    Holding.SECRETS: "remove one",
    # What was published stays.
    Holding.MODULES: "publish no more",
    Holding.KEYS: "revoke one",
}


def check_size(session: Session, tenant: str, *, dataflows: int, tasks: int, streams: int) -> None:
    """Refuse so many more dataflows, and tasks and streams of them, where a tenant may not have them.

    Fewer are always taken.
    """
    quota = _quota(session, tenant)
    has, *sizes = session.execute(_USED, {"tenant": tenant}).one()
    if dataflows > 0 and has + dataflows > quota.dataflows:
        raise QuotaExceeded(
            f"tenant {tenant!r} has {has} dataflows, and may have {quota.dataflows}; remove one, or ask for more"
        )
    parts = zip(("tasks", "streams"), sizes, (tasks, streams), (quota.tasks, quota.streams), strict=True)
    for what, runs, more, most in parts:
        if more > 0 and runs + more > most:
            raise QuotaExceeded(
                f"tenant {tenant!r} has dataflows of {runs} {what}, and may have {most}; this one would make it "
                f"{runs + more}: remove one, or ask for more"
            )


def check_from_earliest(session: Session, tenant: str, dataflows: int = 1) -> None:
    """Refuse so many more dataflows that begin at the earliest events where a tenant may not have them."""
    quota = _quota(session, tenant).from_earliest
    has = session.scalar(_FROM_EARLIEST, {"tenant": tenant}) or 0
    if has + dataflows > quota:
        raise QuotaExceeded(
            f"tenant {tenant!r} has {has} dataflows that began at the earliest events, and may have {quota}; "
            "start this one at new events, remove one, or ask for more"
        )


def check_generated(session: Session, tenant: str, connection: Mapping[str, Any]) -> None:
    """Refuse one more generated source where all of the tenant's together would make too many events a second."""
    made = session.scalars(select(col(SourceRow.connection)).where(col(SourceRow.owner) == tenant))
    has = sum(map(_generated_per_second, made))
    if has + _generated_per_second(connection) > MOST_GENERATED_PER_SECOND:
        raise QuotaExceeded(
            f"the sources of tenant {tenant!r} generate {has:,g} events a second, and may generate "
            f"{MOST_GENERATED_PER_SECOND:,}; lower the rate, revoke one, or have an operator register it"
        )


def _generated_per_second(connection: Mapping[str, Any]) -> float:
    """The events that a source makes in a second by itself; those of files are for operators alone."""
    match connection["kind"]:
        case "rate":
            return float(connection["per_second"])
        case "timer":
            return 1.0 / float(connection["seconds"])
        case _:
            return 0.0


def check_another(session: Session, tenant: str, what: Holding, has: int) -> None:
    """Refuse one more of what a tenant keeps by number where it has as many as it may."""
    if has >= (quota := getattr(_quota(session, tenant), what)):
        raise QuotaExceeded(
            f"tenant {tenant!r} has {has} {what}, and may have {quota}; {_REMEDIES[what]}, or ask for more"
        )


def check_rate(session: Session, tenant: str, now: datetime, *, submits: int = 1) -> None:
    """Refuse a request, or so many at once, that come sooner than a tenant's rate allows."""
    allowed = _quota(session, tenant).submits_per_minute
    if allowed == 0:
        raise QuotaExceeded(f"tenant {tenant!r} may submit nothing; ask for more")
    if submits > allowed:
        raise QuotaExceeded(f"tenant {tenant!r} may submit {allowed} times a minute, and not {submits} at once")
    # If the one so many before the next lies within the last minute, the next has to wait until it does not.
    asked = {"tenant": tenant, "since": now.timestamp() - MINUTE, "later": allowed - submits}
    if (at := session.scalar(_RECENT, asked)) is not None:
        wait = max(1.0, at + MINUTE - now.timestamp())
        raise QuotaExceeded(
            f"tenant {tenant!r} may submit {allowed} times a minute; wait {wait:.0f} s", retry_after=wait
        )


def _quota(session: Session, tenant: str) -> Row[Any]:
    quota = session.execute(_QUOTA, {"tenant": tenant}).one_or_none()
    if quota is None:
        raise NotFound("tenant", tenant)
    return quota


def quota_counts(session: Session, tenants: Iterable[str], now: datetime) -> dict[str, dict[str, int]]:
    """What tenants use of each limit; their secrets and states are not in the database."""
    asked = {"tenants": tuple(tenants), "now": now.timestamp(), "since": now.timestamp() - MINUTE}
    return {
        tenant: dict(zip(_COUNTS_OF_EACH, map(int, counts), strict=True))
        for tenant, *counts in session.execute(_USES, asked)
    }
