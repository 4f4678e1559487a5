"""The composer's trial: events run through a draft, and show at each port of the selected task."""

import json

import pytest
from playwright.sync_api import Page, expect

from braid_client.answers.overview import OperationKind
from manager.use_case import Paging
from tests.console.composing import task
from tests.console.conftest import ConsoleService, PageFor
from tests.console.test_composer import README, ann, composer, opened, write

pytestmark = pytest.mark.chromium
__all__ = ["composer"]
WARM, ODD = {"sensor": "s1", "temperature": 21.5}, {"sensor": "s1", "temperature": "warm"}


def tried(page: Page, events: str) -> None:
    page.get_by_text("Try it on events").click()
    page.get_by_label("Events to try").fill(events)
    page.get_by_role("button", name="Try", exact=True).click()


def test_events_show_at_each_port_and_rejected_ones_with_the_reason(
    composer: Page, console_service: ConsoleService
) -> None:
    """Those that were pasted, of the task that is selected; the journal has the trial."""
    write(composer, README)
    tried(composer, f"{json.dumps(WARM)}\n{json.dumps(ODD)}\n")
    said = composer.get_by_label("What the trial says of the task")
    expect(composer.get_by_text("Select a task to see its events.")).to_be_visible()
    task(composer, "street").click()
    expect(said).to_contain_text("Tried on the events above.")
    expect(said).to_contain_text("Rejected at out: the field 'temperature' should be of kind float")
    expect(said).to_contain_text('"warm"')
    task(composer, "plausible").click()
    expect(said.get_by_role("listitem")).to_have_count(2)
    expect(said).to_contain_text("Entered at in · 1 event")
    expect(said).to_contain_text("21.5")
    task(composer, "average").click()
    expect(said).to_contain_text("Its state has seen 1 event.")
    newest = console_service.service.operations.page(ann(console_service), Paging(limit=1)).items[0]
    assert (OperationKind.TRY, "drawn") == (newest.kind, newest.subject)


def test_without_events_the_newest_are_tried_and_a_changed_draft_says_so(composer: Page) -> None:
    """None are kept here, as no host runs."""
    write(composer, README)
    tried(composer, "")
    task(composer, "street").click()
    said = composer.get_by_label("What the trial says of the task")
    expect(said).to_contain_text("Tried on nothing, as no event is kept of this source.")
    write(composer, README | {"name": "other"})
    expect(composer.get_by_text("The draft has changed since it was tried.")).to_be_visible()


def test_what_is_not_json_is_not_sent(composer: Page) -> None:
    """The reason is beside the events, and hostile text stays text."""
    write(composer, README)
    tried(composer, "{")
    expect(composer.get_by_text("That is not JSON:")).to_be_visible()
    hostile = '<img src=x onerror="document.title=1">'
    composer.get_by_label("Events to try").fill(json.dumps([WARM | {"sensor": hostile}]))
    composer.get_by_role("button", name="Try", exact=True).click()
    task(composer, "plausible").click()
    expect(composer.get_by_label("What the trial says of the task")).to_contain_text("<img src=x")
    assert 0 == composer.locator(".port-events img").count()


def test_an_operator_tries_for_a_tenant(console_service: ConsoleService, page_for: PageFor) -> None:
    """Whose sources are read."""
    page = opened(page_for, console_service.keys["operator"])
    page.get_by_label("Tenant").fill("ann")
    write(page, README)
    tried(page, json.dumps(WARM))
    task(page, "street").click()
    expect(page.get_by_label("What the trial says of the task")).to_contain_text("Left at out · 1 event")
