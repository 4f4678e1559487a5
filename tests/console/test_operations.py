"""The page of operations, with filters and pages."""

import time

import pytest
from playwright.sync_api import expect
from sqlmodel import Session

from braid_client.answers.overview import AUDIT_ONLY, OperationAnswer, OperationKind
from manager.store.tables import OperationRow
from tests.console.conftest import ConsoleService, PageFor

pytestmark = [pytest.mark.full, pytest.mark.chromium]


def noted(session: Session, **fields: object) -> OperationRow:
    """Write an operation of ann's into the journal."""
    given = {"at": time.time(), "kind": "submit", "who": "ann", "subject": "d-new", "seconds": 0.01, **fields}
    row = OperationRow.model_validate(given)
    session.add(row)
    session.flush()
    return row


def test_the_journal_is_shown_by_kind_and_subject(console_service: ConsoleService, page_for: PageFor) -> None:
    """Newest first; the address keeps the filters."""
    page = page_for(console_service.keys["operator"], "#/operations")
    journal = page.get_by_role("region", name="The journal, newest first")
    expect(journal).to_contain_text("admit tenant")
    page.get_by_label("Kind").select_option("drain")
    expect(journal).not_to_contain_text("admit tenant")
    expect(journal.get_by_role("row")).to_have_count(2)
    expect(journal.get_by_role("link", name=console_service.places["drained"])).to_be_visible()
    page.get_by_label("Kind").select_option("")
    page.get_by_label("Subject").fill(console_service.places["removed"])
    page.get_by_role("button", name="Show", exact=True).click()
    expect(journal.get_by_role("row")).to_have_count(3)
    page.reload()
    expect(page.get_by_label("Subject")).to_have_value(console_service.places["removed"])
    page.get_by_label("Subject").fill("nobody")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No matching operations.")).to_be_visible()


def test_new_operations_appear_and_open_details_stay_open(console_service: ConsoleService, page_for: PageFor) -> None:
    """A new operation appears on top; markup in it is text; open details stay open."""
    page = page_for(console_service.keys["operator"], "#/operations")
    journal = page.get_by_role("region", name="The journal, newest first")
    expect(page.get_by_text("New operations appear as they happen.")).to_be_visible()
    details = journal.locator("details").first
    details.locator("summary").click()
    expect(details.get_by_text("Duration")).to_be_visible()
    note = "<img src=x onerror=alert(1)> \u202egnp.exe"
    with console_service.tools.store.write() as session:
        row = noted(session, started=2, reused=1, note=note, jobs_started=["7"])
        answer = OperationAnswer.model_validate(row.model_dump() | {"at": "2026-01-02T03:04:05Z"})
    console_service.events.add_operation(answer)
    first = journal.get_by_role("row").nth(1)
    expect(first).to_contain_text("d-new")
    expect(first).to_contain_text("tasks: 2 started, 1 reused")
    expect(journal.locator("details[open]")).to_have_count(1)
    first.locator("summary").click()
    expect(first).to_contain_text(note)
    expect(first.locator("img")).to_have_count(0)


def test_older_operations_are_shown_page_by_page(console_service: ConsoleService, page_for: PageFor) -> None:
    """To the end, each once, with the same filters."""
    with console_service.tools.store.write() as session:
        for number in range(70):
            noted(session, kind="put secret", subject=f"s-{number}")
    page = page_for(console_service.keys["ann"], "#/operations?kind=put+secret")
    rows = page.get_by_role("region", name="The journal, newest first").get_by_role("row")
    expect(rows).to_have_count(51)
    page.get_by_role("button", name="Show older").click()
    expect(rows).to_have_count(71)
    expect(page.get_by_role("button", name="Show older")).to_be_hidden()
    assert 70 == len({rows.nth(each).inner_text() for each in range(1, 71)})


def test_a_tenant_sees_what_it_did(console_service: ConsoleService, page_for: PageFor) -> None:
    """Without the operations of others, and without a column for who."""
    page = page_for(console_service.keys["bob"], "#/operations")
    journal = page.get_by_role("region", name="The journal, newest first")
    expect(journal.get_by_role("row")).to_have_count(6)
    expect(journal.get_by_role("columnheader", name="Who")).to_have_count(0)


def test_all_kinds_can_be_chosen(console_service: ConsoleService, page_for: PageFor) -> None:
    """All kinds of the service that the journal shows, in its order."""
    page = page_for(console_service.keys["bob"], "#/operations")
    kinds = page.evaluate("() => import('/console/scripts/pages/operations.js').then(page => page.KINDS)")
    assert [kind for kind in OperationKind if kind not in AUDIT_ONLY] == kinds
