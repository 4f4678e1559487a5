"""The page of savings: figures, chart and tables, for operators and for tenants."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.conftest import ConsoleService, PageFor
from tests.console.metered_town import metered

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
    expect(page.locator(".chart .chart-line")).to_have_count(3)
    expect(page.locator(".chart .chart-band")).to_have_count(2)
    measured = page.locator(".chart .chart-line.measured")
    assert 2 == (measured.get_attribute("d") or "").count("M")
    chart.focus()
    page.keyboard.press("Home")
    readout = page.locator(".chart-readout")
    expect(readout).to_contain_text("measured not metered")
    for _ in range(60):
        page.keyboard.press("ArrowRight")
        if "measured 1;" in readout.inner_text():
            break
    expect(readout).to_contain_text("packed without sharing 2 (1 to 4); a job for each dataflow 4 (2 to 8)")
    expect(page.locator(".chart .chart-point")).to_have_count(3)


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
    expect(page.locator(".chart .chart-line")).to_have_count(2)
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


def test_an_axis_ends_at_or_beyond_the_greatest_value(console_service: ConsoleService, page_for: PageFor) -> None:
    """In round steps from 0, even if all values are 0."""
    page = page_for(console_service.keys["ann"], "#/none")
    script = "all => import('/console/scripts/chart.js').then(chart => all.map(chart.ticks))"
    found = page.evaluate(script, [0, 4.1, 100, 0.003, 1e-9])
    assert [0, 0.2, 0.4, 0.6, 0.8, 1] == pytest.approx(found[0])
    assert ([0, 1, 2, 3, 4, 5], [0, 20, 40, 60, 80, 100]) == (found[1], found[2])
    assert [0, 0.001, 0.002, 0.003] == pytest.approx(found[3])
    assert 1e-9 <= found[4][-1] * (1 + 1e-9)
