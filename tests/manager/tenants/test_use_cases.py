"""Use cases of administration: keys, tenants, quotas and secrets; whose they are, and who may do what."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid_client.answers.dataflows import Start, Stop
from braid_client.answers.overview import OperationKind
from braid_client.answers.sources import SourceForm
from braid_client.answers.tenants import KeyForm, PublishingForm, Quota, Role, SecretForm, TenantForm
from engine.code.store import VOUCHERS, Voucher, VoucherFile, digest_of
from engine.outside import Vault
from manager.problem import (
    Conflict,
    DatabaseAway,
    Forbidden,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    StateNotReady,
    Unauthenticated,
)
from manager.store.database import Store
from manager.store.tables import CredentialRow, KeyRow
from manager.tenants.quotas import MOST_GENERATED_PER_SECOND
from manager.tenants.secrets import VoucherKeeper
from manager.tenants.use_cases import MOST_SESSIONS, matches, new_key, parse_key
from manager.use_case import Caller, Paging
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, caller, every, leading, raw


def test_a_key_is_read_and_matches() -> None:
    """The text of a new key holds its id and a secret that matches its hash, and no other key's."""
    key, other = new_key(), new_key()
    parsed = parse_key(key.text)
    assert parsed is not None
    assert (key.id, True, False) == (parsed[0], matches(parsed[1], key.hash), matches(parsed[1], other.hash))


def test_a_secret_has_256_bits_and_is_not_kept() -> None:
    """Its secret is 32 bytes, and what is kept of it does not hold it."""
    key = new_key()
    parsed = parse_key(key.text)
    assert parsed is not None
    assert (32, False) == (len(base64.urlsafe_b64decode(parsed[1] + "=")), parsed[1] in key.hash)


@given(st.text() | st.from_regex(r"braid_[0-9a-f]{14,18}_[\w-]{40,46}\n?"))
def test_any_text_is_a_key_or_none(text: str) -> None:
    """Whatever is sent is read as an id and a secret that make it up, or as no key."""
    parsed = parse_key(text)
    assert parsed is None or text == f"braid_{parsed[0]}_{parsed[1]}"


@given(st.text(), st.text())
def test_only_the_secret_matches(secret: str, hashed: str) -> None:
    """No text is taken for a hash of another, however odd."""
    assert not matches(secret, hashed)


SHORT = "s:source > k:sink"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob"), sources=("weather",))


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
    with pytest.raises(Conflict, match="does not expire; make another one first"):
        manager.service.administration.revoke_key(OPERATOR, first.id)
    second = manager.service.administration.make_key(OPERATOR, KeyForm())
    revoked = manager.service.administration.revoke_key(OPERATOR, first.id)
    assert revoked.revoked is not None
    assert revoked == manager.service.administration.revoke_key(OPERATOR, first.id)
    with pytest.raises(Conflict, match="the last key"):
        manager.service.administration.revoke_key(OPERATOR, second.id)


def test_a_key_lets_nobody_in_once_it_has_expired(manager: Manager) -> None:
    """Nor does a session that began with it; it counts in no quota, and one that would have expired is not made."""
    administration, sessions = manager.service.administration, manager.service.sessions
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    made = administration.make_key(ANN, KeyForm(expires=tomorrow))
    assert tomorrow == made.expires
    token, who = sessions.begin(administration.caller(made.key), 7 * 86_400.0)
    assert tomorrow == who.until
    assert 1 == _uses_keys(manager)
    with manager.store.write() as session:
        session.get_one(KeyRow, made.id).expires = time.time() - 1.0
    with pytest.raises(Unauthenticated, match=f"the API key {made.id} expired on"):
        administration.caller(made.key)
    with pytest.raises(Unauthenticated, match="its API key is not valid any more"):
        sessions.caller(token)
    assert 0 == _uses_keys(manager)
    with pytest.raises(InvalidRequest, match="it would have expired already"):
        administration.make_key(ANN, KeyForm(expires=datetime.now(UTC)))


def _uses_keys(manager: Manager) -> int:
    (shown,) = manager.service.administration.tenants(ANN, Paging()).items
    return shown.uses.keys


def test_a_key_that_expires_is_not_an_operators_last(manager: Manager) -> None:
    """Of the keys of operators one stays that does not expire, or nobody could make another in the end."""
    administration = manager.service.administration
    lasting = administration.make_key(OPERATOR, KeyForm())
    passing = administration.make_key(OPERATOR, KeyForm(expires=datetime.now(UTC) + timedelta(days=1)))
    with pytest.raises(Conflict, match="does not expire; make another one first"):
        administration.revoke_key(OPERATOR, lasting.id)
    assert administration.revoke_key(OPERATOR, passing.id).revoked is not None


