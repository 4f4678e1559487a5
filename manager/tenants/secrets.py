"""Secrets: put, listed by name, removed; and the file in which workers look vouchers up."""

from pathlib import Path

from sqlmodel import Session, col, select

from braid_client.answers.base import Page
from braid_client.answers.overview import OperationKind
from braid_client.answers.tenants import SecretAnswer, SecretForm
from engine.code.store import Voucher, VoucherFile
from engine.outside import Vault
from manager.problem import NotFound, StateNotReady
from manager.store.database import Store
from manager.store.tables import ModuleRow
from manager.tenants.quotas import Holding, check_another
from manager.use_case import Base, Caller, Paging, by_name
from planning.forms import ModuleForm


class Secrets(Base):
    """Secrets of tenants."""

    def put(self, caller: Caller, name: str, form: SecretForm, *, tenant: str | None = None) -> SecretAnswer:
        """Keep a tenant's secret, in place of what it kept under this name."""
        owner = self._known_tenant(caller, tenant)
        with self._noted(OperationKind.PUT_SECRET, caller, name) as session:
            if name not in (names := self._secrets.names(owner)):
                check_another(session, owner, Holding.SECRETS, len(names))
            self._secrets.put(owner, name, form.secret)
        return SecretAnswer(tenant=owner, name=name)

    def page(self, caller: Caller, paging: Paging, *, tenant: str | None = None) -> Page[SecretAnswer]:
        """The names of a tenant's secrets; of all tenants' for an operator who names none."""
        everybodys = caller.tenant is None and tenant is None
        owners = self._secrets.owners() if everybodys else [self._known_tenant(caller, tenant)]
        names = (f"{owner}:{name}" for owner in owners for name in self._secrets.names(owner))
        return by_name(names, paging, _answer)

    def remove(self, caller: Caller, name: str, *, tenant: str | None = None) -> SecretAnswer:
        """Keep a tenant's secret no longer; tasks that name it fail once they are made anew."""
        owner = self._known_tenant(caller, tenant)
        with self._noted(OperationKind.REMOVE_SECRET, caller, name):
            if not self._secrets.remove(owner, name):
                raise NotFound("secret", name)
        return SecretAnswer(tenant=owner, name=name)

    @property
    def _secrets(self) -> Vault:
        if (vault := self._tools.vault) is None:
            raise StateNotReady("this manager has no root to keep secrets in; ask one that has")
        return vault


def _answer(named: str) -> SecretAnswer:
    tenant, _, name = named.partition(":")
    return SecretAnswer(tenant=tenant, name=name)


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
    forms = ((row, ModuleForm.model_validate_json(row.form).code) for row in session.exec(wanted))
    return [
        Voucher(owner=row.owner, digest=row.digest, entry=code.entry, per=code.per)
        for row, code in forms
        if code is not None and row.digest is not None
    ]
