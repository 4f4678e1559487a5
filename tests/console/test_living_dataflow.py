"""A dataflow as it runs, on its page: its graph with figures and sharing, the chosen task, and the tabs."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from braid_client.answers.dataflows import Stop
from braid_client.answers.reconfigurations import ReconfigurationForm
from manager.kernel.transitions import TransitionEvent
from tests.console.conftest import ConsoleService, PageFor
from tests.console.contents import at_work
from tests.manager.managers import caller, take

pytestmark = [pytest.mark.full, pytest.mark.chromium]

ANN, BOB = caller("ann"), caller("bob")
CHAIN: Mapping[str, Any] = {
    "version": 1,
    "name": "Cool",
    "tasks": [
        {"id": "sensors", "type": "source", "config": {"source": "city:street"}},
        {"id": "cool", "type": "range_filter", "config": {"field": "temperature", "min": -7, "max": 17.5}},
        {"id": "mean", "type": "block_window_average", "config": {"field": "temperature", "window": 7}},
        {"id": "means", "type": "output"},
    ],
    "streams": [{"from": "sensors", "to": "cool"}, {"from": "cool", "to": "mean"}, {"from": "mean", "to": "means"}],
}
CORES = re.compile(r"0\.0[12]\d* cores")
"""What `at_work` makes of a task, and a little less where the page is slow."""
LEAST_PIXELS = 11
"""The height of letters that everybody can read."""
HEIGHTS = """
(texts) => texts.map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)
"""
SCROLLS = "(frame) => frame.scrollWidth > frame.clientWidth || frame.scrollHeight > frame.clientHeight"
CLIPPED = "[...document.querySelectorAll('.table')].filter((table) => table.scrollWidth > table.clientWidth + 1).length"


@pytest.fixture(autouse=True)
def _unmeasured(console_service: ConsoleService) -> Iterator[None]:
    yield
    console_service.seen.jobs.clear()


def submitted(service: ConsoleService, document: Mapping[str, Any] = CHAIN) -> str:
    return service.service.dataflows.submit(ANN, json.dumps(document).encode()).id


def opened(service: ConsoleService, page_for: PageFor, dataflow: str, tab: str = "", **options: Any) -> Page:
    page = page_for(service.keys["ann"], f"#/dataflows/{dataflow}{tab and f'?tab={tab}'}", **options)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def task(page: Page, name: str) -> Locator:
    return page.locator(f".flow-task[data-task='{name}']")


def test_the_graph_has_the_names_of_its_tenant_and_the_figures_of_each_task(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """Sources by their name; rates, load, waiting events and errors; the sentence on top sums them up, and goes on."""
    flow = submitted(console_service)
    at_work(console_service, flow, dead=4)
    page = opened(console_service, page_for, flow)
    for text in ("sensors", "city:street", "/s", "3 waiting"):
        expect(task(page, "sensors")).to_contain_text(text)
    for text in ("mean", "block_window_average", "→", "0 waiting", "4 errors"):
        expect(task(page, "mean")).to_contain_text(text)
    expect(task(page, "mean")).to_contain_text(CORES)
    expect(page.locator(".flow-stream.flows")).to_have_count(3)
    sentence = page.locator(".flow-health")
    expect(sentence).to_contain_text("Running: 4 tasks,")
    expect(sentence).to_contain_text("But cool fails on some events.")
    sentence.get_by_role("button", name="See the dead letters").click()
    expect(page.get_by_role("tab", name="Dead letters")).to_have_attribute("aria-selected", "true")
    at_work(console_service, flow, entered=0)
    expect(sentence).to_contain_text("Nothing has arrived in the last minute")
    expect(page.locator(".flow-stream.flows")).to_have_count(0)


def test_a_task_says_with_how_many_others_it_is_shared_now(console_service: ConsoleService, page_for: PageFor) -> None:
    """Also with those that came later, and no longer once they are gone; by words and by a second sheet."""
    cool = CHAIN["tasks"][1] | {"config": {"field": "temperature", "min": -6, "max": 18}}
    streams = [{"from": "sensors", "to": "cool"}, {"from": "cool", "to": "out"}]
    own = {**CHAIN, "tasks": [CHAIN["tasks"][0], cool, {"id": "out", "type": "output"}], "streams": streams}
    flow = submitted(console_service, own)
    at_work(console_service, flow)
    page = opened(console_service, page_for, flow)
    expect(page.locator(".flow-health")).to_contain_text("1 of them shared with others")
    expect(task(page, "cool")).not_to_contain_text("shared")
    expect(task(page, "cool").locator(".flow-below")).to_be_hidden()
    other = console_service.service.dataflows.submit(BOB, json.dumps(own).encode()).id
    expect(task(page, "cool")).to_contain_text("shared with 1 other")
    expect(task(page, "cool").locator(".flow-below")).to_be_visible()
    expect(page.locator(".flow-health")).to_contain_text("all of them shared with others")
    expect(page.locator("main")).not_to_contain_text(other)
    console_service.service.dataflows.remove(BOB, other, Stop.NOW)
    expect(task(page, "cool")).not_to_contain_text("shared")


def test_a_click_on_a_task_opens_its_panel(console_service: ConsoleService, page_for: PageFor) -> None:
    """It says what the type does, its configuration, figures, since when, with whom, and its changes."""
    flow = submitted(console_service)
    at_work(console_service, flow)
    page = opened(console_service, page_for, flow)
    task(page, "mean").click()
    panel = page.get_by_role("region", name="mean", exact=True)
    for text in ("Emits the mean of a field once per block", "window7", "48 kB", "Runs since"):
        expect(panel).to_contain_text(text)
    expect(panel).to_contain_text(CORES)
    expect(panel).to_contain_text("It was not changed while it ran.")
    expect(panel.get_by_role("button", name="Change mean")).to_be_visible()
    expect(task(page, "mean")).to_have_attribute("aria-selected", "true")
    task(page, "sensors").click()
    expect(page.get_by_role("region", name="sensors", exact=True)).to_contain_text("city:street")
    page.get_by_role("button", name="Close the task").click()
    expect(page.get_by_role("region", name="sensors", exact=True)).to_be_hidden()
    expect(task(page, "sensors")).to_be_focused()


def test_a_task_shows_its_changes(console_service: ConsoleService, page_for: PageFor) -> None:
    """One under way is announced on top and leads to its progress; the panel lists those of its task alone."""
    flow = submitted(console_service)
    at_work(console_service, flow)
    page = opened(console_service, page_for, flow)
    task(page, "cool").click()
    panel = page.get_by_role("region", name="cool", exact=True)
    expect(panel).to_contain_text("It was not changed while it ran.")
    form = ReconfigurationForm(tasks={"cool": {"config": {"max": 19.0}}})
    made = console_service.service.reconfigurations.begin(ANN, flow, form)
    expect(panel).to_contain_text(re.compile(f"switching ?{made.id},.*by ann"))
    expect(panel).to_contain_text("max19")
    page.get_by_role("button", name="See the changes").click()
    expect(page.get_by_role("region", name="only the last one can be undone")).to_contain_text("cool")
    for event in (TransitionEvent.BEGUN, TransitionEvent.PROVEN):
        take(console_service.tools.changes.reconfigurations, int(made.id), event)
    expect(page.locator(".flow-health")).not_to_contain_text("A change is under way.")
    task(page, "sensors").click()
    expect(page.get_by_role("region", name="sensors", exact=True)).to_contain_text("It was not changed while it ran.")


def test_the_graph_is_walked_by_keys(console_service: ConsoleService, page_for: PageFor) -> None:
    """It is one stop; arrows go along the streams, Enter opens the panel, and Escape goes back to the task."""
    page = opened(console_service, page_for, submitted(console_service))
    expect(page.locator(".flow-task[tabindex='0']")).to_have_count(1)
    task(page, "sensors").focus()
    page.keyboard.press("ArrowRight")
    expect(task(page, "cool")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    panel = page.get_by_role("region", name="cool", exact=True)
    expect(panel.get_by_role("heading", name="cool", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(task(page, "cool")).to_be_focused()


def test_tabs_open_by_their_address_and_by_keys(console_service: ConsoleService, page_for: PageFor) -> None:
    """Only one part is shown; the address follows; what a dataflow has not has no tab."""
    page = opened(console_service, page_for, submitted(console_service), "outputs")
    expect(page.get_by_role("tabpanel")).to_have_count(1)
    expect(page.get_by_role("tabpanel", name="Outputs")).to_be_visible()
    expect(page.get_by_role("tab", name="Adaptation")).to_have_count(0)
    page.get_by_role("tab", name="Outputs").focus()
    for key, name in (
        ("ArrowRight", "Dead letters"),
        ("End", "Document"),
        ("ArrowRight", "Tasks"),
        ("ArrowLeft", "Document"),
    ):
        page.keyboard.press(key)
        expect(page.get_by_role("tab", name=name)).to_be_focused()
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
    assert page.url.endswith("?tab=document")
    page.reload()
    expect(page.get_by_role("tabpanel", name="Document")).to_be_visible()
    page.get_by_role("tab", name="Tasks").click()
    assert "?" not in page.url


def many() -> dict[str, Any]:
    """A document of 52 tasks."""
    tasks: list[dict[str, Any]] = [{"id": "street", "type": "source", "config": {"source": "city:street"}}]
    streams: list[dict[str, str]] = []
    for row in range(10):
        above = "street"
        for column in range(4):
            name = f"clean_temperature_{row}_{column}"
            config = {"field": "temperature", "min": -20 - row, "max": 60 + column}
            tasks.append({"id": name, "type": "range_filter", "config": config})
            streams.append({"from": above, "to": name})
            above = name
        tasks.append({"id": f"out_{row}", "type": "output"})
        streams.append({"from": above, "to": f"out_{row}"})
    tasks.append({"id": "all", "type": "output"})
    streams.append({"from": "street", "to": "all"})
    return {"version": 1, "name": "many", "tasks": tasks, "streams": streams}


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (360, 740)])
def test_fifty_two_tasks_can_be_read_and_reached(
    console_service: ConsoleService, page_for: PageFor, width: int, height: int
) -> None:
    """Labels are as high as letters must be; one that is out of sight comes into it; all can be shown at once."""
    flow = submitted(console_service, many())
    page = opened(console_service, page_for, flow, viewport={"width": width, "height": height})
    labels = page.locator(".flow-id")
    expect(labels).to_have_count(52)
    assert LEAST_PIXELS <= min(labels.evaluate_all(HEIGHTS))
    task(page, "street").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".flow-task:focus")).to_be_in_viewport(ratio=0.9)
    page.get_by_role("button", name="Show everything").click()
    assert not page.locator(".flow-frame").evaluate(SCROLLS)
    for _ in range(8):
        page.get_by_role("button", name="Closer").click()
    assert LEAST_PIXELS <= min(labels.evaluate_all(HEIGHTS))
    console_service.service.dataflows.remove(ANN, flow, Stop.NOW)


@pytest.mark.parametrize(("width", "look"), [(1366, "light"), (360, "dark")])
def test_no_table_is_clipped(console_service: ConsoleService, page_for: PageFor, width: int, look: str) -> None:
    """In no tab, neither on a small laptop nor on a phone, also beside the panel of a task."""
    flow = submitted(console_service)
    at_work(console_service, flow)
    page = opened(console_service, page_for, flow, viewport={"width": width, "height": 740}, color_scheme=look)
    task(page, "mean").click()
    for tab in page.get_by_role("tab").all():
        tab.click()
        expect(page.get_by_role("tabpanel", name=tab.inner_text())).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert 0 == page.evaluate(CLIPPED), tab.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
