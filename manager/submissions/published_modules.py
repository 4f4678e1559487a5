"""The published modules that a tenant may use in its pipelines."""

import json
from collections.abc import Collection
from dataclasses import replace

from sqlalchemy.orm import aliased
from sqlmodel import Session, and_, col, exists, or_, select
from sqlmodel.sql.expression import SelectOfScalar

from manager.store.tables import ModuleRow
from planning.pipelines.module import Module, read_module

_OWN = aliased(ModuleRow)


def visible_to(tenant: str) -> SelectOfScalar[ModuleRow]:
    """The versions of its own modules and of operators'; its own goes before an operator's of the same name."""
    hidden = exists().where(
        col(_OWN.owner) == tenant,
        col(_OWN.name) == col(ModuleRow.name),
        col(_OWN.version) == col(ModuleRow.version),
    )
    return select(ModuleRow).where(or_(col(ModuleRow.owner) == tenant, and_(col(ModuleRow.owner) == "", ~hidden)))


def modules_of(session: Session, tenant: str, held: Collection[str] = ()) -> tuple[Module, ...]:
    """Those visible to it; deprecated ones only if they are held, or named with their version."""
    return tuple(
        replace(read_module(row.form), owner=row.owner, wheels=wheels_of(row))
        for row in session.exec(visible_to(tenant).order_by(col(ModuleRow.number)))
        if row.deprecated is None or f"{row.name}@{row.version}" in held
    )


def wheels_of(row: ModuleRow) -> tuple[str, ...]:
    """The digests of the wheels that its code imports from."""
    return tuple(json.loads(row.wheels or "[]"))


def is_vouched(row: ModuleRow) -> bool:
    """Whether an operator answers for its code."""
    return not row.owner or row.vouched is not None