def test_a_read_only_key_is_of_a_tenant(manager: Manager) -> None:
    """A tenant makes some for itself, and an operator for a tenant only."""
    administration = manager.service.administration
    for made in (
        administration.make_key(ANN, KeyForm(read_only=True)),
        administration.make_key(OPERATOR, KeyForm(tenant="ann", read_only=True)),
    ):
        who = administration.caller(made.key)
        assert (Role.READ_ONLY, "ann", False) == (who.role, who.tenant, who.is_operator)
    with pytest.raises(InvalidRequest, match="an operator's key may change everything"):
        administration.make_key(OPERATOR, KeyForm(read_only=True))


def test_keys_say_when_they_were_last_used(manager: Manager) -> None:
    """It is written down beside the requests, and a use that is noted late replaces no later one."""
    administration = manager.service.administration
    made = administration.make_key(ANN, KeyForm())
    before = time.time()
    administration.caller(made.key)
    assert [None] == [key.used for key in administration.keys(ANN, Paging()).items]
    administration.keep_uses()
    (used,) = (key.used for key in administration.keys(ANN, Paging()).items)
    assert used is not None
    assert before <= used.timestamp() <= time.time()
    with manager.store.write() as session:
        session.get_one(KeyRow, made.id).used = time.time() + 60.0
    administration.caller(made.key)
    administration.keep_uses()
    (later,) = (key.used for key in administration.keys(ANN, Paging()).items)
    assert later is not None
    assert later > used


