"""Requests: their sessions, ids, rates and turns, and what the server listens with."""

import asyncio
import json
import logging
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from braid_client.answers.tenants import KeyForm
from dags import Catalogue, Config, TaskType
from engine.log_lines import _Lines
from manager.kernel.live_events import LiveEvents
from manager.problem import TooManyRequests
from manager.rest import examples
from manager.rest.app import listening, make_app
from manager.rest.dependencies import (
    COOKIE,
    MOST_ALLOWANCES,
    MOST_WAITING_DOCUMENTS,
    RATE_SECONDS,
    SESSION_LIFE,
    WRONG_KEYS_PER_MINUTE,
    DocumentTurns,
    RequestRates,
)
from manager.store.dead_letters import Letter, keep
from tests.catalogue import TYPES
from tests.manager.managers import OPERATOR, Manager, leading, raw
from tests.manager.rest.conftest import Asking
from tests.manager.rest.real_service import in_folder
from tests.manager.rest.socket_server import Switch, serving
from tests.manager.rest.town import Town, town


@pytest.mark.parametrize("given", ["4f9a", "a.B_c-9", "x" * 64])
def test_an_id_that_was_sent_comes_back(ann: httpx.Client, given: str) -> None:
    """So a caller's log and the service's fit together."""
    assert given == ann.get("/v1/keys", headers={"X-Request-Id": given}).headers["X-Request-Id"]


@pytest.mark.parametrize("given", ["", "x" * 65, "two words", "a;b", "\u00e9"])
def test_what_is_no_id_is_replaced(ann: httpx.Client, given: str) -> None:
    """It would come back in a header and stand in the log, so it cannot be just anything."""
    answer = ann.get("/v1/keys", headers={b"X-Request-Id": given.encode()})
    assert (200, 16) == (answer.status_code, len(answer.headers["X-Request-Id"]))


