"""The audit over REST: who did what and what was refused, of each change; a tenant sees its own."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from sqlmodel import col, select

from braid_client.answers.overview import OperationKind
from manager.overview.audit import KEPT_DAYS, REFUSALS_KEPT_DAYS
from manager.rest.dependencies import REFUSALS_PER_MINUTE
from manager.store.tables import OperationRow
from manager.tenants.use_cases import parse_key
from tests.manager.rest.documented_answers import KEYS_OF, ROUTES
from tests.manager.rest.socket_server import serving
from tests.manager.rest.town import Town, town
from tests.oidc_providers import StrictProvider, provider_at, strict_provider

UNNOTED = {
    "explain": "it changes nothing",
    "explain_bundle": "it changes nothing",
    "propose_source": "it changes nothing",
    "check_placement_plan": "it changes nothing",
    "send_events": "events are data, and each is counted",
    "deliver": "it is the same, from a service that has no caller",
    "admit_machine": "the town has admitted it already",
    "defragment": "the town's jobs are not scattered",
    "replan": "the plan stays as it is",
    "discard_dead_letters": "none are left by then",
    "replay_dead_letters": "none are left by then",
    "make_console_link": "who follows it signs in",
    "reconfigure": "the table previews it",
    "undo_reconfiguration": "the table previews it",
    "cancel_reconfiguration": "it is over already",
}
"""Routes with a body that leave no entry, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Audited:
    """A town that is asked, and the provider of its people."""

    town: Town
    strict: StrictProvider
    client: httpx.Client

    def asked(self, method: str, path: str, who: str, body: Any = None) -> httpx.Response:
        token = self.town.keys.get(who, who)
        return self.client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})

    def audit(self, who: str = "operator", query: str = "") -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.asked("GET", f"/v1/audit{query}", who).json()["items"]
        return items

    def key(self, who: str) -> str:
        parsed = parse_key(self.town.keys[who])
        assert parsed is not None
        return parsed[0]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Audited]:
    with (
        strict_provider() as strict,
        town(tmp_path_factory.mktemp("audit"), provider=provider_at(strict.issuer)) as made,
        serving(made.app) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=30.0) as client,
    ):
        yield _Audited(town=made, strict=strict, client=client)


def test_an_entry_says_who_did_what_from_where(audited: _Audited) -> None:
    """By a key with its note, or by the subject and name of a person; a tenant sees its own, an operator all."""
    audited.asked("PUT", "/v1/secrets/audited", "ann", {"secret": "x"})
    token = audited.strict.token(groups=["bobs"], sub="b-7", preferred_username="bert")
    audited.asked("PUT", "/v1/secrets/others", token, {"secret": "x"})
    bobs, anns = audited.audit()[:2]
    usual = {"address": "127.0.0.1", "kind": "put secret", "outcome": "done", "note": ""}
    key = {"caller": audited.key("ann"), "caller_name": ""}
    assert usual | key | {"who": "ann", "subject": "audited"} == {
        name: value for name, value in anns.items() if name not in {"id", "at"}
    }
    assert ("bob", "b-7", "bert") == tuple(bobs[name] for name in ("who", "caller", "caller_name"))
    assert {"ann"} == {entry["who"] for entry in audited.audit("ann")}
    assert ["others"] == [entry["subject"] for entry in audited.audit("bob", "?by=b-7")]
    assert [] == audited.audit("ann", "?by=b-7")
    assert [] == audited.audit(query="?since=2999-01-01T00:00:00Z")
    assert [] == audited.audit(query="?until=2000-01-01T00:00:00Z")
    first = audited.asked("GET", "/v1/audit?limit=1", "operator").json()
    following = audited.asked("GET", f"/v1/audit?limit=1&after={first['next']}", "operator").json()
    assert [bobs, anns] == first["items"] + following["items"]


def test_a_refusal_is_an_entry_and_no_operation(audited: _Audited) -> None:
    """Of a key and of a person in no group, as often as a minute allows; the journal of changes has none of them."""
    for _ in range(REFUSALS_PER_MINUTE + 5):
        assert 403 == audited.asked("POST", "/v1/tenants", "city", {"name": "mine"}).status_code
    refused = [entry for entry in audited.audit("city") if entry["outcome"] == "refused"]
    assert REFUSALS_PER_MINUTE <= len(refused) <= REFUSALS_PER_MINUTE + 4
    assert ("/v1/tenants", "POST: this is for operators only; ask one") == (refused[0]["subject"], refused[0]["note"])
    assert 403 == audited.asked("GET", "/v1/overview", audited.strict.token(groups=[], sub="n-1")).status_code
    (stranger,) = audited.audit(query="?by=n-1")
    assert ("a stranger", "refused", "/v1/overview") == tuple(stranger[name] for name in ("who", "outcome", "subject"))
    for who in ("operator", "city"):
        kinds = {entry["kind"] for entry in audited.asked("GET", "/v1/operations?limit=500", who).json()["items"]}
        assert not kinds & {"refused", "sign in", "sign out"}