def test_uses_that_cannot_be_written_down_are_written_later(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database may be away for a while."""
    administration = manager.service.administration
    administration.caller(administration.make_key(ANN, KeyForm()).key)

    def away(_store: Store) -> NoReturn:
        raise DatabaseAway(1.0)

    with monkeypatch.context() as outage:
        outage.setattr(Store, "write", away)
        with pytest.raises(DatabaseAway):
            administration.keep_uses()
    administration.keep_uses()
    assert [None] != [key.used for key in administration.keys(ANN, Paging()).items]


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


def test_a_tenant_looks_up_its_login_at_the_broker(manager: Manager) -> None:
    """Without the password, and with when that was made; another's cannot be looked up."""
    administration = manager.service.administration
    assert administration.broker_login(ANN, "ann").made is None
    made = administration.make_credentials(ANN, "ann")
    assert made.made is not None
    assert administration.broker_login(OPERATOR, "ann").model_dump() == made.model_dump(exclude={"password"})
    for who, tenant in ((BOB, "ann"), (OPERATOR, "zoe")):
        with pytest.raises(NotFound, match=f"no tenant '{tenant}'"):
            administration.broker_login(who, tenant)


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


SENT = raw("s:source > k:sink")
WHAT = ("sources", "secrets", "modules", "keys")


@pytest.fixture
def with_vault(empty_url: str, tmp_path: Path) -> Iterator[Manager]:
    yield from leading(empty_url, tenants=("ann", "bob"), tools={"vault": Vault(tmp_path / "root")})


def _keep(manager: Manager, what: str, number: int, who: str = "ann") -> str:
    """Keep one more; what it is known by."""
    service, mine = manager.service, caller(who)
    name = f"kept-{number}"
    match what:
        case "sources":
            form = {"name": name, "connection": {"kind": "topic", "topic": f"{who}/{name}"}, "schema": {"n": "integer"}}
            return service.sources.register(mine, SourceForm.model_validate(form)).name
        case "secrets":
            return service.secrets.put(mine, name, SecretForm(secret="hush")).name  # noqa: S106 - an example
        case "modules":
            module = {"name": name, "version": 1, "shape": "one-to-one", "installed": {"type": "map"}}
            return service.modules.publish(mine, json.dumps(module).encode()).name
        case _:
            return service.administration.make_key(mine, KeyForm()).id


def _give_up(manager: Manager, what: str, name: str) -> None:
    match what:
        case "sources":
            manager.service.sources.revoke(ANN, name)
        case "secrets":
            manager.service.secrets.remove(ANN, name)
        case _:
            manager.service.administration.revoke_key(ANN, name)


def test_what_a_tenant_uses_is_counted(with_vault: Manager) -> None:
    """By limit, and of nobody else; what it gave up counts no longer, but for what it submitted in the last minute."""
    for number, what in enumerate(WHAT):
        kept = [_keep(with_vault, what, each) for each in range(number + 2)]
        if what != "modules":
            _give_up(with_vault, what, kept[0])
    _keep(with_vault, "sources", 9, who="bob")
    with_vault.register("weather")
    with_vault.service.dataflows.submit(ANN, SENT)
    early = with_vault.service.dataflows.submit(ANN, SENT, start=Start.EARLIEST)
    with_vault.service.dataflows.remove(ANN, early.id, Stop.NOW)
    (ann,) = with_vault.service.administration.tenants(ANN, Paging()).items
    used = {
        "dataflows": 1,
        "tasks": 2,
        "streams": 1,
        "submits_per_minute": 2,
        "from_earliest": 0,
        "wheel_bytes": 0,
        "state_mb": 0,
        "budget": None,
    }
    assert used | {"sources": 2, "secrets": 2, "modules": 4, "keys": 4} == ann.uses.model_dump()


@pytest.mark.parametrize("what", WHAT)
def test_one_more_than_the_quota_is_refused(with_vault: Manager, what: str) -> None:
    """What is there stays, the refusal names the remedy, others are not affected, and with more quota it is taken."""
    with_vault.service.administration.set_quota(OPERATOR, "ann", Quota.model_validate({what: 2}))
    kept = [_keep(with_vault, what, number) for number in range(2)]
    with pytest.raises(QuotaExceeded, match=f"has 2 {what}, and may have 2; .*, or ask for more"):
        _keep(with_vault, what, 2)
    _keep(with_vault, what, 0, who="bob")
    if what != "modules":
        _give_up(with_vault, what, kept[0])
        _keep(with_vault, what, 2)
    with_vault.service.administration.set_quota(OPERATOR, "ann", Quota.model_validate({what: 3}))
    _keep(with_vault, what, 3)


@pytest.mark.parametrize("what", ["secrets", "modules"])
def test_what_is_there_may_be_put_again(with_vault: Manager, what: str) -> None:
    """A secret is replaced and a module published once more, idempotently, even if there may be no other."""
    with_vault.service.administration.set_quota(OPERATOR, "ann", Quota.model_validate({what: 1}))
    assert _keep(with_vault, what, 0) == _keep(with_vault, what, 0)


def test_few_dataflows_begin_at_the_earliest_events(with_vault: Manager) -> None:
    """One more than the quota is refused and changes nothing, alone and in a bundle; at new events it is taken."""
    with_vault.register("weather")
    with_vault.service.administration.set_quota(OPERATOR, "ann", Quota(from_earliest=2))
    submit = with_vault.service.dataflows.submit
    first = submit(ANN, SENT, start=Start.EARLIEST)
    submit(ANN, SENT, start=Start.EARLIEST)
    refusal = "has 2 dataflows that began at the earliest events, and may have 2; start this one at new events"
    with pytest.raises(QuotaExceeded, match=refusal):
        submit(ANN, SENT, start=Start.EARLIEST)
    submit(ANN, SENT)
    submit(BOB, SENT, start=Start.EARLIEST)
    with_vault.service.dataflows.remove(ANN, first.id, Stop.NOW)
    bundle = b'{"documents": [%b, %b]}' % (SENT, SENT)
    with pytest.raises(QuotaExceeded, match="has 1 dataflows that began at the earliest"):
        with_vault.service.bundles.submit(ANN, bundle, start=Start.EARLIEST)
    submit(ANN, SENT, start=Start.EARLIEST)


def test_generated_events_have_a_bound(with_vault: Manager) -> None:
    """A tenant's sources together generate so many a second and no more; operators may have more generated for it."""

    def generate(who: Caller, name: str, per_second: float, timer: float | None = None) -> None:
        form = {"name": name, "owner": None if who == ANN else "ann"}
        connection = {"kind": "timer", "seconds": timer} if timer else {"kind": "rate", "per_second": per_second}
        with_vault.service.sources.register(who, SourceForm.model_validate({**form, "connection": connection}))

    generate(ANN, "half", MOST_GENERATED_PER_SECOND / 2)
    with pytest.raises(QuotaExceeded, match="generate 50,000 events a second, and may generate 100,000; lower the"):
        generate(ANN, "more", MOST_GENERATED_PER_SECOND / 2 + 1)
    generate(ANN, "timed", 0.0, timer=0.001)
    with pytest.raises(QuotaExceeded, match="generate 51,000 events a second"):
        generate(ANN, "rest", MOST_GENERATED_PER_SECOND / 2)
    generate(ANN, "rest", MOST_GENERATED_PER_SECOND / 2 - 1_000)
    generate(OPERATOR, "test", 1_000_000)


def test_the_oldest_of_too_many_sessions_ends(with_vault: Manager) -> None:
    """A key has so many sessions; with one more the oldest is over, and sessions of other keys go on."""
    administration, sessions = with_vault.service.administration, with_vault.service.sessions
    mine, others = (
        administration.caller(administration.make_key(OPERATOR, KeyForm(tenant=tenant)).key)
        for tenant in ("ann", "bob")
    )
    kept, _ = sessions.begin(others, 50.0)
    first, second = (sessions.begin(mine, 100.0 + number)[0] for number in range(2))
    for number in range(MOST_SESSIONS - 1):
        sessions.begin(mine, 200.0 + number)
    with pytest.raises(Unauthenticated):
        sessions.caller(first)
    assert ("ann", "bob") == (sessions.caller(second).tenant, sessions.caller(kept).tenant)


HUSH = SecretForm(secret="hush")  # noqa: S106 - an example


@pytest.fixture
def vaulted(sqlite: str, tmp_path: Path) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob"), tools={"vault": Vault(tmp_path / "root")})


def names(manager: Manager, who: Caller, tenant: str | None = None, limit: int = 2) -> list[str]:
    return [
        f"{each.tenant}/{each.name}"
        for each in every(lambda paging: manager.service.secrets.page(who, paging, tenant=tenant), limit)
    ]


def test_a_tenant_has_secrets_of_its_own(vaulted: Manager) -> None:
    """Two tenants may use one name; an operator sees and puts for whom it names."""
    for who, name in ((ANN, "lake"), (ANN, "warehouse"), (BOB, "lake")):
        vaulted.service.secrets.put(who, name, HUSH)
    vaulted.service.secrets.put(OPERATOR, "sea", SecretForm(secret="salt"), tenant="ann")  # noqa: S106 - an example
    assert ["ann/lake", "ann/sea", "ann/warehouse"] == names(vaulted, ANN) == names(vaulted, OPERATOR, "ann")
    assert ["bob/lake"] == names(vaulted, BOB)
    assert ["ann/lake", "ann/sea", "ann/warehouse", "bob/lake"] == names(vaulted, OPERATOR)
    vaulted.service.secrets.remove(ANN, "lake")
    assert ["bob/lake"] == names(vaulted, BOB)
    assert "hush" == (vaulted.tools.vault or Vault(Path())).reveal("bob", "lake")
    with pytest.raises(NotFound):
        vaulted.service.secrets.remove(ANN, "lake")


def test_nobody_acts_for_others(vaulted: Manager) -> None:
    """Another tenant does not exist for a tenant; an operator has to say for whom."""
    for call in (
        lambda: vaulted.service.secrets.put(ANN, "lake", HUSH, tenant="bob"),
        lambda: vaulted.service.secrets.page(ANN, Paging(), tenant="bob"),
        lambda: vaulted.service.secrets.remove(ANN, "lake", tenant="bob"),
        lambda: vaulted.service.secrets.put(OPERATOR, "lake", HUSH, tenant="nobody"),
    ):
        with pytest.raises(NotFound):
            call()
    with pytest.raises(InvalidRequest):
        vaulted.service.secrets.put(OPERATOR, "lake", HUSH)


def test_the_journal_names_secrets_and_holds_none(vaulted: Manager) -> None:
    """Neither does an answer, a form that is shown, or a database."""
    answer = vaulted.service.secrets.put(ANN, "lake", HUSH)
    vaulted.service.secrets.remove(ANN, "lake")
    kinds = [each.kind for each in vaulted.service.operations.page(ANN, Paging(), subject="lake").items]
    assert [OperationKind.REMOVE_SECRET, OperationKind.PUT_SECRET] == kinds
    assert "hush" not in f"{answer!r} {HUSH!r}"
    path = Path(vaulted.url.removeprefix("sqlite:///"))
    assert all(b"hush" not in file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


def test_a_manager_without_a_root_says_so(vaulted: Manager) -> None:
    """It keeps nothing anywhere else."""
    vaulted.equip(vault=None)
    with pytest.raises(StateNotReady, match="no root to keep secrets in"):
        vaulted.service.secrets.put(ANN, "lake", HUSH)


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
    vaulted = published(sqlite)
    keeper = VoucherKeeper(vaulted.store, tmp_path)
    for at in (1, 2):
        vaulted.service.modules.vouch(OPERATOR, f"code{at}", 1, tenant="ann")
    keeper.keep()
    seen = [found(tmp_path)]
    for outdated in ([voucher(0), voucher(1)], []):
        VoucherFile(tmp_path).keep(outdated)
        keeper.keep()
        seen.append(found(tmp_path))
    (tmp_path / VOUCHERS).unlink()
    keeper.keep()
    assert [[1, 2]] * 4 == [*seen, found(tmp_path)]
    vaulted.close()


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
