"""All pages: sign-in and sign-out, keyboard, labels, hostile names; and the overview."""

import json
import re
import time
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import text

from braid_client.answers.tenants import KeyForm
from manager.observations.reports import JobSeen, Measured, StreamMeasured
from manager.rest import examples
from manager.use_case import Paging
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.rest.fake_service import THEN

pytestmark = pytest.mark.chromium
HOSTILE = '<img src=x onerror="window.harmed = 1"><script>window.harmed = 1</script> \u202egnp.exe {{7*7}} \']\u200f'
HOSTILE_TASK = "<img src=x onerror=harmed=1>\u202e"


def shown(page: Page) -> None:
    """Wait until a page has its heading."""
    expect(page.locator("main h1")).to_be_visible()


def test_the_keyboard_reaches_everything_in_order(console_service: ConsoleService, page_for: PageFor) -> None:
    """First the link past the navigation, then the navigation, then the page, each with a visible focus."""
    page = page_for(console_service.keys["ann"], "#/compose")
    shown(page)
    page.locator(".brand").focus()
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Name of the dataflow")).to_be_focused()
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Tab")
    expect(page.get_by_label("Start")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Search the task types")).to_be_focused()
    page.evaluate("document.querySelector('.skip').focus()")
    order = []
    for _ in range(14):
        page.keyboard.press("Tab")
        order.append(page.evaluate("() => document.activeElement.textContent.trim()"))
    pages = ["Overview", "Dataflows", "Compose", "Sources", "Modules", "Task types"]
    pages += ["Graph", "Operations", "Audit", "Savings", "Bills", "Access"]
    assert ["Braid", *pages, "Sign out"] == order


def test_a_page_has_a_title_and_takes_the_focus(console_service: ConsoleService, page_for: PageFor) -> None:
    """The focus is at its beginning, where a screen reader continues."""
    page = page_for(console_service.keys["ann"])
    shown(page)
    page.get_by_role("link", name="Compose", exact=True).click()
    expect(page.locator("main")).to_be_focused()
    expect(page).to_have_title("Compose a dataflow · Braid")
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
    every.append(f"#/compose/{submitted.id}")
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


FOR_OPERATORS = ["Jobs"]


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.parametrize("who", ["ann", "operator"])
def test_signing_in_opens_the_requested_page(console_service: ConsoleService, page_for: PageFor, who: str) -> None:
    """Only operators see the links to their pages, and the browser does not store the key."""
    page = page_for(None, "#/compose")
    sign_in(page, console_service.keys[who])
    expect(page.get_by_role("heading", name="Compose a dataflow")).to_be_visible()
    expect(page.locator("#who")).to_have_text(who)
    linked = page.get_by_role("navigation").get_by_role("link").all_inner_texts()
    assert (FOR_OPERATORS if who == "operator" else []) == [word for word in linked if word in FOR_OPERATORS]
    assert ("Compose", "Compose a dataflow · Braid") == (
        page.locator('nav [aria-current="page"]').inner_text(),
        page.title(),
    )
    kept = page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert [{}, {}, ""] == json.loads(kept)
    (cookie,) = page.context.cookies()
    assert (True, "Strict", False) == (cookie["httpOnly"], cookie["sameSite"], console_service.keys[who] in str(cookie))


@pytest.mark.parametrize("who", ["ann", "bob"])
def test_a_link_signs_in_once(console_service: ConsoleService, page_for: PageFor, who: str) -> None:
    """As the one who made it, and without its token in the address; the second who follows it is asked for a key."""
    sessions, administration = console_service.service.sessions, console_service.service.administration
    token, _ = sessions.link(administration.caller(console_service.keys[who]))
    page = page_for(None, f"#link={token}")
    expect(page.locator("#who")).to_have_text(who)
    assert page.url.endswith("#/")
    other = page_for(None, f"#link={token}")
    expect(other.get_by_role("alert").filter(has_text="the link was used before")).to_be_visible()
    expect(other.get_by_label("API key")).to_be_focused()


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
    page = page_for(key.key, "#/compose")
    expect(page.get_by_label("Document")).to_be_visible()
    page.wait_for_load_state("networkidle")
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
    page = page_for(console_service.keys["ann"], "#/compose")
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
    banner, card = page.locator("#trouble"), page.locator(".card").filter(has_text="Dataflows").first
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
    expect(page.locator(".card").filter(has_text="Dataflows").first).to_be_visible()
    expect(page.locator("#trouble")).to_be_hidden()


def _document(**changes: Any) -> bytes:
    return json.dumps(examples.DOCUMENT | changes).encode()


def card(page: Page, heading: str) -> Locator:
    return page.locator(".card").filter(has=page.get_by_role("heading", name=heading, exact=True))


def test_an_operator_sees_all_that_runs(console_service: ConsoleService, page_for: PageFor) -> None:
    """Dataflows by state, running and submitted tasks, cores and savings, and jobs with problems."""
    service = console_service.service
    job = console_service.places["job"]
    behind = Measured(streams={"s": StreamMeasured(lag_events=1_234, lag_seconds=2.5)})
    console_service.seen.jobs[job] = JobSeen(
        job=job, host="main", state="died", trouble="disk full", measured=(behind,), seen=THEN
    )
    overview = service.overview.counts(service.administration.caller(console_service.keys["operator"]))
    page = page_for(console_service.keys["operator"])
    expect(card(page, "Dataflows")).to_contain_text(str(sum(overview.dataflows.values())))
    for state, count in overview.dataflows.items():
        expect(card(page, "Dataflows").get_by_role("listitem").filter(has_text=state)).to_have_text(f"{count} {state}")
    expect(card(page, "Tasks running").locator(".figure")).to_have_text(str(overview.tasks_running))
    expect(card(page, "Tasks running")).to_contain_text(f"of {overview.tasks_submitted} tasks submitted")
    assert overview.running_by_kind is not None
    expect(card(page, "Tasks running")).to_contain_text(f"{overview.running_by_kind.steps} of ")
    expect(card(page, "Work saved by sharing").locator(".figure")).to_have_text("40%")
    expect(card(page, "Cores saved by sharing").locator(".figure")).to_have_text("0")
    expect(card(page, "Events waiting")).to_contain_text("1,234")
    expect(card(page, "Events waiting")).to_contain_text("the oldest for 2.5 s")
    trouble = page.get_by_role("table", name="Jobs with problems").get_by_role("row").nth(1)
    expect(trouble).to_contain_text("disk full")
    expect(trouble.get_by_role("link", name=f"Job {job}")).to_have_attribute("href", f"#/jobs/{job}")
    expect(page.get_by_role("heading", name="Fragmentation")).to_be_visible()
    most = service.defragmentation.fragmentation(
        service.administration.caller(console_service.keys["operator"])
    ).saves.most
    assert most
    expect(page.get_by_text(f"What saves most is {most}: cores saved in the last hour: by sharing 0, ")).to_be_visible()
    del console_service.seen.jobs[job]


def test_a_tenant_sees_only_its_own(console_service: ConsoleService, page_for: PageFor) -> None:
    """Its dataflows and its share, without jobs and without numbers of others."""
    service = console_service.service
    overview = service.overview.counts(service.administration.caller(console_service.keys["ann"]))
    page = page_for(console_service.keys["ann"])
    expect(card(page, "Dataflows").locator(".figure")).to_have_text(str(sum(overview.dataflows.values())))
    expect(card(page, "Cores saved by packing")).to_contain_text("estimate: ")
    expect(card(page, "Work saved by sharing").locator(".figure")).to_have_text("50%")
    expect(page.get_by_role("heading", name="Your quota")).to_be_visible()
    assert ["Dataflows", "Your share", "Your quota"] == page.get_by_role("heading", level=2).all_inner_texts()
    assert "Jobs" not in page.locator("main").inner_text()


def test_a_tenant_sees_what_it_may_use(console_service: ConsoleService, page_for: PageFor) -> None:
    """Each limit with what it uses of it."""
    page = page_for(console_service.keys["ann"])
    (ann,) = console_service.service.administration.tenants(
        console_service.service.administration.caller(console_service.keys["ann"]), Paging()
    ).items
    row = page.get_by_role("table", name="What you may use").get_by_role("row", name=re.compile(r"^Tasks\b"))
    expect(row).to_contain_text(f"{ann.uses.tasks:,}")
    expect(row).to_contain_text(f"{ann.quota.tasks:,}")


def test_an_operator_sees_who_is_nearest_to_a_limit(console_service: ConsoleService, page_for: PageFor) -> None:
    """It comes first, with the limit and what is used of it."""
    administration = console_service.service.administration
    operator = administration.caller(console_service.keys["operator"])
    (bob,) = (each for each in administration.tenants(operator, Paging()).items if each.name == "bob")
    administration.set_quota(operator, "bob", bob.quota.model_copy(update={"keys": 1}))
    try:
        page = page_for(console_service.keys["operator"])
        first = page.get_by_role("table", name="Tenants and their quotas").get_by_role("row").nth(1)
        expect(first).to_contain_text("bob")
        expect(first).to_contain_text("API keys: 1 of 1")
        expect(first).to_contain_text("100%")
    finally:
        administration.set_quota(operator, "bob", bob.quota)


def test_missing_figures_are_not_zeros(console_service: ConsoleService, page_for: PageFor) -> None:
    """A tenant without metered usage reads that there is no data yet."""
    page = page_for(console_service.keys["bob"])
    expect(page.get_by_text("No data yet")).to_be_visible()
    expect(card(page, "Cores saved")).to_have_count(0)


def test_an_unchanged_part_is_not_replaced(console_service: ConsoleService, page_for: PageFor) -> None:
    """While the page refreshes, a link keeps the focus, and a selection stays."""
    page = page_for(console_service.keys["ann"])
    page.clock.install()
    page.reload()
    link = page.get_by_role("link", name="All dataflows")
    link.focus()
    with page.expect_response("**/v1/overview"):
        page.clock.run_for(6_000)
    expect(link).to_be_focused()