def test_a_change_is_logged_with_its_request_and_its_dataflow(
    ann: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """By fields, and by the form of its path; what only looks is logged for those who want all."""
    kept = _KeptLines()
    logging.getLogger("manager.rest.problems").addHandler(kept)
    try:
        with caplog.at_level(logging.INFO):
            answer = ann.post("/v1/dataflows", json=examples.DOCUMENT, headers={"X-Request-Id": "mine"})
            made = answer.raise_for_status().json()["id"]
            ann.get(f"/v1/dataflows/{made}")
            ann.delete(f"/v1/dataflows/{made}%0ahostile")
            ann.delete(f"/v1/dataflows/{made}")
    finally:
        logging.getLogger("manager.rest.problems").removeHandler(kept)
    lines = [{name: line.get(name) for name in ("method", "route", "status", "dataflow")} for line in kept.lines]
    route = "/v1/dataflows/{id}"
    assert [
        {"method": "POST", "route": "/v1/dataflows", "status": 201, "dataflow": made},
        {"method": "DELETE", "route": route, "status": 422, "dataflow": None},
        {"method": "DELETE", "route": route, "status": 200, "dataflow": made},
    ] == lines
    assert "mine" == kept.lines[0]["request"]


class _KeptLines(logging.Handler):
    """Keeps lines as programs read them."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Lines())
        self.lines: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(per_minute=st.integers(1, 20), waits=st.lists(st.floats(0.0, 30.0), max_size=60))
def test_no_tenant_asks_more_often_than_it_may(per_minute: int, waits: list[float]) -> None:
    """However requests come, those that are taken are no more than a minute's worth and what refilled meanwhile."""
    clock = _Clock()
    rates = RequestRates(clock)
    taken = 0
    for wait in waits:
        clock.now += wait
        taken += _takes(rates, "ann", per_minute)
        assert taken <= per_minute * (1.0 + clock.now / RATE_SECONDS) + 1e-6


def test_a_refusal_says_when_to_come_back() -> None:
    """After the seconds that it names a request is taken, and not before."""
    clock = _Clock()
    rates = RequestRates(clock)
    assert all(_takes(rates, "ann", 6) for _ in range(6))
    with pytest.raises(TooManyRequests) as refused:
        rates.take("ann", 6)
    assert refused.value.retry_after == pytest.approx(10.0)
    clock.now += 9.9
    assert not _takes(rates, "ann", 6)
    clock.now += 0.2
    assert _takes(rates, "ann", 6)


def test_one_tenant_takes_nothing_from_another() -> None:
    """A tenant that has used up its allowance leaves those of others as they were."""
    rates = RequestRates(_Clock())
    assert [True] * 3 + [False] == [_takes(rates, "ann", 3) for _ in range(4)]
    assert _takes(rates, "bob", 3)


def test_wrong_keys_are_counted_by_address() -> None:
    """An address may send so many wrong keys a minute, and another one as many."""
    rates = RequestRates(_Clock())
    for _ in range(WRONG_KEYS_PER_MINUTE):
        rates.count_wrong_key("10.0.0.1")
    with pytest.raises(TooManyRequests, match=r"10\.0\.0\.1"):
        rates.count_wrong_key("10.0.0.1")
    rates.count_wrong_key("10.0.0.2")


def test_a_right_key_is_taken_where_too_many_wrong_ones_come_from(ask: Asking, app: FastAPI, ann: httpx.Client) -> None:
    """Wrong keys from an address lock out nobody behind it; they themselves are answered with 429."""
    app.state.rates = RequestRates(_Clock())
    wrong = ask("wrong")
    statuses = [wrong.get("/v1/keys").status_code for _ in range(WRONG_KEYS_PER_MINUTE + 1)]
    assert [401] * WRONG_KEYS_PER_MINUTE + [429] == statuses
    assert 200 == ann.get("/v1/keys").status_code


def test_addresses_without_end_take_no_memory_without_end() -> None:
    """What is remembered is bounded, and who asked last is remembered."""
    rates = RequestRates(_Clock())
    for number in range(2 * MOST_ALLOWANCES):
        rates.count_wrong_key(str(number))
    assert MOST_ALLOWANCES == len(rates._left)
    assert [True] * 3 + [False] == [_takes(rates, "ann", 3) for _ in range(4)]


def _takes(rates: RequestRates, tenant: str, per_minute: int) -> bool:
    try:
        rates.take(tenant, per_minute)
    except TooManyRequests:
        return False
    return True


PATIENCE = 20.0


class LongConfig(Config):
    """Which of the documents it is."""

    number: int


class Reading:
    """What becomes of documents with a task of the type `long`: which were begun, and which may end."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[int] = SimpleQueue()
        self.ends: SimpleQueue[None] = SimpleQueue()

    def read(self, config: LongConfig) -> tuple[()]:
        """The fields that the task reads: none, once the test says so."""
        self.begun.put(config.number)
        self.ends.get(timeout=PATIENCE)
        return ()


@pytest.fixture
def reading() -> Reading:
    return Reading()


@pytest.fixture
def manager(tmp_path: Path, reading: Reading) -> Iterator[Manager]:
    long = TaskType(name="long", config=LongConfig, reads=reading.read)
    catalogue = Catalogue.of((*TYPES, long))
    yield from leading(in_folder(tmp_path), tenants=("ann", "eve"), sources=("weather",), catalogue=catalogue)


def test_many_large_documents_of_a_tenant_take_nobody_elses_turn(
    manager: Manager, reading: Reading, served: tuple[Switch, str]
) -> None:
    """One of them is worked on at a time, and others' are answered meanwhile."""
    switch, url = served
    switch.app = make_app(manager.service, LiveEvents(last=0), lambda: None)
    keys = {
        name: manager.service.administration.make_key(OPERATOR, KeyForm(tenant=name)).key for name in ("ann", "eve")
    }

    def send(tenant: str, path: str, text: str) -> int:
        headers = {"Authorization": f"Bearer {keys[tenant]}", "Content-Type": "application/json"}
        return httpx.post(
            f"{url}/v1/{path}", content=raw(text), headers=headers, timeout=PATIENCE, trust_env=False
        ).status_code

    with ThreadPoolExecutor(6) as clients:
        asked = [
            clients.submit(send, "eve", "explain", f"s:source > a:long{{'number': {number}}} > k:sink")
            for number in range(6)
        ]
        for _ in range(6):
            reading.begun.get(timeout=PATIENCE)
            # The others of hers would have begun by the time that somebody else's is answered.
            assert 201 == send("ann", "dataflows", "s:source > a:map > k:sink")
            assert 0 == reading.begun.qsize()
            reading.ends.put(None)
        assert [200] * 6 == [each.result(PATIENCE) for each in asked]


def test_documents_of_a_tenant_have_their_turns_as_they_came() -> None:
    """And another tenant's has its own at once."""
    order: list[str] = []

    async def work(turns: DocumentTurns, owner: str, name: str) -> None:
        async with turns.turn(owner):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    async def all_at_once() -> None:
        turns = DocumentTurns()
        await asyncio.gather(work(turns, "eve", "1"), work(turns, "eve", "2"), work(turns, "ann", "a"))

    asyncio.run(all_at_once())
    assert ["1 begins", "a begins", "1 ends", "a ends", "2 begins", "2 ends"] == order


def test_only_so_many_documents_of_a_tenant_wait() -> None:
    """One more is refused until one has had its turn; another tenant's is not."""

    async def crowd() -> None:
        turns = DocumentTurns()
        ends = asyncio.Event()

        async def work() -> None:
            async with turns.turn("eve"):
                await ends.wait()

        waiting = [asyncio.create_task(work()) for _ in range(1 + MOST_WAITING_DOCUMENTS)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests, match="32 documents of 'eve' wait already; send the next once"):
            await work()
        async with turns.turn("ann"):
            ends.set()
        await asyncio.gather(*waiting)
        await work()

    asyncio.run(crowd())


def test_rest_sends_at_once() -> None:
    """No part of an answer waits until the client has acknowledged the part before it."""
    with listening("127.0.0.1", 0) as found, socket.create_connection(found.getsockname()):
        accepted, _ = found.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


CONSOLE = {"X-Braid-Console": "1"}


@pytest.fixture(scope="module")
def served_town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Town, str]]:
    with town(tmp_path_factory.mktemp("town")) as made, serving(made.app) as url:
        yield made, url


