"""The composer: dataflows drawn by mouse and by keyboard, with the document beside the canvas."""

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import ConsoleService, PageFor

pytestmark = pytest.mark.chromium


def written(page: Page) -> dict[str, Any]:
    """The document beside the canvas."""
    found: dict[str, Any] = json.loads(page.get_by_label("Document").input_value())
    return found


def task(page: Page, id_: str) -> Locator:
    return page.locator(f'[data-task="{id_}"]')


def port(page: Page, id_: str, side: str) -> Locator:
    return task(page, id_).locator(f'[data-side="{side}"] .port-dot')


def middle(found: Locator) -> tuple[float, float]:
    box = found.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, begin: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*begin)
    page.mouse.down()
    page.mouse.move((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
    page.mouse.move(*end)
    page.mouse.up()


def test_scratch(console_service: ConsoleService, page_for: PageFor) -> None:
    page = page_for(console_service.keys["ann"], "#/compose", viewport={"width": 1400, "height": 900})
    expect(page.locator("main h1")).to_be_visible()
    page.screenshot(path="/tmp/s9/c0.png", full_page=True)
    canvas = page.get_by_role("listbox", name="Tasks on the canvas")
    x, y = middle(canvas)
    for at, name in enumerate(("source", "range_filter", "block_window_average", "output")):
        page.get_by_label("Search the task types").fill(name)
        item = page.locator(".palette-item").first
        drag(page, middle(item), (x - 240 + 160 * at, y - 150 + 90 * at))
    page.screenshot(path="/tmp/s9/c1.png")
    for left, right in (("source", "range_filter"), ("range_filter", "block_window_average")):
        drag(page, middle(port(page, left, "output")), middle(port(page, right, "input")))
    task(page, "source").click()
    page.get_by_label("source", exact=True).fill("city:street")
    page.wait_for_timeout(1500)
    page.screenshot(path="/tmp/s9/c2.png", full_page=True)
    task(page, "range_filter").click()
    page.wait_for_timeout(300)
    page.screenshot(path="/tmp/s9/c3.png", full_page=True)
    print(page.get_by_label("Document").input_value())
