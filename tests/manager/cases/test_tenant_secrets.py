"""Use cases of secrets: whose they are, who may name them, and that nobody reads them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.outside import Vault
from manager.answers.overview import OperationKind
from manager.answers.tenants import SecretForm
from manager.problem import InvalidRequest, NotFound, StateNotReady
from manager.use_case import Caller, Paging
from tests.manager.cases.pages import every
from tests.manager.managers import OPERATOR, Manager, caller

ANN, BOB = caller("ann"), caller("bob")
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