@pytest.fixture
def browser(served_town: tuple[Town, str]) -> Iterator[httpx.Client]:
    """What keeps cookies."""
    with httpx.Client(base_url=served_town[1], trust_env=False) as client:
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


def test_a_key_is_traded_for_a_cookie_that_no_script_reads(
    served_town: tuple[Town, str], browser: httpx.Client
) -> None:
    """It is not the key, is kept as a hash only, lasts for some hours, and no other site's page has it sent."""
    made, _ = served_town
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


def test_over_tls_the_cookie_is_sent_over_tls_alone(served_town: tuple[Town, str], browser: httpx.Client) -> None:
    """Its name makes browsers hold to that and to this host; a cookie of the other name is none there."""
    made, _ = served_town
    tls = {"X-Forwarded-Proto": "https"}
    cookie = signed_in(browser, made.keys["ann"], **tls)
    assert (f"__Host-{COOKIE}", True, "/") == (cookie.key, cookie["secure"], cookie["path"])
    for name, status in ((f"__Host-{COOKIE}", 200), (COOKIE, 401)):
        headers = {"Cookie": f"{name}={cookie.value}"}
        assert status == httpx.get(f"{served_town[1]}/v1/session", headers=tls | headers, trust_env=False).status_code


def test_a_link_opens_one_session_of_its_tenant(served_town: tuple[Town, str], browser: httpx.Client) -> None:
    """It is kept as a hash only; it is no cookie, is used up by the first who follows it, and ends with its minute.

    What is over is kept no longer than until the next one is made.
    """
    made, url = served_town

    def link(who: str) -> str:
        answer = httpx.post(
            f"{url}/v1/session/link", headers={"Authorization": f"Bearer {made.keys[who]}"}, trust_env=False
        )
        return str(answer.json()["path"]).removeprefix("/#link=")

    token = link("ann")
    for cookie in (token, f"link:{token}"):
        headers = {"Cookie": f"{COOKIE}={cookie}"}
        assert 401 == httpx.get(f"{url}/v1/session", headers=headers, trust_env=False).status_code
    answer = browser.post("/v1/session", json={"link": token})
    assert (201, "ann", True) == (answer.status_code, answer.json()["tenant"], COOKIE in browser.cookies)
    assert "ann" == browser.get("/v1/session").json()["tenant"]
    with made.tools.store.read() as session:
        assert token not in repr(session.execute(text("SELECT * FROM console_session")).all())
    assert "unauthenticated" == code(browser.post("/v1/session", json={"link": token}))
    late = link("bob")
    with made.tools.store.write() as session:
        session.execute(text("UPDATE console_session SET until = :past"), {"past": time.time() - 1})
    assert "unauthenticated" == code(browser.post("/v1/session", json={"link": late}))
    assert "invalid-request" == code(browser.post("/v1/session", json={"link": late, "key": made.keys["ann"]}))
    link("bob")
    with made.tools.store.read() as session:
        assert 1 == session.execute(text("SELECT count(*) FROM console_session")).scalar()


