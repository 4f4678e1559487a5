"""Use cases of administration: keys, tenants and quotas; who may do what, and lists in parts."""

from collections.abc import Callable, Iterator

import pytest

from manager.answers.dataflows import Stop
from manager.answers.overview import OperationKind
from manager.answers.tenants import KeyForm, Quota, Role, TenantForm
from manager.problem import Conflict, Forbidden, NotFound, Unauthenticated
from manager.store.tables import CredentialRow, KeyRow
from manager.tenants.use_cases import parse_key
from manager.use_case import Caller, Paging
from tests.manager.cases.pages import every
from tests.manager.managers import OPERATOR, Manager, caller

ANN, BOB = caller("ann"), caller("bob")
SHORT = "s:source > k:sink"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    made = Manager(sqlite).lead()
    made.admit("ann", "bob")
    made.register("weather")
    yield made
    made.close()


def test_the_first_key_is_made_once(manager: Manager) -> None:
    """Where there is no key an operator's is made, and never again; it is kept as a hash only."""
    first = manager.service.administration.first_key()
    assert first is not None
    assert manager.service.administration.first_key() is None
    who = manager.service.administration.caller(first)
    assert (Role.OPERATOR, None, True) == (who.role, who.tenant, who.is_operator)
    with manager.store.read() as session:
        row = session.get_one(KeyRow, who.key)
    assert row.hash not in first
    found = parse_key(first)
    assert found is not None
    assert found[1] not in row.hash


def test_a_key_lets_in_the_one_it_was_made_for(manager: Manager) -> None:
    """A tenant's key is its tenant's; one that was revoked, mutilated or never made lets nobody in."""
    made = manager.service.administration.make_key(OPERATOR, KeyForm(tenant="ann", note="laptop"))
    who = manager.service.administration.caller(made.key)
    assert (made.id, Role.TENANT, "ann", "ann", False) == (who.key, who.role, who.tenant, who.who, who.is_operator)
    manager.service.administration.revoke_key(ANN, made.id)
    other = manager.service.administration.make_key(ANN, KeyForm())
    wrong = other.key[:-1] + ("A" if other.key[-1] != "A" else "B")
    mixed = made.key.replace(made.id, other.id)
    for key in (made.key, wrong, mixed, "", "braid_", other.id):
        with pytest.raises(Unauthenticated):
            manager.service.administration.caller(key)
    assert "ann" == manager.service.administration.caller(other.key).tenant


def test_keys_are_made_for_oneself_or_by_operators(manager: Manager) -> None:
    """A tenant makes keys of its own only, an operator for anybody that is there, and for operators."""
    assert ("ann", Role.TENANT) == _owner(manager, ANN, None) == _owner(manager, ANN, "ann")
    assert ("bob", Role.TENANT) == _owner(manager, OPERATOR, "bob")
    assert (None, Role.OPERATOR) == _owner(manager, OPERATOR, None)
    with pytest.raises(Forbidden, match="for itself only"):
        manager.service.administration.make_key(ANN, KeyForm(tenant="bob"))
    with pytest.raises(NotFound, match="no tenant 'zoe'"):
        manager.service.administration.make_key(OPERATOR, KeyForm(tenant="zoe"))


def _owner(manager: Manager, who: Caller, tenant: str | None) -> tuple[str | None, Role]:
    made = manager.service.administration.make_key(who, KeyForm(tenant=tenant))
    return made.tenant, made.role


def test_others_keys_answer_as_if_there_were_none(manager: Manager) -> None:
    """Another's key can be neither listed nor revoked, and is answered in the words for one that never was."""
    key = manager.service.administration.make_key(BOB, KeyForm()).id
    operators = manager.service.administration.make_key(OPERATOR, KeyForm()).id
    answers = set()
    for id_ in (key, operators, "0" * 16):
        with pytest.raises(NotFound) as refused:
            manager.service.administration.revoke_key(ANN, id_)
        answers.add(refused.value.detail.replace(id_, "?"))
    assert len(answers) == 1
    assert [] == every(lambda p: manager.service.administration.keys(ANN, p), 10)


def test_the_last_operators_key_stays(manager: Manager) -> None:
    """The last key that lets an operator in cannot be revoked, or nobody could make another; revoking twice is one."""
    first = manager.service.administration.make_key(OPERATOR, KeyForm())
    manager.service.administration.make_key(ANN, KeyForm())
    with pytest.raises(Conflict, match="the last key of an operator; make another one first"):
        manager.service.administration.revoke_key(OPERATOR, first.id)
    second = manager.service.administration.make_key(OPERATOR, KeyForm())
    revoked = manager.service.administration.revoke_key(OPERATOR, first.id)
    assert revoked.revoked is not None
    assert revoked == manager.service.administration.revoke_key(OPERATOR, first.id)
    with pytest.raises(Conflict, match="the last key"):
        manager.service.administration.revoke_key(OPERATOR, second.id)


def test_lists_of_keys_and_tenants_have_each_once(manager: Manager) -> None:
    """An operator lists all of them, a tenant its own, in parts of any size."""
    keys = {
        who: sorted(manager.service.administration.make_key(who, KeyForm()).id for _ in range(5)) for who in (ANN, BOB)
    }
    for limit in (1, 2, 5, 100):
        assert keys[ANN] == [each.id for each in every(lambda p: manager.service.administration.keys(ANN, p), limit)]
        everybodys = [each.id for each in every(lambda p: manager.service.administration.keys(OPERATOR, p), limit)]
        assert sorted(keys[ANN] + keys[BOB]) == everybodys
        assert ["ann", "bob"] == [
            each.name for each in every(lambda p: manager.service.administration.tenants(OPERATOR, p), limit)
        ]
        assert ["bob"] == [each.name for each in every(lambda p: manager.service.administration.tenants(BOB, p), limit)]


