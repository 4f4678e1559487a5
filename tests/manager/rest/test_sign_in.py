"""Bearer tokens and sign-ins over REST, with a real provider: people see what their groups say."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from manager.service import service_of
from tests.manager.rest.socket_server import serving
from tests.manager.rest.town import Town, town
from tests.oidc_providers import SECRET, ProviderProcess, provider_at, provider_process

PEOPLE = {
    "anna": ["anns"],
    "bert": ["bobs"],
    "olga": ["ops"],
    "vera": ["anns-viewers"],
    "nora": [],
    "stan": ["strangers"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A town that people of a provider enter."""

    town: Town
    process: ProviderProcess
    client: httpx.Client
    browsers: ExitStack = field(default_factory=ExitStack)

    def get(self, path: str, token: str) -> httpx.Response:
        return self.client.get(path, headers={"Authorization": f"Bearer {token}"})

    def sign_in(self, name: str) -> tuple[httpx.Client, httpx.Response]:
        """Sign somebody in as a browser does; the client that has the session, and the last answer."""
        page = {"Origin": str(self.client.base_url).rstrip("/")}
        browser = httpx.Client(base_url=self.client.base_url, headers=page, trust_env=False)
        self.browsers.enter_context(browser)
        url = browser.post("/sign-in").json()["url"]
        sent = httpx.post(url, data={"sub": name}, trust_env=False)
        back = parse_qs(urlsplit(sent.headers["location"]).query)
        return browser, browser.post("/sign-in/code", json={"code": back["code"][0], "state": back["state"][0]})


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Entry]:
    with (
        provider_process(PEOPLE) as process,
        town(tmp_path_factory.mktemp("entry"), provider=provider_at(process.issuer, secret=SECRET)) as made,
        serving(made.app) as url,
        httpx.Client(base_url=url, trust_env=False) as client,
    ):
        entry = _Entry(town=made, process=process, client=client)
        with entry.browsers:
            yield entry


def test_a_token_shows_what_the_groups_say(entry: _Entry) -> None:
    """To a tenant its own, to another one nothing of that, and everything to an operator; a viewer changes nothing."""
    anns = f"/v1/dataflows/{entry.town.places['running']}"
    tokens = {name: entry.process.token(name) for name in ("anna", "bert", "olga", "vera")}
    answers = {name: entry.get(anns, token).status_code for name, token in tokens.items()}
    assert {"anna": 200, "bert": 404, "olga": 200, "vera": 200} == answers
    roles = {name: entry.get("/v1/session", token).json() for name, token in tokens.items()}
    assert {"kind": "read-only", "tenant": "ann", "until": None, "name": "vera"} == roles["vera"]
    assert ("operator", None) == (roles["olga"]["kind"], roles["olga"]["tenant"])
    refused = entry.client.post("/v1/keys", json={}, headers={"Authorization": f"Bearer {tokens['vera']}"})
    assert (403, "/problems/forbidden") == (refused.status_code, refused.json()["type"])
    made = entry.client.post("/v1/keys", json={}, headers={"Authorization": f"Bearer {tokens['anna']}"})
    assert "ann" == made.json()["tenant"]


def test_who_is_in_no_group_is_told_so(entry: _Entry) -> None:
    """With a token and at the sign-in; so is who is of a tenant that is not admitted, or has a token for others."""
    nora, stan = (entry.get("/v1/session", entry.process.token(name)) for name in ("nora", "stan"))
    assert 403 == nora.status_code == stan.status_code
    assert nora.json()["detail"].startswith("nora is in no group that the setting oidc_groups names")
    assert "of the tenant 'nobodys', which is not admitted; ask an operator" in stan.json()["detail"]
    _, answer = entry.sign_in("nora")
    assert (403, nora.json()["detail"]) == (answer.status_code, answer.json()["detail"])
    other = entry.get("/v1/session", entry.process.token("anna", client="grafana"))
    assert 401 == other.status_code
    assert "wrong audience: it is for grafana; get one for braid" in other.json()["detail"]


def test_a_session_follows_the_groups_of_the_next_sign_in(entry: _Entry) -> None:
    """All sessions of a person do, and end where no group is named any more; others' and those of keys go on."""
    first, answer = entry.sign_in("anna")
    assert ("tenant", "ann", "anna") == tuple(answer.json()[name] for name in ("kind", "tenant", "name"))
    others, _ = entry.sign_in("bert")
    assert 200 == first.get("/v1/dataflows").status_code
    entry.process.set_groups("anna", ["bobs"])
    assert "ann" == first.get("/v1/session").json()["tenant"]
    second, _ = entry.sign_in("anna")
    assert ["bob", "bob"] == [each.get("/v1/session").json()["tenant"] for each in (first, second)]
    entry.process.set_groups("anna", [])
    _, refused = entry.sign_in("anna")
    assert 403 == refused.status_code
    assert [401, 401, 200] == [each.get("/v1/session").status_code for each in (first, second, others)]
    entry.process.set_groups("anna", PEOPLE["anna"])


def test_a_sign_out_ends_the_session(entry: _Entry) -> None:
    """The token in the cookie lets nobody in afterwards."""
    browser, _ = entry.sign_in("anna")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    assert {"ended": True} == browser.delete("/v1/session", headers={"X-Braid-Console": "1"}).json()
    assert 401 == entry.client.get("/v1/session", headers={"Cookie": cookie}).status_code


def test_a_sign_in_ends_where_it_began(entry: _Entry) -> None:
    """A code that comes to another browser, or with another state, is not redeemed; nor does another page begin one."""
    browser, _ = entry.sign_in("anna")
    for client in (entry.client, browser):
        answer = client.post(
            "/sign-in/code", json={"code": "x", "state": "y"}, headers={"Origin": str(client.base_url).rstrip("/")}
        )
        assert (401, True) == (answer.status_code, "did not begin in this browser" in answer.json()["detail"])
    for headers in ({}, {"Origin": "https://elsewhere.example"}):
        assert 403 == entry.client.post("/sign-in", headers=headers).status_code


def test_tokens_of_a_provider_with_new_keys_count_and_old_ones_do_not(tmp_path: Path) -> None:
    """While it is away the known key lets in; what needs it is answered with 503 until it is back."""
    clock = [0.0]
    with provider_process(PEOPLE) as process:
        provider = provider_at(process.issuer, secret=SECRET, clock=lambda: clock[0])
        with (
            town(tmp_path, provider=provider) as made,
            serving(made.app) as url,
            httpx.Client(base_url=url, trust_env=False) as client,
        ):
            entry = _Entry(town=made, process=process, client=client)
            old = process.token("anna")
            assert 200 == entry.get("/v1/session", old).status_code
            process.stop()
            clock[0] += 601.0
            assert 200 == entry.get("/v1/session", old).status_code
            made.app.state.service = service_of(
                replace(made.tools, provider=provider_at(process.issuer, secret=SECRET, clock=lambda: clock[0]))
            )
            away = entry.get("/v1/session", old)
            assert (503, "/problems/provider-away") == (away.status_code, away.json()["type"])
            assert "Retry-After" in away.headers
            process.start()
            clock[0] += 11.0
            assert 200 == entry.get("/v1/session", process.token("anna")).status_code
            assert 401 == entry.get("/v1/session", old).status_code
            assert 200 == entry.get("/v1/session", made.keys["ann"]).status_code
