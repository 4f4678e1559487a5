"""Quotas of what a tenant keeps: sources, secrets, modules, API keys; and sessions, of which the oldest end."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.outside import Vault
from manager.answers.dataflows import Start, Stop
from manager.answers.sources import SourceForm
from manager.answers.tenants import KeyForm, Quota, SecretForm
from manager.problem import QuotaExceeded, Unauthenticated
from manager.tenants.quotas import MOST_GENERATED_PER_SECOND
from manager.tenants.use_cases import MOST_SESSIONS
from manager.use_case import Caller, Paging
from tests.manager.managers import OPERATOR, Manager, caller, raw

ANN, BOB = caller("ann"), caller("bob")
SHORT = raw("s:source > k:sink")
WHAT = ("sources", "secrets", "modules", "keys")


@pytest.fixture
def manager(empty_url: str, tmp_path: Path) -> Iterator[Manager]:
    made = Manager(empty_url).lead()
    made.admit("ann", "bob")
    made.equip(vault=Vault(tmp_path / "root"))
    yield made
    made.close()


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


def test_what_a_tenant_uses_is_counted(manager: Manager) -> None:
    """By limit, and of nobody else; what it gave up counts no longer, but for what it submitted in the last minute."""
    for number, what in enumerate(WHAT):
        kept = [_keep(manager, what, each) for each in range(number + 2)]
        if what != "modules":
            _give_up(manager, what, kept[0])
    _keep(manager, "sources", 9, who="bob")
    manager.register("weather")
    manager.service.dataflows.submit(ANN, SHORT)
    early = manager.service.dataflows.submit(ANN, SHORT, start=Start.EARLIEST)
    manager.service.dataflows.remove(ANN, early.id, Stop.NOW)
    (ann,) = manager.service.administration.tenants(ANN, Paging()).items
    used = {
        "dataflows": 1,
        "tasks": 2,
        "streams": 1,
        "submits_per_minute": 2,
        "from_earliest": 0,
        "wheel_bytes": 0,
        "state_mb": 0,
    }
    assert used | {"sources": 2, "secrets": 2, "modules": 4, "keys": 4} == ann.uses.model_dump()


@pytest.mark.parametrize("what", WHAT)
def test_one_more_than_the_quota_is_refused(manager: Manager, what: str) -> None:
    """What is there stays, the refusal names the remedy, others are not affected, and with more quota it is taken."""
    manager.service.administration.set_quota(OPERATOR, "ann", Quota.model_validate({what: 2}))
    kept = [_keep(manager, what, number) for number in range(2)]
    with pytest.raises(QuotaExceeded, match=f"has 2 {what}, and may have 2; .*, or ask for more"):
        _keep(manager, what, 2)
    _keep(manager, what, 0, who="bob")
    if what != "modules":
        _give_up(manager, what, kept[0])
        _keep(manager, what, 2)
    manager.service.administration.set_quota(OPERATOR, "ann", Quota.model_validate({what: 3}))
    _keep(manager, what, 3)


@pytest.mark.parametrize("what", ["secrets", "modules"])
def test_what_is_there_may_be_put_again(manager: Manager, what: str) -> None:
    """A secret is replaced and a module published once more, idempotently, even if there may be no other."""
    manager.service.administration.set_quota(OPERATOR, "ann", Quota.model_validate({what: 1}))
    assert _keep(manager, what, 0) == _keep(manager, what, 0)


def test_few_dataflows_begin_at_the_earliest_events(manager: Manager) -> None:
    """One more than the quota is refused and changes nothing, alone and in a bundle; at new events it is taken."""
    manager.register("weather")
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(from_earliest=2))
    submit = manager.service.dataflows.submit
    first = submit(ANN, SHORT, start=Start.EARLIEST)
    submit(ANN, SHORT, start=Start.EARLIEST)
    refusal = "has 2 dataflows that began at the earliest events, and may have 2; start this one at new events"
    with pytest.raises(QuotaExceeded, match=refusal):
        submit(ANN, SHORT, start=Start.EARLIEST)
    submit(ANN, SHORT)
    submit(BOB, SHORT, start=Start.EARLIEST)
    manager.service.dataflows.remove(ANN, first.id, Stop.NOW)
    bundle = b'{"documents": [%b, %b]}' % (SHORT, SHORT)
    with pytest.raises(QuotaExceeded, match="has 1 dataflows that began at the earliest"):
        manager.service.bundles.submit(ANN, bundle, start=Start.EARLIEST)
    submit(ANN, SHORT, start=Start.EARLIEST)


def test_generated_events_have_a_bound(manager: Manager) -> None:
    """A tenant's sources together generate so many a second and no more; operators may have more generated for it."""

    def generate(who: Caller, name: str, per_second: float, timer: float | None = None) -> None:
        form = {"name": name, "owner": None if who == ANN else "ann"}
        connection = {"kind": "timer", "seconds": timer} if timer else {"kind": "rate", "per_second": per_second}
        manager.service.sources.register(who, SourceForm.model_validate({**form, "connection": connection}))

    generate(ANN, "half", MOST_GENERATED_PER_SECOND / 2)
    with pytest.raises(QuotaExceeded, match="generate 50,000 events a second, and may generate 100,000; lower the"):
        generate(ANN, "more", MOST_GENERATED_PER_SECOND / 2 + 1)
    generate(ANN, "timed", 0.0, timer=0.001)
    with pytest.raises(QuotaExceeded, match="generate 51,000 events a second"):
        generate(ANN, "rest", MOST_GENERATED_PER_SECOND / 2)
    generate(ANN, "rest", MOST_GENERATED_PER_SECOND / 2 - 1_000)
    generate(OPERATOR, "test", 1_000_000)


def test_the_oldest_of_too_many_sessions_ends(manager: Manager) -> None:
    """A key has so many sessions; with one more the oldest is over, and sessions of other keys go on."""
    administration, sessions = manager.service.administration, manager.service.sessions
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