def test_signing_in_and_out_are_entries(audited: _Audited) -> None:
    """By the key that was traded for the session."""
    begun = audited.client.post("/v1/session", json={"key": audited.town.keys["bob"]})
    cookie = {"Cookie": f"braid-session={begun.cookies['braid-session']}", "X-Braid-Console": "1"}
    audited.client.cookies.clear()
    assert {"ended": True} == audited.client.delete("/v1/session", headers=cookie).json()
    kinds = [entry["kind"] for entry in audited.audit("bob", f"?by={audited.key('bob')}")]
    assert ["sign out", "sign in"] == kinds[:2]


def test_every_change_leaves_an_entry(audited: _Audited) -> None:
    """Whatever a caller changes over REST, by whichever route, has an entry with its key."""
    methods = {
        operation["operationId"]: method.upper()
        for operations in audited.town.app.openapi()["paths"].values()
        for method, operation in operations.items()
    }
    unnoted = set()
    for name, route in ROUTES.items():
        well = route.well
        if methods[name] == "GET" or name in {"begin_session", "end_session"}:
            continue
        before = _last(audited)
        body = json.dumps(well.body) if well.body is not None and not isinstance(well.body, bytes) else well.body
        for placeholder, of in KEYS_OF.items():
            body = body.replace(placeholder, audited.town.keys[of]) if isinstance(body, str) else body
        headers = {"Content-Type": "application/json"} | dict(well.headers)
        if well.who is not None:
            headers["Authorization"] = f"Bearer {audited.town.keys[well.who]}"
        path = well.path.format(**audited.town.places)
        answer = audited.client.request(methods[name], path, content=body, headers=headers)
        assert not answer.is_error, (name, answer.text)
        with audited.town.tools.store.read() as session:
            callers = session.scalars(select(OperationRow.caller).where(col(OperationRow.id) > before)).all()
        if well.who is None or audited.key(well.who) not in callers:
            unnoted.add(name)
    assert [] == sorted(set(UNNOTED) ^ unnoted)


def _last(audited: _Audited) -> int:
    with audited.town.tools.store.read() as session:
        return session.scalars(select(OperationRow.id).order_by(col(OperationRow.id).desc())).first() or 0


def test_old_entries_are_deleted(audited: _Audited) -> None:
    """Refusals sooner than changes, which stay for more than a year."""
    day = 86_400.0
    with audited.town.tools.store.write() as session:
        times = {
            "old": (OperationKind.ADMIT, KEPT_DAYS + 1),
            "kept": (OperationKind.ADMIT, KEPT_DAYS - 1),
            "old refusal": (OperationKind.REFUSED, REFUSALS_KEPT_DAYS + 1),
            "kept refusal": (OperationKind.REFUSED, REFUSALS_KEPT_DAYS - 1),
        }
        # The oldest has the smallest number, as in a journal that grows.
        first = session.scalars(select(OperationRow.id).order_by(col(OperationRow.id))).first() or 0
        for number, (subject, (kind, days)) in enumerate(times.items()):
            session.add(
                OperationRow(
                    id=first - len(times) + number,
                    at=time.time() - days * day,
                    kind=kind,
                    who="operator",
                    subject=subject,
                    seconds=0.0,
                )
            )
    audited.town.service.audit.forget()
    with audited.town.tools.store.read() as session:
        left = session.scalars(select(OperationRow.subject).where(col(OperationRow.subject).in_(times))).all()
    assert {"kept", "kept refusal"} == set(left)


# Last, because it never ends where nothing runs.
def test_a_reconfiguration_is_an_entry_when_it_is_asked_for(audited: _Audited) -> None:
    """It switches later, when nobody asks any more."""
    path = f"/v1/dataflows/{audited.town.places['edited']}/reconfigurations"
    begun = audited.asked("POST", path, "ann", {"tasks": {"plausible": {"config": {"max": 50.0}}}})
    assert not begun.is_error, begun.text
    assert "ask to reconfigure" == audited.audit("ann")[0]["kind"]
