"""All pages: keyboard, labels, narrow screens, hostile names."""

import json

import pytest
from playwright.sync_api import Page, expect

from manager.observations.reports import JobSeen
from manager.rest import examples
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.rest.fake_service import THEN

pytestmark = pytest.mark.chromium
HOSTILE = '<img src=x onerror="window.harmed = 1"><script>window.harmed = 1</script> \u202egnp.exe {{7*7}} \']\u200f'
HOSTILE_TASK = "<img src=x onerror=harmed=1>\u202e"
PAGES = ("", "dataflows", "submit", "modules", "graph", "jobs", "operations", "savings", "bills")
NAMELESS = """() => [...document.querySelectorAll("input, select, textarea, button, a[href], summary")].filter((each) =>
    !(each.labels?.length || each.getAttribute("aria-label") || each.getAttribute("aria-labelledby")
      || each.textContent.trim() || each.title)).map((each) => each.outerHTML)"""
WIDER = """() => [document.documentElement.scrollWidth, ...[...document.querySelectorAll("main *")]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(".table, pre, svg, canvas"))
    .slice(0, 3).map((each) => each.outerHTML.slice(0, 200))]"""


def shown(page: Page) -> None:
    """Wait until a page has its heading."""
    expect(page.locator("main h1")).to_be_visible()


def test_every_page_fits_a_narrow_screen_and_names_its_controls(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """At 360 pixels only tables and drawings scroll sideways; each control has a name for screen readers."""
    page = page_for(console_service.keys["operator"], viewport={"width": 360, "height": 740})
    every = [f"#/{name}" for name in PAGES]
    every += [f"#/dataflows/{console_service.places['running']}", f"#/jobs/{console_service.places['job']}", "#/none"]
    every += ["#/modules/everybodys/1"]
    for at in every:
        page.goto(f"/{at}")
        shown(page)
        page.wait_for_load_state("networkidle")
        assert [360] == page.evaluate(WIDER), at
        assert [] == page.evaluate(NAMELESS), at
        levels = page.evaluate('() => [...document.querySelectorAll("h1")].length')
        assert levels == 1, at


def test_the_keyboard_reaches_everything_in_order(console_service: ConsoleService, page_for: PageFor) -> None:
    """First the link past the navigation, then the navigation, then the page, each with a visible focus."""
    page = page_for(console_service.keys["ann"], "#/submit")
    shown(page)
    page.locator(".brand").focus()
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Document")).to_be_focused()
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    for label in ("From a file", "Start"):
        page.keyboard.press("Tab")
        expect(page.get_by_label(label)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Explain")).to_be_focused()
    page.evaluate("document.querySelector('.skip').focus()")
    order = []
    for _ in range(10):
        page.keyboard.press("Tab")
        order.append(page.evaluate("() => document.activeElement.textContent.trim()"))
    pages = ["Overview", "Dataflows", "Sources", "Submit", "Modules", "Operations", "Savings", "Bills"]
    assert ["Braid", *pages, "Sign out"] == order


def test_a_page_has_a_title_and_takes_the_focus(console_service: ConsoleService, page_for: PageFor) -> None:
    """The focus is at its beginning, where a screen reader continues."""
    page = page_for(console_service.keys["ann"])
    shown(page)
    page.get_by_role("link", name="Submit", exact=True).click()
    expect(page.locator("main")).to_be_focused()
    expect(page).to_have_title("Submit a dataflow · Braid")
    page.go_back()
    expect(page).to_have_title("Overview · Braid")
    for at, heading in (("#/nothing", "Page not found"), ("#/jobs", "This page is for operators")):
        page.goto(f"/{at}")
        expect(page.get_by_role("heading", name=heading)).to_be_visible()


def test_hostile_names_are_text(console_service: ConsoleService, page_for: PageFor) -> None:
    """Of dataflows, of tasks, and in the status of hosts: they are shown as they are."""
    service = console_service.service
    document = json.loads(json.dumps(examples.DOCUMENT).replace("plausible", "TASK")) | {"name": HOSTILE}
    raw = json.dumps(document).replace("TASK", json.dumps(HOSTILE_TASK)[1:-1])
    submitted = service.dataflows.submit(service.administration.caller(console_service.keys["ann"]), raw.encode())
    job = console_service.places["job"]
    seen = JobSeen(job=job, host="main", state="died", trouble=HOSTILE, seen=THEN)
    console_service.seen.jobs[job] = seen
    page = page_for(console_service.keys["operator"])
    every = ["#/", "#/dataflows", f"#/dataflows/{submitted.id}", "#/graph", "#/jobs", f"#/jobs/{job}", "#/operations"]
    for at in [*every, "#/savings", "#/bills", "#/%3Cimg%20src=x%20onerror=harmed=1%3E"]:
        page.goto(f"/{at}")
        shown(page)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("() => window.harmed") is None, at
        assert 0 == page.locator("main img, main script, main iframe").count(), at
    page.goto(f"/#/dataflows/{submitted.id}")
    expect(page.locator("main")).to_contain_text('<img src=x onerror="window.harmed = 1">')
    page.goto("/#/")
    expect(page.locator("main")).to_contain_text("<script>window.harmed = 1</script>")
    # What is written from right to left ends with the name.
    assert 0 < page.locator("main bdi").filter(has_text="gnp.exe").count()
    del console_service.seen.jobs[job]
