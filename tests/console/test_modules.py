"""The pages of modules: the list with its filters, and one version."""

import json

import pytest
from playwright.sync_api import expect

from dags.vocabulary import ModuleShape
from manager.rest.examples import MODULE_FORM
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.managers import OPERATOR, caller

pytestmark = [pytest.mark.full, pytest.mark.chromium]

ANN = caller("ann")
HOSTILE = "<img src=x onerror=alert(1)> \u202eeno"
PART = 50


@pytest.fixture(scope="module", autouse=True)
def many(console_service: ConsoleService) -> None:
    """Another version of ann's, deprecated and hostile, and more of an operator's than are shown at once."""
    modules = console_service.service.modules
    modules.publish(ANN, json.dumps(MODULE_FORM | {"version": 2, "summary": HOSTILE, "tags": [HOSTILE]}).encode())
    modules.deprecate(ANN, "plausible", 2)
    for version in range(1, PART + 1):
        form = {"name": "many", "version": version, "shape": "join", "installed": {"type": "range_filter"}}
        modules.publish(OPERATOR, json.dumps(form).encode())


def test_modules_are_listed_by_filters(console_service: ConsoleService, page_for: PageFor) -> None:
    """A tenant sees its own and operators'; the address keeps the filters on the way back from one."""
    page = page_for(console_service.keys["ann"], "#/modules")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(PART)
    expect(page.get_by_role("link", name="script@1")).to_have_count(0)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(PART + 3)
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    page.get_by_label("Shape").select_option("filter")
    page.get_by_label("State").select_option("false")
    page.get_by_label("Tag").fill("cleaning")
    page.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(2)
    page.get_by_label("Name").fill("plausible")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="plausible@1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("plausible@1")
    page.go_back()
    expect(page.get_by_label("Name")).to_have_value("plausible")
    expect(rows).to_have_count(1)
    page.get_by_label("Name").fill("nothing")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No matching modules.")).to_be_visible()


def test_a_version_is_shown_with_its_form_and_the_others(console_service: ConsoleService, page_for: PageFor) -> None:
    """Markup in it is text."""
    page = page_for(console_service.keys["ann"], "#/modules/plausible/2")
    expect(page.get_by_label("The form")).to_contain_text('"type": "range_filter"')
    expect(page.get_by_text("deprecated since")).to_be_visible()
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    expect(page.locator("main img")).to_have_count(0)
    expect(page.get_by_label("The source")).to_have_count(0)
    versions = page.get_by_role("region", name="All versions, oldest first")
    expect(versions.get_by_role("link")).to_have_text(["plausible@1", "plausible@2"])
    versions.get_by_role("link", name="plausible@1").click()
    expect(page.get_by_text("current").first).to_be_visible()


def test_an_operator_sees_the_code_of_a_tenant(console_service: ConsoleService, page_for: PageFor) -> None:
    """With its lines, and with whether somebody answers for it; another tenant does not see it."""
    page = page_for(console_service.keys["operator"], "#/modules?name=script")
    page.get_by_role("link", name="script@1").click()
    expect(page.get_by_label("The source")).to_contain_text("def process(event):\n    return event")
    expect(page.get_by_text("no operator answers for its code")).to_be_visible()
    page = page_for(console_service.keys["ann"], "#/modules/script/1")
    expect(page.get_by_role("alert").filter(has_text="there is no module 'script@1'")).to_be_visible()


def test_every_shape_can_be_chosen(console_service: ConsoleService, page_for: PageFor) -> None:
    """The filter has those of REST."""
    page = page_for(console_service.keys["operator"], "#/modules")
    shapes = page.evaluate("() => import('/console/scripts/pages/modules.js').then(page => page.SHAPES)")
    assert [*ModuleShape] == shapes
