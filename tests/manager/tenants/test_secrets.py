"""Secrets and vouchers: whose they are, who may name them, and what workers find of them."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.code.store import VOUCHERS, Voucher, VoucherFile, digest_of
from engine.outside import Vault
from manager.answers.overview import OperationKind
from manager.answers.tenants import PublishingForm, SecretForm
from manager.problem import InvalidRequest, NotFound, StateNotReady
from manager.tenants.secrets import VoucherKeeper
from manager.use_case import Caller, Paging
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, caller, every

HUSH = SecretForm(secret="hush")  # noqa: S106 - an example


@pytest.fixture
def manager(sqlite: str, tmp_path: Path) -> Iterator[Manager]:
    made = Manager(sqlite).lead()
    made.admit("ann", "bob")
    made.equip(vault=Vault(tmp_path / "root"))
    yield made
    made.close()


def names(manager: Manager, who: Caller, tenant: str | None = None, limit: int = 2) -> list[str]:
    return [
        f"{each.tenant}/{each.name}"
        for each in every(lambda paging: manager.service.secrets.page(who, paging, tenant=tenant), limit)
    ]


def test_a_tenant_has_secrets_of_its_own(manager: Manager) -> None:
    """Two tenants may use one name; an operator sees and puts for whom it names."""
    for who, name in ((ANN, "lake"), (ANN, "warehouse"), (BOB, "lake")):
        manager.service.secrets.put(who, name, HUSH)
    manager.service.secrets.put(OPERATOR, "sea", SecretForm(secret="salt"), tenant="ann")  # noqa: S106 - an example
    assert ["ann/lake", "ann/sea", "ann/warehouse"] == names(manager, ANN) == names(manager, OPERATOR, "ann")
    assert ["bob/lake"] == names(manager, BOB)
    assert ["ann/lake", "ann/sea", "ann/warehouse", "bob/lake"] == names(manager, OPERATOR)
    manager.service.secrets.remove(ANN, "lake")
    assert ["bob/lake"] == names(manager, BOB)
    assert "hush" == (manager.tools.vault or Vault(Path())).reveal("bob", "lake")
    with pytest.raises(NotFound):
        manager.service.secrets.remove(ANN, "lake")


def test_nobody_acts_for_others(manager: Manager) -> None:
    """Another tenant does not exist for a tenant; an operator has to say for whom."""
    for call in (
        lambda: manager.service.secrets.put(ANN, "lake", HUSH, tenant="bob"),
        lambda: manager.service.secrets.page(ANN, Paging(), tenant="bob"),
        lambda: manager.service.secrets.remove(ANN, "lake", tenant="bob"),
        lambda: manager.service.secrets.put(OPERATOR, "lake", HUSH, tenant="nobody"),
    ):
        with pytest.raises(NotFound):
            call()
    with pytest.raises(InvalidRequest):
        manager.service.secrets.put(OPERATOR, "lake", HUSH)


def test_the_journal_names_secrets_and_holds_none(manager: Manager) -> None:
    """Neither does an answer, a form that is shown, or a database."""
    answer = manager.service.secrets.put(ANN, "lake", HUSH)
    manager.service.secrets.remove(ANN, "lake")
    kinds = [each.kind for each in manager.service.operations.page(ANN, Paging(), subject="lake").items]
    assert [OperationKind.REMOVE_SECRET, OperationKind.PUT_SECRET] == kinds
    assert "hush" not in f"{answer!r} {HUSH!r}"
    path = Path(manager.url.removeprefix("sqlite:///"))
    assert all(b"hush" not in file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


def test_a_manager_without_a_root_says_so(manager: Manager) -> None:
    """It keeps nothing anywhere else."""
    manager.equip(vault=None)
    with pytest.raises(StateNotReady, match="no root to keep secrets in"):
        manager.service.secrets.put(ANN, "lake", HUSH)


SOURCES = [f"def process(event): return {{'m': {at}}}" for at in range(8)]


def published(url: str) -> Manager:
    """A manager with a tenant's code, an operator's, and a module that is none."""
    made = Manager(url).lead()
    made.admit("ann")
    made.service.administration.set_publishing(OPERATOR, "ann", PublishingForm(code=True))
    for at, source in enumerate(SOURCES):
        form = {"name": f"code{at}", "version": 1, "shape": "one-to-one", "code": {"source": source}}
        made.service.modules.publish(caller("ann"), json.dumps(form).encode())
    form = {"name": "everybodys", "version": 1, "shape": "one-to-one", "code": {"source": SOURCES[0]}}
    made.service.modules.publish(OPERATOR, json.dumps(form).encode())
    form = {"name": "plain", "version": 1, "shape": "one-to-one", "installed": {"type": "map"}}
    made.service.modules.publish(caller("ann"), json.dumps(form).encode())
    return made


def voucher(at: int) -> Voucher:
    """The voucher for one of the sources."""
    return Voucher(owner="ann", digest=digest_of(SOURCES[at]), entry="process", per="event")


def found(root: Path) -> list[int]:
    """The sources that a worker finds vouched for."""
    return [at for at in range(len(SOURCES)) if VoucherFile(root).has(voucher(at))]


def test_a_lost_or_outdated_file_is_written_anew(sqlite: str, tmp_path: Path) -> None:
    """When a manager begins: after a restoration, say, or after one that died between its commit and the file."""
    manager = published(sqlite)
    keeper = VoucherKeeper(manager.store, tmp_path)
    for at in (1, 2):
        manager.service.modules.vouch(OPERATOR, f"code{at}", 1, tenant="ann")
    keeper.keep()
    seen = [found(tmp_path)]
    for outdated in ([voucher(0), voucher(1)], []):
        VoucherFile(tmp_path).keep(outdated)
        keeper.keep()
        seen.append(found(tmp_path))
    (tmp_path / VOUCHERS).unlink()
    keeper.keep()
    assert [[1, 2]] * 4 == [*seen, found(tmp_path)]
    manager.close()


def test_two_managers_leave_what_was_committed(sqlite: str, tmp_path: Path) -> None:
    """In whatever order they write, no voucher that was withdrawn comes back."""
    managers = [published(sqlite), Manager(sqlite, "two")]
    for each in managers:
        each.equip(vouchers_changed=VoucherKeeper(each.store, tmp_path).keep)

    def change(at: int) -> None:
        modules = managers[at % 2].service.modules
        modules.vouch(OPERATOR, f"code{at}", 1, tenant="ann")
        if at % 3:
            modules.withdraw(OPERATOR, f"code{at}", 1, tenant="ann")

    with ThreadPoolExecutor(len(SOURCES)) as pool:
        list(pool.map(change, range(len(SOURCES))))
    assert [0, 3, 6] == found(tmp_path)
    for each in managers:
        each.close()
