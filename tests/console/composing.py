"""Hands on the canvas of the composer: what is there, and what is dragged and connected."""

from playwright.sync_api import Locator, Page


def canvas(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Tasks on the canvas")


def task(page: Page, name: str) -> Locator:
    return page.locator(f'[data-task="{name}"]')


def port(page: Page, name: str, side: str) -> Locator:
    return task(page, name).locator(f'[data-side="{side}"] .port-dot')


def middle(node: Locator) -> tuple[float, float]:
    box = node.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, begin: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*begin)
    page.mouse.down()
    page.mouse.move((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
    page.mouse.move(*end)
    page.mouse.up()


def connect(page: Page, left: str, right: str) -> None:
    drag(page, middle(port(page, left, "output")), middle(port(page, right, "input")))


def searched(page: Page, name: str) -> Locator:
    """The type of that name, once it was searched in the palette."""
    page.get_by_label("Search the task types").fill(name)
    return page.locator(".palette-item").first


def ready(page: Page) -> Locator:
    return page.get_by_text("Ready to submit")