@pytest.mark.parametrize("key", ["", "x", "braid_00112233aabbccdd_" + "s" * 43])
def test_what_is_no_key_opens_no_session(browser: httpx.Client, key: str) -> None:
    """No cookie is set for it."""
    answer = browser.post("/v1/session", json={"key": key})
    assert answer.status_code in {401, 422}
    assert "Set-Cookie" not in answer.headers


def test_a_session_ends_with_its_key(served_town: tuple[Town, str], browser: httpx.Client) -> None:
    """At the next request after the key was revoked."""
    made, _ = served_town
    operator = made.service.administration.caller(made.keys["operator"])
    key = made.service.administration.make_key(operator, KeyForm(tenant="bob"))
    signed_in(browser, key.key)
    assert 200 == browser.get("/v1/keys").status_code
    made.service.administration.revoke_key(operator, key.id)
    assert "unauthenticated" == code(browser.get("/v1/keys"))


def test_a_session_ends_by_itself_and_is_forgotten(served_town: tuple[Town, str], browser: httpx.Client) -> None:
    """After its time it lets nobody in, and the next who signs in has its row deleted."""
    made, _ = served_town
    signed_in(browser, made.keys["bob"])
    until = browser.get("/v1/session").json()["until"]
    assert until is not None
    with made.tools.store.write() as session:
        session.execute(text("UPDATE console_session SET until = :past"), {"past": time.time() - 1})
    assert "unauthenticated" == code(browser.get("/v1/session"))
    signed_in(browser, made.keys["bob"])
    with made.tools.store.read() as session:
        assert 1 == session.scalar(text("SELECT count(*) FROM console_session"))


def test_a_dataflows_name_stands_for_its_id_in_paths_and_queries(served_town: tuple[Town, str]) -> None:
    """In answers on one dataflow, and where the dead letters of one are replayed or discarded."""
    town, url = served_town
    dataflow = town.places["poors"]
    poor = town.service.administration.caller(town.keys["poor"])
    detail = town.service.dataflows.get(poor, dataflow)
    letter = Letter(instance=detail.tasks[1].instance, port="in", batch=0, reason="no number", events=[{"t": 1}])
    with town.tools.store.write() as session:
        keep(session, [letter], {letter.instance: {"poor": [dataflow]}}, at=0.0)
    authorization = {"Authorization": f"Bearer {town.keys['poor']}"}
    with httpx.Client(base_url=url, headers=authorization, trust_env=False) as client:
        for path in (
            *("dataflows/{}", "dataflows/{}/tasks", "dataflows/{}/removal", "dataflows/{}/reconfigurations"),
            *("dataflows/{}/series?since=2026-01-01T00:00:00Z", "reports/savings?dataflow={}"),
            *("dead-letters?dataflow={}", "dead-letters/groups?dataflow={}"),
        ):
            by_id, by_name, unknown = (
                client.get(f"/v1/{path.format(quote(named))}") for named in (dataflow, detail.name, "nothing")
            )
            assert (200, by_id.json()) == (by_name.status_code, by_name.json()), path
            assert by_id.json() != unknown.json(), path
        replayed, replayed_by_name, refused = (
            client.post("/v1/dead-letters/replay", params={"dataflow": named}).status_code
            for named in (dataflow, detail.name, "nothing")
        )
        assert replayed == replayed_by_name != refused
        assert 1 == client.delete("/v1/dead-letters", params={"dataflow": detail.name}).json()["dead_letters"]


