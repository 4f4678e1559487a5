"""The overview, as operators and tenants see it."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from manager.observations.reports import JobSeen, Measured, StreamMeasured
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.rest.fake_service import THEN

pytestmark = pytest.mark.chromium


def card(page: Page, heading: str) -> Locator:
    return page.locator(".card").filter(has=page.get_by_role("heading", name=heading, exact=True))


def test_an_operator_sees_all_that_runs(console_service: ConsoleService, page_for: PageFor) -> None:
    """Dataflows by state, tasks that run of those submitted, cores and savings, and jobs in trouble by name."""
    service = console_service.service
    job = console_service.places["job"]
    behind = Measured(streams={"s": StreamMeasured(lag_events=1_234, lag_seconds=2.5)})
    console_service.seen.jobs[job] = JobSeen(
        job=job, host="main", state="died", trouble="disk full", measured=(behind,), seen=THEN
    )
    told = service.overview.counts(service.administration.caller(console_service.keys["operator"]))
    page = page_for(console_service.keys["operator"])
    expect(card(page, "Dataflows")).to_contain_text(str(sum(told.dataflows.values())))
    for state, count in told.dataflows.items():
        expect(card(page, "Dataflows").locator(f'[data-state="{state}"]')).to_have_text(f"{count} {state}")
    expect(card(page, "Tasks running").locator(".figure")).to_have_text(str(told.tasks_running))
    expect(card(page, "Tasks running")).to_contain_text(f"of {told.tasks_submitted} tasks submitted")
    assert told.running_by_kind is not None
    expect(card(page, "Tasks running")).to_contain_text(f"{told.running_by_kind.steps} of ")
    expect(card(page, "Work saved by sharing").locator(".figure")).to_have_text("40%")
    expect(card(page, "Cores saved by sharing").locator(".figure")).to_have_text(re.compile(r"^-?[0-9.]+"))
    expect(card(page, "Events waiting")).to_contain_text("1,234")
    expect(card(page, "Events waiting")).to_contain_text("the oldest for 2.5 s")
    trouble = page.get_by_role("table", name="Jobs in trouble").get_by_role("row").nth(1)
    expect(trouble).to_contain_text("disk full")
    expect(trouble.get_by_role("link", name=f"Job {job}")).to_have_attribute("href", f"#/jobs/{job}")
    expect(page.get_by_role("heading", name="Fragmentation")).to_be_visible()
    most = service.defragmentation.fragmentation(
        service.administration.caller(console_service.keys["operator"])
    ).saves.most
    expect(page.get_by_text(f"Here and now {most} counts most: sharing saves ")).to_be_visible()
    del console_service.seen.jobs[job]


def test_a_tenant_sees_its_own_alone(console_service: ConsoleService, page_for: PageFor) -> None:
    """Its dataflows and its share; nothing of jobs, and of others no number."""
    service = console_service.service
    told = service.overview.counts(service.administration.caller(console_service.keys["ann"]))
    page = page_for(console_service.keys["ann"])
    expect(card(page, "Dataflows").locator(".figure")).to_have_text(str(sum(told.dataflows.values())))
    expect(card(page, "Cores saved")).to_contain_text("estimated")
    expect(card(page, "Work saved by sharing").locator(".figure")).to_have_text("50%")
    assert ["Dataflows", "Your share"] == page.get_by_role("heading", level=2).all_inner_texts()
    assert "Jobs" not in page.locator("main").inner_text()


def test_what_is_not_metered_yet_is_said(console_service: ConsoleService, page_for: PageFor) -> None:
    """A tenant of whom nothing was metered is not shown zeros."""
    page = page_for(console_service.keys["bob"])
    expect(page.get_by_text("Nothing is metered yet")).to_be_visible()
    expect(card(page, "Cores saved")).to_have_count(0)


def test_what_did_not_change_is_not_drawn_again(console_service: ConsoleService, page_for: PageFor) -> None:
    """While the page looks again and again a link keeps the focus, and a selection stays."""
    page = page_for(console_service.keys["ann"])
    page.clock.install()
    page.reload()
    link = page.get_by_role("link", name="All dataflows")
    link.focus()
    with page.expect_response("**/v1/overview"):
        page.clock.run_for(6_000)
    expect(link).to_be_focused()
