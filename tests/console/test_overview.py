"""The overview, for operators and for tenants."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from manager.observations.reports import JobSeen, Measured, StreamMeasured
from manager.use_case import Paging
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.rest.fake_service import THEN

pytestmark = pytest.mark.chromium


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
        expect(card(page, "Dataflows").locator(f'[data-state="{state}"]')).to_have_text(f"{count} {state}")
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
