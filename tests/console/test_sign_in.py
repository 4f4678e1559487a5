"""Sign-in, sign-out, the end of a session, and an unreachable service."""

import json
import time
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import text

from manager.answers.tenants import KeyForm
from manager.rest import examples
from tests.console.conftest import ConsoleService, PageFor

pytestmark = pytest.mark.chromium
FOR_OPERATORS = ["Graph", "Jobs"]


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.parametrize("who", ["ann", "operator"])
def test_signing_in_opens_the_requested_page(console_service: ConsoleService, page_for: PageFor, who: str) -> None:
    """Only operators see the links to their pages, and the browser does not store the key."""
    page = page_for(None, "#/submit")
    sign_in(page, console_service.keys[who])
    expect(page.get_by_role("heading", name="Submit a dataflow")).to_be_visible()
    expect(page.locator("#who")).to_have_text(who)
    linked = page.get_by_role("navigation").get_by_role("link").all_inner_texts()
    assert (FOR_OPERATORS if who == "operator" else []) == [word for word in linked if word in FOR_OPERATORS]
    assert ("Submit", "Submit a dataflow · Braid") == (
        page.locator('nav [aria-current="page"]').inner_text(),
        page.title(),
    )
    kept = page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert [{}, {}, ""] == json.loads(kept)
    (cookie,) = page.context.cookies()
    assert (True, "Strict", False) == (cookie["httpOnly"], cookie["sameSite"], console_service.keys[who] in str(cookie))


def test_a_wrong_key_is_reported_and_can_be_corrected(console_service: ConsoleService, page_for: PageFor) -> None:
    """The reason is shown, and the field has the focus again."""
    page = page_for(None)
    sign_in(page, "braid_wrong")
    expect(page.get_by_role("alert").filter(has_text="No valid API key")).to_be_visible()
    expect(page.get_by_label("API key")).to_be_focused()
    sign_in(page, f"  {console_service.keys['ann']}\n")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


@pytest.mark.parametrize("why", ["expired", "revoked"])
def test_the_end_of_a_session_leads_to_signing_in_and_back(
    console_service: ConsoleService, page_for: PageFor, why: str
) -> None:
    """When it expires, or as soon as its key is revoked; signing in again leads back to the same page."""
    service = console_service.service
    operator = service.administration.caller(console_service.keys["operator"])
    key = service.administration.make_key(operator, KeyForm(tenant="ann"))
    # That page asks for nothing by itself, which would lead to signing in before the link is clicked.
    page = page_for(key.key, "#/submit")
    expect(page.get_by_label("Document")).to_be_visible()
    if why == "revoked":
        service.administration.revoke_key(operator, key.id)
    else:
        with console_service.tools.store.write() as session:
            session.execute(text("UPDATE console_session SET until = :past"), {"past": time.time() - 1})
    page.get_by_role("link", name="Dataflows", exact=True).click()
    expect(page.get_by_label("API key")).to_be_visible()
    expect(page.get_by_role("navigation")).to_be_hidden()
    sign_in(page, console_service.keys["ann"])
    expect(page.get_by_role("heading", name="Dataflows", level=1)).to_be_visible()


def test_signing_out_forgets_the_session(console_service: ConsoleService, page_for: PageFor) -> None:
    """In the browser and in the service; the data is gone, even after a reload."""
    page = page_for(console_service.keys["ann"], "#/submit")
    expect(page.get_by_label("Document")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert [] == page.context.cookies()
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_broken_network_is_reported_and_the_page_recovers(console_service: ConsoleService, page_for: PageFor) -> None:
    """A banner reports it, the data stays, and is updated once the service is back."""
    page = page_for(console_service.keys["ann"])
    page.clock.install()
    page.reload()
    banner, card = page.locator("#trouble"), page.locator(".card").filter(has_text="Dataflows")
    expect(card).to_be_visible()
    expect(banner).to_be_hidden()
    page.route("**/v1/**", lambda route: route.abort())
    page.clock.run_for(6_000)
    expect(banner).to_contain_text("The service cannot be reached")
    expect(card).to_be_visible()
    page.unroute_all(behavior="wait")
    before = card.inner_text()
    service = console_service.service
    ann = service.administration.caller(console_service.keys["ann"])
    service.dataflows.submit(ann, _document(name="after the outage"))
    page.clock.run_for(6_000)
    expect(banner).to_be_hidden()
    expect(card).not_to_have_text(before)


def test_a_service_that_is_not_ready_is_reported(console_service: ConsoleService, page_for: PageFor) -> None:
    """While no manager leads, the banner shows the service's message; the page appears once one does."""
    committer = console_service.tools.committer
    committer.step_down()
    page = page_for(console_service.keys["ann"])
    page.clock.install()
    page.reload()
    expect(page.locator("#trouble")).to_contain_text("Not ready yet")
    committer.lead(1)
    page.clock.run_for(6_000)
    expect(page.locator(".card").filter(has_text="Dataflows")).to_be_visible()
    expect(page.locator("#trouble")).to_be_hidden()


def _document(**changes: Any) -> bytes:
    return json.dumps(examples.DOCUMENT | changes).encode()
