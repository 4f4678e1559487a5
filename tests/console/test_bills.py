"""The pages of savings and bills, for operators and for tenants."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.conftest import ConsoleService, PageFor
from tests.console.contents import metered

pytestmark = [pytest.mark.full, pytest.mark.chromium]


@pytest.fixture(scope="module", autouse=True)
def _metered(console_service: ConsoleService) -> None:
    metered(console_service)


def card(page: Page, name: str) -> str:
    """The text of the card with a heading."""
    return page.locator(".card").filter(has=page.get_by_role("heading", name=name, exact=True)).inner_text()


def test_an_operator_sees_the_total(console_service: ConsoleService, page_for: PageFor) -> None:
    """Measured cores, the savings by sharing and packing, and each tenant; with prices."""
    page = page_for(console_service.keys["operator"], "#/savings")
    expect(page.get_by_role("heading", name="Savings", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Tenants")).to_contain_text("poor")
    assert re.search(r"\bcores\b.*\bEUR\b", card(page, "Measured"), re.DOTALL)
    assert re.search(r"0\.0966.*measured.*EUR", card(page, "Cores saved by sharing"), re.DOTALL)
    assert "estimate: " in card(page, "Cores saved by packing")
    assert "of the measured cores" in card(page, "Overhead")
    assert "40%" in card(page, "Work saved by sharing")
    expect(page.get_by_role("region", name="Dataflows")).to_have_count(0)
    page.get_by_label("Tenant", exact=True).select_option("ann")
    row = page.get_by_role("region", name="Dataflows").get_by_role("row", name=console_service.places["removed"])
    expect(row).to_have_count(1)
    # It shared no work.
    assert ["\u2013", "\u2013", "0.241"] == row.get_by_role("cell").all_inner_texts()[2:5]
    expect(page).to_have_url(re.compile(r"#/savings\?last=hour&tenant=ann$"))


def test_the_chart_compares_measured_cores_with_estimates(console_service: ConsoleService, page_for: PageFor) -> None:
    """Three lines, two with bounds; unmetered time is a gap, not zero; arrow keys read every point."""
    page = page_for(console_service.keys["operator"], "#/savings")
    chart = page.get_by_role("img", name="Cores over time")
    expect(chart).to_be_visible()
    expect(page.locator(".legend .chart-line")).to_have_count(3)
    expect(page.locator(".legend")).to_have_text(re.compile("measured.*packed.*with bounds.*job for each.*with bounds"))
    chart.focus()
    page.keyboard.press("Home")
    readout = page.locator(".chart-readout")
    expect(readout).to_contain_text("measured not metered")
    for _ in range(60):
        page.keyboard.press("ArrowRight")
        if "measured 1;" in readout.inner_text():
            break
    expect(readout).to_contain_text("packed without sharing 2 (1 to 4); a job for each dataflow 4 (2 to 8)")
    expect(chart.locator(".u-cursor-pt:not(.u-off)")).to_have_count(3)


def test_the_data_of_the_chart_is_in_a_table(console_service: ConsoleService, page_for: PageFor) -> None:
    """A row for each step, with bounds; an unmetered step has no values."""
    page = page_for(console_service.keys["operator"], "#/savings")
    page.get_by_text("Chart data").click()
    table = page.get_by_role("region", name="Cores in steps of 1 min")
    expect(table.get_by_role("columnheader")).to_have_text(
        ["From", "Metered", "measured", "packed without sharing", "a job for each dataflow"]
    )
    expect(table.get_by_role("row").nth(1).get_by_role("cell")).to_have_text(["0 s", *["\u2013"] * 3])
    # The last minute is the town's own.
    last = table.get_by_role("row").filter(has_text="2 (1").last
    expect(last.get_by_role("cell")).to_have_text(["1 min", "1", "2 (1\u20134)", "4 (2\u20138)"])


def test_a_tenant_sees_its_own(console_service: ConsoleService, page_for: PageFor) -> None:
    """Its share, the cores if run alone, and its dataflows; of others only their number."""
    page = page_for(console_service.keys["ann"], "#/savings?last=day")
    dataflows = page.get_by_role("region", name="Dataflows")
    expect(dataflows).to_contain_text(console_service.places["running"])
    expect(page.locator(".legend .chart-line")).to_have_count(2)
    expect(page.get_by_text("Tenants with a share: 2.")).to_be_visible()
    assert "Alone" in card(page, "Alone")
    for word in ("poor", console_service.places["poors"], "Overhead", "Measured"):
        expect(page.locator("main")).not_to_contain_text(word)


def test_a_custom_interval_may_be_refused(console_service: ConsoleService, page_for: PageFor) -> None:
    """The problem is shown at the top until the interval is right."""
    page = page_for(console_service.keys["ann"], "#/savings")
    page.get_by_label("Interval").select_option("own")
    page.get_by_label("From").fill("2026-01-02T03:00")
    page.get_by_label("To", exact=True).fill("2026-01-01T03:00")
    page.get_by_label("To", exact=True).blur()
    expect(page.get_by_role("alert").filter(has_text="/query/to")).to_be_visible()
    page.get_by_label("To", exact=True).fill("2026-01-03T03:00")
    page.get_by_label("To", exact=True).blur()
    expect(page.locator("main .problem")).to_have_count(0)
    expect(page.get_by_text("Nothing was metered in this interval.").first).to_be_visible()


def test_a_late_answer_does_not_hide_a_refusal(console_service: ConsoleService, page_for: PageFor) -> None:
    """The answer for an interval that is no longer chosen is ignored."""
    page = page_for(console_service.keys["ann"], "#/savings")
    expect(page.get_by_role("region", name="Dataflows")).to_be_visible()
    held: list[Route] = []

    def hold(route: Route) -> None:
        # The two of the first choice.
        if len(held) < 2:
            held.append(route)
        else:
            route.continue_()

    page.route("**/v1/reports/**", hold)
    with page.expect_request("**/v1/reports/savings/series*"):
        page.get_by_label("Interval").select_option("day")
    page.get_by_label("Interval").select_option("own")
    page.get_by_label("From").fill("2026-01-02T03:00")
    page.get_by_label("To", exact=True).fill("2026-01-01T03:00")
    page.get_by_label("To", exact=True).blur()
    refused = page.get_by_role("alert").filter(has_text="/query/to")
    expect(refused).to_be_visible()
    for each in held:
        with page.expect_response(each.request.url) as late:
            each.continue_()
        late.value.finished()
    # The page has a turn to take them up.
    page.evaluate("() => new Promise((done) => setTimeout(done))")
    expect(page.get_by_role("status")).to_have_text("")
    expect(refused).to_be_visible()


def test_a_broken_network_leaves_the_page_as_it_is(console_service: ConsoleService, page_for: PageFor) -> None:
    """The banner reports it, the data stays, and another choice works once the network is back."""
    page = page_for(console_service.keys["ann"], "#/savings")
    expect(page.get_by_role("region", name="Dataflows")).to_be_visible()

    def broken(route: Route) -> None:
        route.abort()

    page.route("**/v1/reports/**", broken)
    page.get_by_label("Interval").select_option("day")
    expect(page.locator("#trouble")).to_contain_text("cannot be reached")
    expect(page.get_by_role("region", name="Dataflows")).to_be_visible()
    page.unroute("**/v1/reports/**")
    page.get_by_label("Interval").select_option("week")
    expect(page.locator("#trouble")).to_be_hidden()


def test_it_fits_a_narrow_screen(console_service: ConsoleService, page_for: PageFor) -> None:
    """At 360 pixels only tables scroll sideways, and the chart fits the width."""
    for name in ("savings", "bills", "operations"):
        page = page_for(
            console_service.keys["operator"], f"#/{name}", viewport={"width": 360, "height": 740}, color_scheme="dark"
        )
        expect(page.get_by_role("region").first).to_be_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert (name, 360) == (name, width)


TODAY = datetime.now(UTC).date()
# Not by the month: what was metered half an hour ago may be of another one.
PAGE = f"#/bills?period=own&from={TODAY - timedelta(days=1)}&to={TODAY + timedelta(days=2)}"


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
