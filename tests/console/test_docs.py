"""The page of the API."""

import re

import pytest
from playwright.sync_api import expect

from tests.console.conftest import ConsoleService, PageFor

pytestmark = pytest.mark.chromium


def test_the_api_is_described_where_it_is_served(console_service: ConsoleService, page_for: PageFor) -> None:
    """The console leads to it; an operation shows its parameters and an example, and answers who is signed in."""
    page = page_for(console_service.keys["ann"], "#/access")
    page.get_by_role("link", name="the page of the API").click()
    page.get_by_role("link", name="dataflows", exact=True).click()
    operation = page.locator(".opblock", has_text=re.compile("List dataflows, oldest first"))
    operation.locator(".opblock-summary-control").click()
    expect(operation.get_by_text("A tenant sees only its own.")).to_be_visible()
    expect(operation.get_by_role("cell", name="Only those that read this source.")).to_be_visible()
    expect(operation.locator("pre", has_text="averages of plausible temperatures").first).to_be_visible()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table .response-col_status").last).to_have_text(re.compile("200"))
    expect(operation.locator(".live-responses-table")).to_contain_text(console_service.places["running"])