def test_a_tenant_is_shown_with_what_it_uses(manager: Manager) -> None:
    """It has its quota, and counts dataflows and their tasks until they are removed."""
    dataflow = manager.submit("ann", "s:source > a:map > k:sink s > b:map > k")
    manager.submit("ann", SHORT)
    manager.submit("bob", SHORT)
    quota = Quota(dataflows=3, tasks=9, submits_per_minute=7)
    shown = manager.service.administration.set_quota(OPERATOR, "ann", quota)
    assert ("ann", quota, 2, 5) == (shown.name, shown.quota, shown.uses.dataflows, shown.uses.tasks)
    manager.service.dataflows.remove(ANN, dataflow, Stop.NOW)
    (after,) = manager.service.administration.tenants(ANN, Paging()).items
    assert (1, 2, shown.created) == (after.uses.dataflows, after.uses.tasks, after.created)


def test_a_tenants_name_is_taken_once(manager: Manager) -> None:
    """A name that is taken, or that the journal gives to operators, is refused."""
    with pytest.raises(Conflict, match="there is a tenant 'ann' already; choose another name"):
        manager.service.administration.admit(OPERATOR, TenantForm(name="ann"))
    with pytest.raises(Conflict, match="the journal calls operators 'operator'; choose another name"):
        manager.service.administration.admit(OPERATOR, TenantForm(name="operator"))


OPERATORS_ONLY: dict[str, Callable[[Manager, Caller], object]] = {
    "admit": lambda m, who: m.service.administration.admit(who, TenantForm(name="zoe")),
    "set_quota": lambda m, who: m.service.administration.set_quota(who, "ann", Quota()),
    "running_tasks": lambda m, who: m.service.running.tasks(who, Paging()),
    "running_dags": lambda m, who: m.service.running.dags(who, Paging()),
    "jobs": lambda m, who: m.service.running.jobs(who, Paging()),
    "job": lambda m, who: m.service.running.job(who, "1"),
    "streams": lambda m, who: m.service.running.streams(who, Paging()),
    "hosts": lambda m, who: m.service.running.hosts(who, Paging()),
    "machines": lambda m, who: m.service.machines.page(who, Paging()),
}


@pytest.mark.parametrize("what", OPERATORS_ONLY)
def test_what_is_for_operators_is_refused_to_tenants(manager: Manager, what: str) -> None:
    """A tenant is refused with the advice to ask an operator, whether or not there is anything; an operator gets it."""
    manager.submit("ann", SHORT)
    with pytest.raises(Forbidden, match="for operators only; ask one"):
        OPERATORS_ONLY[what](manager, ANN)
    OPERATORS_ONLY[what](manager, OPERATOR)


def test_a_tenant_that_is_not_there_has_no_quota(manager: Manager) -> None:
    """The answer says that there is no such tenant."""
    with pytest.raises(NotFound, match="no tenant 'zoe'"):
        manager.service.administration.set_quota(OPERATOR, "zoe", Quota())
    with pytest.raises(NotFound, match="no tenant 'zoe'"):
        manager.service.administration.make_credentials(OPERATOR, "zoe")


def test_broker_credentials_are_a_tenants_own(manager: Manager) -> None:
    """They say what the tenant may read and write; new ones replace the old; another's cannot be made."""
    first = manager.service.administration.make_credentials(ANN, "ann")
    assert (("braid/1/out/ann/#",), ("raw/ann/weather",), "tenant-ann") == (first.reads, first.writes, first.user)
    before = manager.service.administration.broker_hashes()
    second = manager.service.administration.make_credentials(OPERATOR, "ann")
    assert first.password != second.password
    assert before.keys() == manager.service.administration.broker_hashes().keys() == {"tenant-ann"}
    assert before != manager.service.administration.broker_hashes()
    with pytest.raises(NotFound, match="no tenant 'ann'"):
        manager.service.administration.make_credentials(BOB, "ann")
    with manager.store.read() as session:
        assert first.password not in session.get_one(CredentialRow, "ann").hash


def test_each_act_is_in_the_journal(manager: Manager) -> None:
    """Every change has an entry with who did it and what to; what was refused or only looked at has none."""
    manager.service.administration.set_quota(OPERATOR, "ann", Quota())
    key = manager.service.administration.make_key(ANN, KeyForm()).id
    manager.service.administration.revoke_key(ANN, key)
    manager.service.administration.revoke_key(ANN, key)
    manager.service.administration.make_credentials(BOB, "bob")
    with pytest.raises(Conflict):
        manager.service.administration.admit(OPERATOR, TenantForm(name="ann"))
    entries = [
        (each.kind, each.who, each.subject) for each in every(lambda p: manager.service.operations.page(OPERATOR, p), 3)
    ]
    assert [
        (OperationKind.CREDENTIALS, "bob", "bob"),
        (OperationKind.REVOKE_KEY, "ann", key),
        (OperationKind.MAKE_KEY, "ann", key),
        (OperationKind.QUOTA, "operator", "ann"),
        (OperationKind.REGISTER, "operator", "ann:weather"),
        (OperationKind.ADMIT, "operator", "bob"),
        (OperationKind.ADMIT, "operator", "ann"),
    ] == entries
