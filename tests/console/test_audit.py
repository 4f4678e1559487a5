"""The page of the audit: who did what, with filters, pages and the command that exports it."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Locator, Page, expect

from manager.store.tables import OperationRow
from tests.console.conftest import ConsoleService, PageFor

pytestmark = pytest.mark.chromium
LONG_AGO = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()


def entries(page: Page) -> Locator:
    """The rows of the audit, without their titles."""
    return page.get_by_role("region", name="Who did what, newest first").locator("tbody tr")


def noted(console_service: ConsoleService, *rows: Mapping[str, object]) -> None:
    """Write what somebody asked for into the journal; unless a row says otherwise, it is ann's person a-1 now."""
    usual = {"at": time.time(), "kind": "put secret", "who": "ann", "subject": "s", "seconds": 0.0}
    person = {"caller": "a-1", "caller_name": "anna", "address": "192.0.2.7"}
    with console_service.tools.store.write() as session:
        session.add_all(OperationRow.model_validate({**usual, **person, **row}) for row in rows)


def test_an_operator_reads_who_did_what_and_what_was_refused(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """Of all tenants, markup as text; a click on a caller shows what it did, and the address keeps that."""
    refused = {
        "kind": "refused",
        "subject": "/v1/tenants",
        "note": "POST: <img src=x>\u202egnp",
        "caller_name": "<b>bert</b>",
    }
    noted(console_service, {}, {"who": "bob", "caller": "b 'm", **refused})
    page = page_for(console_service.keys["operator"], "#/audit")
    shown = entries(page)
    expect(shown.filter(has_text="anna")).to_contain_text("192.0.2.7")
    row = shown.filter(has_text="/v1/tenants")
    expect(row).to_contain_text("POST: <img src=x>")
    expect(row.locator(".badge")).to_have_text("refused")
    row.get_by_role("link", name="<b>bert</b>").click()
    expect(shown).to_have_count(1)
    expect(shown).to_contain_text("bob")
    page.reload()
    expect(page.get_by_label("By")).to_have_value("b 'm")
    expect(page.get_by_role("region", name="Command that exports this")).to_have_text(
        "braid audit --lines --by 'b '\\''m'"
    )


def test_entries_are_filtered_by_time(console_service: ConsoleService, page_for: PageFor) -> None:
    """In the reader's time zone, and in UTC in the address and in the command; where nothing is, it says what to do."""
    noted(console_service, {"at": LONG_AGO, "subject": "noon"}, {"at": LONG_AGO + 3600, "subject": "later"})
    page = page_for(console_service.keys["ann"], "#/audit", timezone_id="Asia/Kolkata")
    page.get_by_label("From").fill("2026-03-01T17:30")
    page.get_by_label("Until").fill("2026-03-01T18:30")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(entries(page)).to_have_count(1)
    expect(entries(page)).to_contain_text("noon")
    expect(page.get_by_role("region", name="Command that exports this")).to_have_text(
        "braid audit --lines --from 2026-03-01T12:00:00.000Z --to 2026-03-01T13:00:00.000Z"
    )
    page.reload()
    expect(page.get_by_label("From")).to_have_value("2026-03-01T17:30")
    expect(entries(page)).to_have_count(1)
    page.get_by_label("By").fill("nobody")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Show everything").click()
    expect(entries(page).filter(has_text="later")).to_be_visible()
    expect(page.get_by_label("From")).to_have_value("")


def test_older_entries_are_shown_page_by_page(console_service: ConsoleService, page_for: PageFor) -> None:
    """To the end, each once, with the same filters, even if others are written meanwhile and not asked for."""
    noted(console_service, *({"caller": "many", "subject": f"s-{number}"} for number in range(70)))
    page = page_for(console_service.keys["ann"], "#/audit?by=many")
    expect(entries(page)).to_have_count(50)
    page.get_by_label("By").fill("nobody")
    page.get_by_role("button", name="Show older").click()
    expect(entries(page)).to_have_count(70)
    expect(page.get_by_role("button", name="Show older")).to_be_hidden()
    assert 70 == len(set(entries(page).all_inner_texts()))


def test_a_tenant_sees_its_own_alone(console_service: ConsoleService, page_for: PageFor) -> None:
    """Even if it asks for somebody else's person, and without a column for who."""
    noted(console_service, {"caller": "a-7", "subject": "anns-secret"}, {"who": "operator", "caller": "o-1"})
    page = page_for(console_service.keys["bob"], "#/audit")
    expect(entries(page).filter(has_text="sign in").first).to_be_visible()
    expect(page.get_by_text("anns-secret")).to_have_count(0)
    expect(page.get_by_role("columnheader", name="Who")).to_have_count(0)
    page.goto("/#/audit?by=a-7")
    expect(page.get_by_text("Nothing was done then by this caller.")).to_be_visible()
    own = page_for(console_service.keys["ann"], "#/audit?by=a-7")
    expect(entries(own)).to_contain_text("anns-secret")
