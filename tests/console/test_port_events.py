"""The newest events at the ports of a running task, on the page of its dataflow."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect
from pydantic import TypeAdapter

from engine.port_events import SeenEvent, SeenInstance, SeenPort, read_look
from manager.observations.looks import TaskLooks
from manager.observations.reports import HostSeen
from tests.console.conftest import ConsoleService, PageFor

pytestmark = [pytest.mark.full, pytest.mark.chromium]
LATER = 10**13 // 4
"""Milliseconds since 1970, long after any test."""
HOSTILE = '<img src=x onerror="document.title=1">'


class Host:
    """A host that reports what a test has it report, whenever it is asked."""

    def __init__(self) -> None:
        self.looks = TaskLooks(self._take)
        self.asked: list[int] = []
        self.entered: tuple[str, ...] | None = None

    def _take(self, _topic: str, payload: bytes) -> None:
        request = read_look(payload)
        self.asked.append(request.instance)
        if self.entered is not None:
            newest = tuple(SeenEvent(LATER, event) for event in self.entered)
            port = SeenPort(port="in", is_input=True, count=50 + len(newest), newest=newest)
            seen = SeenInstance(instance=request.instance, ports=(port,))
            self.looks.take(request.job, TypeAdapter(SeenInstance).dump_json(seen))


@pytest.fixture
def host(console_service: ConsoleService) -> Iterator[Host]:
    made = Host()
    console_service.equip(looks=made.looks)
    with console_service.tools.committer.looking() as state:
        hosts = {plan.host for plan in state.plans.values()}
    console_service.seen.every_host = tuple(HostSeen(host=name, alive=True, seen=datetime.now(UTC)) for name in hosts)
    yield made
    console_service.seen.every_host = ()
    console_service.equip()


def opened(console_service: ConsoleService, page_for: PageFor) -> Page:
    page = page_for(console_service.keys["ann"], f"#/dataflows/{console_service.places['running']}")
    choose(page, "plausible")
    return page


def choose(page: Page, task: str) -> None:
    page.locator(f'[data-task="{task}"]').click()


def test_the_events_of_a_task_show_at_its_ports_as_they_come(
    console_service: ConsoleService, page_for: PageFor, host: Host
) -> None:
    """Each with when it was seen; text of tenants stays text."""
    page = opened(console_service, page_for)
    events = page.get_by_role("region", name="Events of plausible")
    expect(events).to_contain_text("Waiting for the next batch of its job.")
    host.entered = ('{"sensor":"s1"}', HOSTILE)
    expect(events).to_contain_text("Entered at in · the last 2 of 52 events")
    expect(events.get_by_role("listitem")).to_have_count(2)
    expect(events.get_by_role("listitem").last).to_contain_text(HOSTILE)
    expect(events.get_by_role("listitem").first).to_contain_text("2049")
    expect(events).to_contain_text("Left at out · 0 events")
    assert 0 == events.locator("img").count()
    host.entered = ('{"sensor":"s3"}',)
    expect(events.get_by_role("listitem")).to_have_count(1)
    expect(events.get_by_role("listitem")).to_contain_text('{"sensor":"s3"}')


@pytest.mark.usefixtures("host")
def test_another_task_takes_the_place_of_the_first(console_service: ConsoleService, page_for: PageFor) -> None:
    """And nobody looks at that one any more."""
    page = opened(console_service, page_for)
    expect(page.get_by_role("region", name="Events of plausible")).to_be_visible()
    choose(page, "averages")
    expect(page.get_by_role("region", name="Events of averages")).to_contain_text("Waiting")
    expect(page.get_by_role("region", name="Events of plausible")).to_have_count(0)


def test_why_there_is_nothing_to_see_is_said(console_service: ConsoleService, page_for: PageFor) -> None:
    """As when too many tasks are looked at already."""
    page = page_for(console_service.keys["poor"], f"#/dataflows/{console_service.places['poors']}")
    choose(page, "averages")
    expect(page.get_by_role("alert").filter(has_text="looks at 8 tasks")).to_be_visible()
