"""Sessions of the console: a cookie that stands for an API key, and what it is not taken for."""

import time
from collections.abc import Iterator
from http.cookies import Morsel, SimpleCookie

import httpx
import pytest
from sqlalchemy import text

from manager.answers.tenants import KeyForm
from manager.rest.dependencies import COOKIE, SESSION_LIFE
from tests.manager.rest.socket_server import serving
from tests.manager.rest.town import Town, town

CONSOLE = {"X-Braid-Console": "1"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Town, str]]:
    with town(tmp_path_factory.mktemp("town")) as made, serving(made.app) as url:
        yield made, url


@pytest.fixture
def browser(served: tuple[Town, str]) -> Iterator[httpx.Client]:
    """What keeps cookies."""
    with httpx.Client(base_url=served[1], trust_env=False) as client:
        yield client


def signed_in(browser: httpx.Client, key: str, **headers: str) -> Morsel[str]:
    """The cookie that was set."""
    answer = browser.post("/v1/session", json={"key": key}, headers=headers)
    assert 201 == answer.status_code, answer.text
    ((_, cookie),) = SimpleCookie(answer.headers["Set-Cookie"]).items()
    return cookie


def code(answer: httpx.Response) -> str:
    kind: str = answer.json()["type"]
    return kind.removeprefix("/problems/")


def test_a_key_is_traded_for_a_cookie_that_no_script_reads(served: tuple[Town, str], browser: httpx.Client) -> None:
    """It is not the key, is kept as a hash only, lasts for some hours, and no other site's page has it sent."""
    made, _ = served
    cookie = signed_in(browser, made.keys["ann"])
    assert (COOKIE, "/", "", True, "strict", str(SESSION_LIFE), "") == (
        *(cookie.key, cookie["path"], cookie["domain"], cookie["httponly"], cookie["samesite"], cookie["max-age"]),
        cookie["secure"],
    )
    assert len(cookie.value) >= 43
    assert cookie.value not in made.keys["ann"]
    with made.tools.store.read() as session:
        rows = session.execute(text("SELECT hash, key, until FROM console_session")).all()
    assert cookie.value not in repr(rows)
    assert made.keys["ann"].split("_")[1] in {row.key for row in rows}
    shown = browser.get("/v1/session").json()
    assert ("tenant", "ann") == (shown["kind"], shown["tenant"])
    assert {"ann"} == {each["tenant"] for each in browser.get("/v1/dataflows").json()["items"]}


def test_over_tls_the_cookie_is_sent_over_tls_alone(served: tuple[Town, str], browser: httpx.Client) -> None:
    """Its name makes browsers hold to that and to this host; a cookie of the other name is none there."""
    made, _ = served
    tls = {"X-Forwarded-Proto": "https"}
    cookie = signed_in(browser, made.keys["ann"], **tls)
    assert (f"__Host-{COOKIE}", True, "/") == (cookie.key, cookie["secure"], cookie["path"])
    for name, status in ((f"__Host-{COOKIE}", 200), (COOKIE, 401)):
        headers = {"Cookie": f"{name}={cookie.value}"}
        assert status == httpx.get(f"{served[1]}/v1/session", headers=tls | headers, trust_env=False).status_code


@pytest.mark.parametrize("key", ["", "x", "braid_00112233aabbccdd_" + "s" * 43])
def test_what_is_no_key_opens_no_session(browser: httpx.Client, key: str) -> None:
    """No cookie is set for it."""
    answer = browser.post("/v1/session", json={"key": key})
    assert answer.status_code in {401, 422}
    assert "Set-Cookie" not in answer.headers


def test_a_session_ends_with_its_key(served: tuple[Town, str], browser: httpx.Client) -> None:
    """At the next request after the key was revoked."""
    made, _ = served
    operator = made.service.administration.caller(made.keys["operator"])
    key = made.service.administration.make_key(operator, KeyForm(tenant="bob"))
    signed_in(browser, key.key)
    assert 200 == browser.get("/v1/keys").status_code
    made.service.administration.revoke_key(operator, key.id)
    assert "unauthenticated" == code(browser.get("/v1/keys"))


