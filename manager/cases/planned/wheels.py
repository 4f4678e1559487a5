"""Wheels: what published code imports from, sent before the modules that require it."""

import json
import time
from hashlib import sha256

from sqlalchemy import func
from sqlmodel import Session, col, select

from dags import Problem
from engine.code.wheel_file import UnfitWheel, read_wheel
from engine.code.wheel_store import WheelStore
from manager.answers import OperationKind, Page, WheelAnswer
from manager.cases.base import Base, Caller, Paging, moment, paged, tenant_of
from manager.problem import Conflict, Forbidden, InvalidWheel, NotFound, QuotaExceeded, StateNotReady
from manager.store.tables import ModuleRow, OperationRow, TenantRow, WheelRow

_OPERATORS = ""
"""The owner of what operators send."""


class Wheels(Base):
    """The wheels of each owner: one for a version of a package, which never changes."""

    def put(self, caller: Caller, digest: str, content: bytes) -> WheelAnswer:
        """Keep a wheel for the code that the caller publishes. Nothing of it is run. Idempotent."""
        begun = time.monotonic()
        if (actual := sha256(content).hexdigest()) != digest:
            raise InvalidWheel([_problem("wrong-digest", f"the digest of the wheel is {actual}", "send it under that")])
        try:
            wheel = read_wheel(content)
        except UnfitWheel as error:
            raise InvalidWheel([_problem(error.code, error.message, error.remedy)]) from error
        owner = caller.tenant or _OPERATORS
        with self._store.write() as session:
            if caller.tenant is not None:
                _check_allowed(session, caller.tenant)
            wanted = select(WheelRow).where(col(WheelRow.owner) == owner, col(WheelRow.name) == wheel.name)
            row = session.exec(wanted.where(col(WheelRow.version) == wheel.version)).one_or_none()
            if row is not None and row.digest != digest:
                raise Conflict(
                    f"{wheel.name} {wheel.version} is here as another file, {row.digest}, and a version never changes; "
                    "use that one, or remove it if no module requires it"
                )
            if row is None and caller.tenant is not None:
                _check_quota(session, caller.tenant, len(content))
            # Even if it is here: its file may have been damaged.
            self._wheels.put(content)
            if row is None:
                row = WheelRow(
                    owner=owner,
                    name=wheel.name,
                    version=wheel.version,
                    digest=digest,
                    bytes=len(content),
                    requires=json.dumps(wheel.requires),
                    sent=time.time(),
                )
                session.add(row)
                _note(session, OperationKind.PUT_WHEEL, caller, row, begun)
        return _answer(row)

    def page(self, caller: Caller, paging: Paging, *, tenant: str | None = None) -> Page[WheelAnswer]:
        """The caller's wheels, or all of them for an operator who names no tenant, in the order in which they came."""
        wanted = select(WheelRow).where(col(WheelRow.number) > paging.after_number).order_by(col(WheelRow.number))
        if caller.tenant is not None or tenant is not None:
            wanted = wanted.where(col(WheelRow.owner) == tenant_of(caller, tenant))
        with self._store.read() as session:
            rows = session.exec(wanted.limit(paging.limit + 1)).all()
        return paged(rows, paging.limit, cursor=lambda row: row.number, answer=_answer)

    def remove(self, caller: Caller, digest: str, *, tenant: str | None = None) -> WheelAnswer:
        """Keep a wheel no longer that no module requires; an operator's own, if it names no tenant."""
        begun = time.monotonic()
        owner = _OPERATORS if caller.tenant is None and tenant is None else tenant_of(caller, tenant)
        with self._store.write() as session:
            wanted = select(WheelRow).where(col(WheelRow.owner) == owner, col(WheelRow.digest) == digest)
            if (row := session.exec(wanted).one_or_none()) is None:
                raise NotFound("wheel", digest)
            holds = select(ModuleRow).where(col(ModuleRow.owner) == owner, col(ModuleRow.wheels).contains(digest))
            if (module := session.exec(holds.limit(1)).first()) is not None:
                raise Conflict(f"{module.name}@{module.version} requires {row.name} {row.version}, so it stays")
            session.delete(row)
            _note(session, OperationKind.REMOVE_WHEEL, caller, row, begun)
        with self._store.write() as session:
            # Only now, so that no wheel is listed without its file; and nobody sends it meanwhile.
            if session.exec(select(WheelRow.number).where(col(WheelRow.digest) == digest).limit(1)).first() is None:
                self._wheels.remove(digest)
        return _answer(row)

    @property
    def _wheels(self) -> WheelStore:
        if (wheels := self._tools.wheels) is None:
            raise StateNotReady("this manager has no root to keep wheels in; ask one that has")
        return wheels


def _check_allowed(session: Session, tenant: str) -> None:
    if not session.get_one(TenantRow, tenant).publishes:
        raise Forbidden("wheels are for code, which you may not publish; ask an operator")


def _check_quota(session: Session, tenant: str, more: int) -> None:
    allowed = session.get_one(TenantRow, tenant).wheel_bytes
    used = session.exec(select(func.coalesce(func.sum(WheelRow.bytes), 0)).where(col(WheelRow.owner) == tenant)).one()
    if used + more > allowed:
        raise QuotaExceeded(
            f"tenant {tenant!r} has wheels of {used:,} bytes, and may have {allowed:,}; this one has {more:,}: remove "
            "some that no module requires, or ask for more"
        )


def _problem(code: str, message: str, remedy: str) -> Problem:
    return Problem(pointer="", code=code, message=message, remedy=remedy)


def _answer(row: WheelRow) -> WheelAnswer:
    return WheelAnswer(
        digest=row.digest,
        owner=row.owner or None,
        name=row.name,
        version=row.version,
        bytes=row.bytes,
        requires=tuple(json.loads(row.requires)),
        sent=moment(row.sent),
    )


def _note(session: Session, kind: OperationKind, caller: Caller, row: WheelRow, begun: float) -> None:
    session.add(
        OperationRow(
            at=time.time(),
            kind=kind,
            who=caller.who,
            subject=f"{row.name}=={row.version}",
            seconds=time.monotonic() - begun,
            note=f"of {row.owner}" if row.owner and caller.tenant is None else "",
        )
    )
