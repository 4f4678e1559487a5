"""The overview's first sentence, what needs attention, and its pictures."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Locator, Page, expect

from engine.host.spools import Received
from manager.observations.reports import HostSeen, JobSeen
from manager.store.dead_letters import Letter, keep
from tests.console.conftest import ConsoleService, PageFor
from tests.console.contents import metered

pytestmark = pytest.mark.chromium
NOW = datetime.now(tz=UTC)
NEARLY_USED = """async (limits) => {
  const { itemOf } = await import("/console/scripts/pages/overview/attention.js");
  return limits.map((limit) => itemOf({
    urgency: "warning", kind: "quota", subject: "ann", what: "Tenant ann uses 9 of 10", at: null, reason: "", limit,
  }, false).href);
}"""
"""The links of a tenant for each of some limits that is nearly used."""


def standing(page: Page) -> Locator:
    """The sentence that says whether all is well."""
    return page.locator(".standing")


def attention(page: Page) -> Locator:
    """What needs attention."""
    return page.locator(".attention li")


@pytest.fixture
def troubled(console_service: ConsoleService) -> Iterator[ConsoleService]:
    """The town where a host is away, a job has died, a source of bob's rejects, and ann has a new dead letter."""
    job, tools = console_service.places["job"], console_service.tools
    with tools.committer.looking() as state:
        quiet = state.sources["bob:quiet"].supplied.stream
        running = state.running.dataflows[console_service.places["running"]]
    said = Received(since=time.time() - 60, accepted=7).rejecting("{", "it is odd", count=2, at=time.time())
    console_service.seen.every_host = (
        HostSeen(host="main", alive=True, sources={quiet: said}, seen=NOW),
        HostSeen(host="spare", alive=False, seen=NOW),
    )
    console_service.seen.jobs[job] = JobSeen(job=job, host="main", state="died", trouble="disk full", seen=NOW)
    letter = Letter(instance=running.places["plausible"], port="in", batch=99, reason="too warm", events=[{}])
    with tools.store.write() as session:
        keep(session, [letter], {letter.instance: {"ann": [running.id]}}, at=time.time())
    yield console_service
    ann = console_service.service.administration.caller(console_service.keys["ann"])
    console_service.service.dead_letters.discard_all(ann, running.id)
    console_service.seen.every_host = ()
    del console_service.seen.jobs[job]


def test_an_operator_reads_what_is_wrong_and_where_to_fix_it(troubled: ConsoleService, page_for: PageFor) -> None:
    """The worst first, each with a link; the sentence counts them."""
    page = page_for(troubled.keys["operator"])
    expect(standing(page)).to_contain_text("things need attention")
    links = {
        "Host spare is away.": "#/jobs",
        "is died: disk full": f"#/jobs/{troubled.places['job']}",
        " dataflows are degraded: ": "#/dataflows?state=degraded",
        "1 dead letter, the last": f"#/dataflows/{troubled.places['running']}?tab=dead-letters",
        "Source bob:quiet rejected 2 events, the last": "#/sources/bob%3Aquiet",
        "Tenant poor uses 1 of 1 dataflows": "#/tenants/poor",
    }
    for words, link in links.items():
        item = attention(page).filter(has_text=words)
        expect(item.get_by_role("link")).to_have_attribute("href", link)
    levels = attention(page).locator(".badge").evaluate_all("(badges) => badges.map((badge) => badge.dataset.state)")
    assert sorted(levels) == levels


def test_a_tenant_reads_only_of_its_own(troubled: ConsoleService, page_for: PageFor) -> None:
    """Ann of her dead letter, bob of his source; neither of the other's, of hosts or of jobs."""
    seen = {}
    job = troubled.places["job"]
    for tenant in ("ann", "bob"):
        page = page_for(troubled.keys[tenant])
        expect(standing(page)).to_contain_text("attention")
        seen[tenant] = " ".join(attention(page).all_inner_texts())
        for hidden in ("Host", f"Job {job} is", "poor"):
            assert hidden not in seen[tenant]
    assert ("too warm" in seen["ann"], "it is odd" in seen["ann"]) == (True, False)
    assert ("too warm" in seen["bob"], "it is odd" in seen["bob"]) == (False, True)


@pytest.mark.usefixtures("console_service")
def test_a_quota_nearly_used_leads_to_what_uses_it(page_for: PageFor) -> None:
    """Each limit to the page where something can be removed, those of dataflows to the dataflows."""
    pages = {"keys": "access", "secrets": "access", "sources": "sources", "modules": "modules", "tasks": "dataflows"}
    page = page_for(None)
    assert [f"#/{name}" for name in pages.values()] == page.evaluate(NEARLY_USED, list(pages))


def test_one_sentence_says_that_all_is_well(console_service: ConsoleService, page_for: PageFor) -> None:
    """With how many dataflows run and start; and pictures show of what the numbers are parts."""
    metered(console_service)
    page = page_for(console_service.keys["ann"])
    expect(standing(page)).to_contain_text("All is well: ")
    expect(attention(page)).to_have_count(0)
    pictures = page.get_by_role("img")
    expect(pictures.and_(page.get_by_label("Tasks submitted: "))).to_be_visible()
    expect(pictures.and_(page.get_by_label("Cores in the last hour: "))).to_have_accessible_name(
        re.compile(r"Cores taken: 0\.\d+, Cores saved by sharing: 0\.\d+, Cores saved by packing: 0\.\d+$")
    )