def test_a_session_ends_by_itself_and_is_forgotten(served: tuple[Town, str], browser: httpx.Client) -> None:
    """After its time it lets nobody in, and the next who signs in has its row deleted."""
    made, _ = served
    signed_in(browser, made.keys["bob"])
    until = browser.get("/v1/session").json()["until"]
    assert until is not None
    with made.tools.store.write() as session:
        session.execute(text("UPDATE console_session SET until = :past"), {"past": time.time() - 1})
    assert "unauthenticated" == code(browser.get("/v1/session"))
    signed_in(browser, made.keys["bob"])
    with made.tools.store.read() as session:
        assert 1 == session.scalar(text("SELECT count(*) FROM console_session"))


def test_signing_out_ends_the_session(served: tuple[Town, str], browser: httpx.Client) -> None:
    """In the service too: the token lets nobody in any more, and the browser forgets it."""
    made, url = served
    cookie = signed_in(browser, made.keys["ann"])
    answer = browser.delete("/v1/session", headers=CONSOLE)
    assert ({"ended": True}, 200) == (answer.json(), answer.status_code)
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    headers = {"Cookie": f"{COOKIE}={cookie.value}"}
    assert 401 == httpx.get(f"{url}/v1/session", headers=headers, trust_env=False).status_code
    with_key = {"Authorization": f"Bearer {made.keys['ann']}"}
    assert {"ended": False} == browser.delete("/v1/session", headers=with_key).json()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (CONSOLE, 201),
        (CONSOLE | {"Sec-Fetch-Site": "same-origin"}, 201),
        (CONSOLE | {"Sec-Fetch-Site": "same-origin", "Origin": "https://known-by-another-name.example"}, 201),
        (CONSOLE | {"Origin": "here"}, 201),
        ({}, 403),
        ({"X-Braid-Console": "0"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 403),
        (CONSOLE | {"Sec-Fetch-Site": "cross-site"}, 403),
        (CONSOLE | {"Sec-Fetch-Site": "same-site"}, 403),
        (CONSOLE | {"Sec-Fetch-Site": "none"}, 403),
        (CONSOLE | {"Origin": "http://elsewhere.example"}, 403),
        (CONSOLE | {"Origin": "null"}, 403),
        (CONSOLE | {"Origin": "http://[half"}, 403),
    ],
)
def test_a_change_by_cookie_is_taken_from_the_console_alone(
    served: tuple[Town, str], browser: httpx.Client, headers: dict[str, str], status: int
) -> None:
    """It has the console's header, and comes from this origin where the browser says from which; reading is free."""
    made, url = served
    signed_in(browser, made.keys["ann"])
    here = {name: url if value == "here" else value for name, value in headers.items()}
    answer = browser.post("/v1/keys", json={}, headers=here)
    assert status == answer.status_code
    assert status == 201 or code(answer) == "foreign-page"
    assert 200 == browser.get("/v1/keys", headers=here).status_code


def test_nobody_is_signed_in_by_another_sites_page(served: tuple[Town, str], browser: httpx.Client) -> None:
    """Or it would have somebody work in its own session."""
    answer = browser.post("/v1/session", json={"key": served[0].keys["ann"]}, headers={"Sec-Fetch-Site": "cross-site"})
    assert ("foreign-page", False) == (code(answer), "Set-Cookie" in answer.headers)


def test_a_key_counts_before_a_cookie(served: tuple[Town, str], browser: httpx.Client) -> None:
    """Who sends one is its holder, needs no header of the console, and a wrong one is not made good by a cookie."""
    made, _ = served
    signed_in(browser, made.keys["ann"])
    as_bob = {"Authorization": f"Bearer {made.keys['bob']}"}
    shown = browser.get("/v1/session", headers=as_bob).json()
    assert {"kind": "tenant", "tenant": "bob", "until": None} == shown
    assert "bob" == browser.post("/v1/keys", json={}, headers=as_bob).json()["tenant"]
    assert 401 == browser.get("/v1/session", headers={"Authorization": "Bearer wrong"}).status_code


def test_events_are_heard_by_cookie(served: tuple[Town, str], browser: httpx.Client) -> None:
    """The stream begins as it does for a key."""
    signed_in(browser, served[0].keys["ann"])
    with browser.stream("GET", "/v1/events") as stream:
        assert (200, ": listening") == (stream.status_code, next(stream.iter_lines()))
