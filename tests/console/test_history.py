"""The history on the page of a dataflow: drawn, read by keys, with gaps, and over several ranges."""

import re
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, Page, expect

from manager.series.resolutions import FINEST, write_step
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.rest.real_service import NAME
from tests.manager.series.samples import ONE

pytestmark = [pytest.mark.full, pytest.mark.chromium]
STEPS = 240
GAP = range(100, 140)
"""The steps of the last hour that nothing is known of."""
COLUMNS = """(canvas) => {
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const key = canvas.closest("figure").querySelector(".chart-line");
  const [red, green, blue] = getComputedStyle(key).stroke.match(/\\d+/g).map(Number);
  const isDrawn = (at) => Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue) < 12
    && data[at + 3] > 200;
  return Array.from({ length: width }, (_, x) => x).filter(
    (x) => Array.from({ length: height }, (_, y) => 4 * (y * width + x)).some(isDrawn));
}"""
"""The columns of a canvas that have the colour of the chart's first line."""


@pytest.fixture(scope="module", autouse=True)
def _done(console_service: ConsoleService) -> None:
    newest = int(time.time()) // FINEST * FINEST - FINEST
    with console_service.tools.store.write() as session:
        for place in range(STEPS):
            known = {} if place in GAP else {console_service.places["running"]: replace(ONE, events_in=30 + place)}
            assert write_step(session, NAME, newest - (STEPS - 1 - place) * FINEST, known)


@pytest.fixture
def opened(console_service: ConsoleService, page_for: PageFor) -> Page:
    """The page of ann's dataflow, with all charts drawn."""
    page = page_for(console_service.keys["ann"], f"#/dataflows/{console_service.places['running']}")
    expect(page.locator(".history canvas")).to_have_count(5)
    return page


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("img", name=re.compile(f"^{name}\\."))


def readout(page: Page, name: str) -> Locator:
    return page.locator("figure").filter(has=chart(page, name)).locator(".chart-readout")


def columns(page: Page, name: str) -> list[int]:
    found: list[int] = chart(page, name).locator("canvas").evaluate(COLUMNS)
    return found


def test_a_gap_is_a_gap(opened: Page) -> None:
    """The line is drawn before and after it, and not across it; the readout says that nothing is known."""
    drawn = columns(opened, "Events per second")
    widest = max(later - sooner for sooner, later in pairwise(drawn))
    whole = drawn[-1] - drawn[0]
    assert whole > 200
    assert len(GAP) / STEPS == pytest.approx(widest / whole, abs=0.03)


def test_the_keyboard_reads_all_charts_at_one_moment(opened: Page) -> None:
    """From the newest step backwards, and in the gap."""
    chart(opened, "Events per second").focus()
    opened.keyboard.press("Home")
    expect(readout(opened, "Events per second")).to_contain_text(re.compile(r": in 2(\.\d+)?; out 1$"))
    expect(readout(opened, "Cores")).to_contain_text("share 0.25; without sharing 0.5")
    expect(readout(opened, "Latency")).to_contain_text("median 100 ms; 99th percentile 500 ms")
    for _ in range(12):
        opened.keyboard.press("PageDown")
    expect(readout(opened, "Events per second")).to_contain_text("in not known; out not known")
    expect(readout(opened, "Waiting events")).to_contain_text("waiting not known")
    chart(opened, "Events per second").blur()
    expect(readout(opened, "Cores")).to_contain_text("use the arrow keys")


def test_another_range_has_other_steps(opened: Page) -> None:
    """The charts and the table follow what is chosen."""
    opened.get_by_text("History as a table").click()
    table = opened.get_by_role("region", name="History in steps of")
    expect(opened.get_by_role("region", name="History in steps of 15 s, newest first")).to_be_visible()
    expect(table.get_by_role("row").filter(has_text="\u2013")).not_to_have_count(0)
    with opened.expect_response(re.compile(r"/series\?range=1d$")):
        opened.get_by_label("Range", exact=True).select_option("1d")
    expect(opened.get_by_role("region", name="History in steps of 5 min, newest first")).to_be_visible()
    expect(table.get_by_role("columnheader")).to_have_text(
        [
            *("From", "Events per second, in", "Events per second, out", "Latency, median", "Latency, 99th percentile"),
            *("Waiting events", "New dead letters", "Cores, share", "Cores, without sharing"),
        ]
    )
    chart(opened, "Cores").focus()
    opened.keyboard.press("End")
    expect(readout(opened, "Cores")).to_contain_text("share 0.25")
    opened.keyboard.press("Home")
    expect(readout(opened, "Cores")).to_contain_text("share not known")


def test_the_dark_scheme_has_its_own_colours(opened: Page) -> None:
    """Lines are drawn anew when it changes."""
    chart_line = opened.locator(".history .chart-line").first
    light = chart_line.evaluate("key => getComputedStyle(key).stroke")
    opened.emulate_media(color_scheme="dark")
    expect(chart_line).not_to_have_css("stroke", light)
    assert columns(opened, "Events per second")


def test_it_fits_a_narrow_screen(console_service: ConsoleService, page_for: PageFor) -> None:
    """At 360 pixels a chart is as wide as what it is in."""
    place = f"#/dataflows/{console_service.places['running']}"
    page = page_for(console_service.keys["ann"], place, viewport={"width": 360, "height": 740})
    expect(page.locator(".history canvas")).to_have_count(5)
    assert 360 == page.evaluate("document.documentElement.scrollWidth")
    box = chart(page, "Cores").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 360


def test_a_dataflow_that_nothing_is_known_of_has_empty_charts(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """Its readout says so for every step."""
    page = page_for(console_service.keys["ann"], f"#/dataflows/{console_service.places['alone']}")
    expect(page.locator(".history canvas")).to_have_count(5)
    assert [] == columns(page, "Cores")
    chart(page, "Cores").focus()
    page.keyboard.press("End")
    expect(readout(page, "Cores")).to_contain_text("share not known; without sharing not known")


def test_a_bound_of_latency_is_a_line(console_service: ConsoleService, page_for: PageFor) -> None:
    """Where the policy of a dataflow allows so much; its value is read like others."""
    ann = console_service.service.administration.caller(console_service.keys["ann"])
    adaptive = console_service.places["adaptive"]
    console_service.service.adaptations.set_policy(ann, adaptive, b'{"latency": 0.25}')
    page = page_for(console_service.keys["ann"], f"#/dataflows/{adaptive}")
    expect(page.locator(".history canvas")).to_have_count(5)
    chart(page, "Latency").focus()
    page.keyboard.press("End")
    expect(readout(page, "Latency")).to_contain_text("99th percentile not known; allowed by its policy 250 ms")