def test_signing_out_ends_the_session(served_town: tuple[Town, str], browser: httpx.Client) -> None:
    """In the service too: the token lets nobody in any more, and the browser forgets it."""
    made, url = served_town
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
    served_town: tuple[Town, str], browser: httpx.Client, headers: dict[str, str], status: int
) -> None:
    """It has the console's header, and comes from this origin where the browser says from which; reading is free."""
    made, url = served_town
    signed_in(browser, made.keys["ann"])
    here = {name: url if value == "here" else value for name, value in headers.items()}
    answer = browser.post("/v1/keys", json={}, headers=here)
    assert status == answer.status_code
    assert status == 201 or code(answer) == "foreign-page"
    assert 200 == browser.get("/v1/keys", headers=here).status_code


def test_nobody_is_signed_in_by_another_sites_page(served_town: tuple[Town, str], browser: httpx.Client) -> None:
    """Or it would have somebody work in its own session."""
    answer = browser.post(
        "/v1/session", json={"key": served_town[0].keys["ann"]}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert ("foreign-page", False) == (code(answer), "Set-Cookie" in answer.headers)


def test_a_key_counts_before_a_cookie(served_town: tuple[Town, str], browser: httpx.Client) -> None:
    """Who sends one is its holder, needs no header of the console, and a wrong one is not made good by a cookie."""
    made, _ = served_town
    signed_in(browser, made.keys["ann"])
    as_bob = {"Authorization": f"Bearer {made.keys['bob']}"}
    shown = browser.get("/v1/session", headers=as_bob).json()
    assert {"kind": "tenant", "tenant": "bob", "until": None, "name": ""} == shown
    assert "bob" == browser.post("/v1/keys", json={}, headers=as_bob).json()["tenant"]
    assert 401 == browser.get("/v1/session", headers={"Authorization": "Bearer wrong"}).status_code


def test_events_are_heard_by_cookie(served_town: tuple[Town, str], browser: httpx.Client) -> None:
    """The stream begins as it does for a key."""
    signed_in(browser, served_town[0].keys["ann"])
    with browser.stream("GET", "/v1/events") as stream:
        assert (200, ": listening") == (stream.status_code, next(stream.iter_lines()))


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ('{"dataflows": 7.0, "tasks": 11103022.0}', (201, {"dataflows": 7, "tasks": 11103022})),
        ('{"dataflows": 7.0, "tasks": 7.5}', (422, ["/quota/tasks"])),
        ('{"dataflows": 7.0, "tasks": "7"}', (422, ["/quota/tasks"])),
        ('{"dataflows": 1e300}', (422, ["/quota/dataflows"])),
    ],
)
def test_a_whole_number_may_be_written_with_a_point(
    operator: httpx.Client, quota: str, expected: tuple[int, object]
) -> None:
    """It is an integer by JSON Schema. What is none is refused at its place."""
    body = f'{{"name": "eve", "quota": {quota}}}'
    answer = operator.post("/v1/tenants", content=body, headers={"Content-Type": "application/json"})
    read = answer.json()
    if answer.is_success:
        assert expected == (answer.status_code, {name: read["quota"][name] for name in ("dataflows", "tasks")})
    else:
        assert expected == (answer.status_code, [error["pointer"] for error in read["errors"]])
