"""The published modules that a tenant may use in its pipelines."""

from collections.abc import Collection
from dataclasses import replace

from sqlmodel import Session, col, or_, select

from manager.store.tables import ModuleRow
from planning.pipelines.module import Module, read_module


def modules_of(session: Session, tenant: str, held: Collection[str] = ()) -> tuple[Module, ...]:
    """Those of operators and its own; deprecated ones only if they are held, or named with their version.

    A tenant's own module goes before an operator's of the same name and version.
    """
    wanted = select(ModuleRow).where(or_(col(ModuleRow.owner) == "", col(ModuleRow.owner) == tenant))
    rows = session.exec(wanted.order_by(col(ModuleRow.owner))).all()
    found = {}
    for row in rows:
        if row.deprecated is None or f"{row.name}@{row.version}" in held:
            module = read_module(row.form)
            found[module.name] = replace(module, owner=row.owner, is_vouched=not row.owner or row.vouched is not None)
    return tuple(found.values())
