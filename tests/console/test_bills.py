"""The page of bills: by month and tenant, as CSV, for operators and for tenants."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import ConsoleService, PageFor
from tests.console.metered_town import metered

pytestmark = [pytest.mark.full, pytest.mark.chromium]
TODAY = datetime.now(UTC).date()
# Not by the month: what was metered half an hour ago may be of another one.
PAGE = f"#/bills?period=own&from={TODAY - timedelta(days=1)}&to={TODAY + timedelta(days=2)}"


@pytest.fixture(scope="module", autouse=True)
def _metered(console_service: ConsoleService) -> None:
    metered(console_service)


def cells(page: Page, name: str, row: str) -> list[str]:
    """The cells of the row with a text."""
    found = page.get_by_role("region", name=name).get_by_role("row").filter(has_text=row)
    return [each.strip() for each in found.first.locator("th, td").all_inner_texts()]


def test_an_operators_bill_adds_up_on_the_page(console_service: ConsoleService, page_for: PageFor) -> None:
    """Tenants and overhead add up to the measured total; removed dataflows are included; the bill is not final."""
    page = page_for(console_service.keys["operator"], PAGE)
    expect(page.get_by_role("region", name="Costs by tenant")).to_contain_text("Measured total")
    amounts = {
        name: Decimal(cells(page, "Costs by tenant", name)[3].removesuffix(" EUR"))
        for name in ("ann", "poor", "Overhead", "Measured total")
    }
    assert amounts.pop("Measured total") == sum(amounts.values()) > 0
    expect(page.get_by_role("region", name="Costs by dataflow")).to_contain_text(console_service.places["removed"])
    expect(page.get_by_text("The bill is not final")).to_be_visible()
    expect(page.get_by_text("A core hour costs 6.0 EUR.")).to_be_visible()


def test_a_bill_can_be_limited_to_one_tenant(console_service: ConsoleService, page_for: PageFor) -> None:
    """The other tenants are one row, so that it still adds up; the address keeps the choice."""
    page = page_for(console_service.keys["operator"], PAGE)
    page.get_by_label("Tenant", exact=True).select_option("poor")
    tenants = page.get_by_role("region", name="Costs by tenant")
    expect(tenants).to_contain_text("Other tenants")
    expect(tenants).not_to_contain_text("ann")
    expect(page).to_have_url(re.compile(r"#/bills\?period=own&from=[0-9-]+&to=[0-9-]+&tenant=poor$"))
    page.reload()
    expect(page.get_by_label("Tenant", exact=True)).to_have_value("poor")
    expect(tenants).to_contain_text("Other tenants")


def test_a_tenant_sees_its_own_bill(console_service: ConsoleService, page_for: PageFor) -> None:
    """Its dataflows and their total, without those of others and without the measured total."""
    page = page_for(console_service.keys["ann"], PAGE)
    dataflows = page.get_by_role("region", name="Costs by dataflow")
    expect(dataflows).to_contain_text("Total")
    paid = [
        Decimal(cells(page, "Costs by dataflow", row)[4].removesuffix(" EUR"))
        for row in (console_service.places["running"], console_service.places["removed"], "Total")
    ]
    assert paid[2] == paid[0] + paid[1]
    for word in ("poor", console_service.places["poors"], "Overhead", "Measured"):
        expect(page.locator("main")).not_to_contain_text(re.compile(rf"\b{word}\b"))


def test_a_bill_is_downloaded_as_csv(console_service: ConsoleService, page_for: PageFor, tmp_path: Path) -> None:
    """The same bill as on the page; the file is named by its hours."""
    page = page_for(console_service.keys["ann"], PAGE)
    amount = cells_when_there(page, console_service.places["running"])[4].removesuffix(" EUR")
    with page.expect_download() as waited:
        page.get_by_role("link", name="Download as CSV").click()
    assert re.fullmatch(r"braid-bill-[0-9T-]+\.csv", waited.value.suggested_filename)
    waited.value.save_as(tmp_path / "bill.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "bill.csv").read_text(encoding="utf-8"), newline="")))
    assert {"dataflow"} == {each["kind"] for each in rows}
    assert [amount] == [each["amount"] for each in rows if each["dataflow"] == console_service.places["running"]]


def cells_when_there(page: Page, row: str) -> list[str]:
    """The cells of a dataflow's row, once it exists."""
    expect(page.get_by_role("region", name="Costs by dataflow")).to_contain_text(row)
    return cells(page, "Costs by dataflow", row)


def test_a_custom_period(console_service: ConsoleService, page_for: PageFor) -> None:
    """An empty period is shown as such, and one that is too long is refused."""
    page = page_for(console_service.keys["ann"], "#/bills")
    expect(page.get_by_label("Period")).not_to_have_value("own")
    page.get_by_label("Period").select_option("own")
    expect(page.get_by_role("link", name="Download as CSV")).to_be_hidden()
    page.get_by_label("From").fill("2026-01-01")
    page.get_by_label("Until").fill("2026-01-02")
    page.get_by_label("Until").blur()
    expect(page.get_by_text("Nothing was metered in this period.")).to_be_visible()
    page.get_by_label("Until").fill("2026-06-01")
    page.get_by_label("Until").blur()
    expect(page.get_by_role("alert").filter(has_text="three months at most")).to_be_visible()


def test_months_are_those_of_the_calendar(console_service: ConsoleService, page_for: PageFor) -> None:
    """Newest first, across a new year; each lasts from its first day to that of the next."""
    page = page_for(console_service.keys["ann"], "#/none")
    months, bounds = page.evaluate(
        """() => import('/console/scripts/pages/bills.js').then(page => [
            page.lastMonths(new Date('2026-03-31T23:59:59Z')), page.boundsOf('2025-12')])"""
    )
    assert ["2026-03", "2026-02", "2026-01", "2025-12"] == months[:4]
    assert (12, ["2025-12-01", "2026-01-01"]) == (len(months), bounds)
