"""The page of sources: what was accepted and rejected of each."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from engine.host.spools import Received
from manager.observations.reports import HostSeen
from tests.console.conftest import ConsoleService, PageFor

pytestmark = [pytest.mark.full, pytest.mark.chromium]
SINCE = 1_767_225_600.0
HOSTILE = "<img src=x onerror=alert(1)>"


def test_an_owner_sees_what_its_source_rejects(console_service: ConsoleService, page_for: PageFor) -> None:
    """As it comes, with time and reason, as text; readers see neither counts nor events."""
    page = page_for(console_service.keys["city"], "#/sources")
    source = page.get_by_role("region", name="Sources by name").get_by_role("row").filter(has_text="city:street")
    expect(source).to_be_visible()
    expect(page.get_by_text("Rejected events")).to_have_count(0)
    received = Received(since=SINCE, accepted=1_234).rejecting(HOSTILE, "no JSON", count=5, at=SINCE + 3_600.0)
    sources = dict.fromkeys((f"source/{number}" for number in range(1, 10)), received)
    console_service.seen.every_host = (HostSeen(host="north", alive=True, sources=sources, seen=datetime.now(UTC)),)
    expect(source).to_contain_text("1,234")
    expect(source.get_by_role("cell").nth(4)).to_have_text("5")
    event = page.get_by_role("region", name="The newest of each source").get_by_role("row").nth(1)
    expect(event).to_contain_text("1 Jan 2026, 01:00:00")
    expect(event).to_contain_text("no JSON")
    expect(event).to_contain_text(HOSTILE)
    reader = page_for(console_service.keys["ann"], "#/sources")
    expect(reader.get_by_role("region", name="Sources by name")).to_contain_text("city:street")
    expect(reader.get_by_text("1,234")).to_have_count(0)
    expect(reader.get_by_text("no JSON")).to_have_count(0)
