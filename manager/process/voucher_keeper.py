"""The voucher keeper: keeps the file in which workers look vouchers up as the database has them."""

from pathlib import Path

from sqlmodel import Session, col, select

from engine.code.vouchers import Voucher, VoucherFile
from manager.store.database import Store
from manager.store.tables import ModuleRow
from planning.forms.module_form import ModuleForm


class VoucherKeeper:
    """Keeps the vouchers of a root. Thread-safe."""

    def __init__(self, store: Store, root: Path) -> None:
        self._store = store
        self._file = VoucherFile(root)

    def keep(self) -> None:
        """Write the file if it differs."""
        # With the writer's lock, so that of several managers none writes what it read before another one's change.
        with self._store.write() as session:
            self._file.keep(_vouchers(session))


def _vouchers(session: Session) -> list[Voucher]:
    wanted = select(ModuleRow).where(
        col(ModuleRow.vouched).is_not(None), col(ModuleRow.digest).is_not(None), col(ModuleRow.owner) != ""
    )
    return [found for row in session.exec(wanted) if (found := _voucher(row)) is not None]


def _voucher(row: ModuleRow) -> Voucher | None:
    code = ModuleForm.model_validate_json(row.form).code
    if code is None or row.digest is None:
        return None
    return Voucher(owner=row.owner, digest=row.digest, entry=code.entry, per=code.per)
