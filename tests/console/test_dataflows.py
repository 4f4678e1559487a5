"""The list of dataflows: search, filters, pages."""

import json
import re

import pytest
from playwright.sync_api import expect

from braid_client.answers.tenants import Role
from manager.rest import examples
from manager.use_case import Caller
from tests.console.conftest import ConsoleService, PageFor

pytestmark = [pytest.mark.full, pytest.mark.chromium]

HOSTILE = "<img src=x onerror=alert(1)> \u202eeno"
PART = 50


@pytest.fixture(scope="module", autouse=True)
def many(console_service: ConsoleService) -> None:
    """More dataflows of bob's than fit on a page of the list, one of them with a hostile name."""
    bob = Caller(key="k", role=Role.TENANT, tenant="bob")
    for name in (HOSTILE, *(f"temperatures {number}" for number in range(PART))):
        console_service.service.dataflows.submit(bob, json.dumps(examples.DOCUMENT | {"name": name}).encode())


def test_a_tenant_sees_its_own_dataflows_and_an_operator_all_with_their_tenants(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """Removed ones are listed on request; the address keeps the filters."""
    page = page_for(console_service.keys["ann"], "#/dataflows")
    running = page.get_by_role("row", name=re.compile(console_service.places["running"]))
    expect(running.get_by_text("deploying", exact=True)).to_be_visible()
    expect(page.get_by_role("columnheader", name="Tenant")).to_have_count(0)
    expect(page.get_by_text(console_service.places["removed"])).to_have_count(0)
    page.get_by_label("State").select_option("removed")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text(console_service.places["removed"])).to_be_visible()
    expect(running).to_have_count(0)
    page.get_by_role("rowheader").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("averages of plausible temperatures")
    page.go_back()
    expect(page.get_by_label("State")).to_have_value("removed")
    expect(page.get_by_text(console_service.places["removed"])).to_be_visible()
    page = page_for(console_service.keys["operator"], "#/dataflows?tenant=poor")
    expect(page.get_by_role("row", name=re.compile(console_service.places["poors"]))).to_contain_text("poor")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_the_list_has_pages(console_service: ConsoleService, page_for: PageFor) -> None:
    """Forward and back; the first has no previous page and the last no next one."""
    page = page_for(console_service.keys["bob"], "#/dataflows")
    expect(page.locator("tbody tr")).to_have_count(PART)
    expect(page.get_by_role("button", name="Previous")).to_have_count(0)
    page.get_by_role("button", name="Next").click()
    expect(page.locator("tbody tr")).to_have_count(4)
    expect(page.get_by_role("button", name="Next")).to_have_count(0)
    page.get_by_role("button", name="Previous").click()
    expect(page.locator("tbody tr")).to_have_count(PART)


def test_a_part_of_a_name_is_found(console_service: ConsoleService, page_for: PageFor) -> None:
    """In upper or lower case, without wildcards; an empty result is shown as such."""
    page = page_for(console_service.keys["bob"], "#/dataflows")
    search = page.get_by_label("Name or id")
    search.fill("TURES 1")
    search.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(11)
    search.fill("%")
    search.press("Enter")
    expect(page.get_by_text("No matching dataflows.")).to_be_visible()


def test_a_hostile_name_is_text(console_service: ConsoleService, page_for: PageFor) -> None:
    """Markup in a name is shown as it is, in the list and on the dataflow's page."""
    page = page_for(console_service.keys["bob"], "#/dataflows?search=onerror")
    page.get_by_role("link", name=re.compile("onerror")).click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text(HOSTILE)
    assert 1 == heading.locator("bdi").count()
    assert 0 == page.locator("main img").count()


@pytest.mark.parametrize("who", ["bob", "operator"])
def test_it_fits_a_small_screen(console_service: ConsoleService, page_for: PageFor, who: str) -> None:
    """At 360 pixels only the table scrolls sideways."""
    page = page_for(console_service.keys[who], "#/dataflows", viewport={"width": 360, "height": 640})
    expect(page.locator("tbody tr").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
