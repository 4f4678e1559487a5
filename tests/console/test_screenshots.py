"""Screenshots of the console for its documentation; `make screenshots` stores them in `docs/console`."""

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import ConsoleService, PageFor
from tests.console.contents import answer_with, at_work, jobs_of, metered, running

pytestmark = pytest.mark.chromium
DOCS = Path(__file__).parents[2] / "docs"
KEPT = "BRAID_SCREENSHOTS"
"""The environment variable with the folder for them; without it they are not stored."""
WIDTH, HEIGHT = 1_366, 860
TASKS = 300


def graph(page: Page) -> None:
    tasks = running(TASKS)
    answer_with(page, {"/v1/running/tasks": tasks, "/v1/jobs": jobs_of(tasks)})
    page.goto("/#/graph")
    expect(page.locator(".canvas-summary")).to_contain_text("of 300 tasks in all")
    page.get_by_role("button", name="job 2", exact=True).click()
    page.get_by_role("button", name="Zoom in on it").click()
    page.evaluate("window.scrollTo(0, 0)")


def overview(page: Page) -> None:
    page.goto("/#/")
    expect(page.locator(".standing")).to_be_visible()
    expect(page.get_by_role("heading", name="Fragmentation")).to_be_visible()
    page.evaluate("window.scrollTo(0, 0)")


def savings(page: Page) -> None:
    page.goto("/#/savings")
    expect(page.get_by_role("img", name="Cores over time")).to_be_visible()


def compose(page: Page) -> None:
    page.goto("/#/compose")
    page.get_by_label("Tenant").fill("ann")
    page.get_by_text("Begin with a template").click()
    page.get_by_label("Template").select_option(label="Example: averages of plausible temperatures")
    page.get_by_text("Begin with a template").click()
    expect(page.get_by_text("Ready to submit")).to_be_visible()
    expect(page.locator(".cm-content")).to_be_visible()
    page.locator("[data-task=average]").click()


def dataflow(page: Page) -> None:
    page.goto("/#/dataflows")
    page.get_by_role("link", name="averages of plausible temperatures").first.click()
    page.locator("[data-task=average]").click()
    expect(page.get_by_text("Emits the mean of a field")).to_be_visible()


def reconfiguration(page: Page) -> None:
    dataflow(page)
    for task, field, value in (("plausible", "max", "50"), ("average", "window", "20")):
        page.locator(f"[data-task={task}]").click()
        page.get_by_role("button", name=f"Change {task}", exact=True).click()
        form = page.locator("details.change", has_text=task).last
        form.get_by_label(field, exact=True).fill(value)
    page.locator("details.change summary", has_text="plausible").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Preview")).to_be_visible()
    page.get_by_role("heading", name="Changes", exact=True).evaluate("(at) => at.scrollIntoView()")


SHOWN: dict[str, Callable[[Page], None]] = {
    "compose": compose,
    "dataflow": dataflow,
    "graph": graph,
    "overview": overview,
    "reconfiguration": reconfiguration,
    "savings": savings,
}


@pytest.fixture(scope="module", autouse=True)
def _metered(console_service: ConsoleService) -> None:
    metered(console_service)
    at_work(console_service, console_service.places["running"])


@pytest.mark.parametrize("look", ["light", "dark"])
def test_screenshots_of_the_documented_pages_can_be_taken(
    console_service: ConsoleService, page_for: PageFor, tmp_path: Path, look: str
) -> None:
    """Each page is complete and in the right size, light and dark."""
    size = {"width": WIDTH, "height": HEIGHT}
    page = page_for(console_service.keys["operator"], viewport=size, color_scheme=look)
    for name, show in SHOWN.items():
        show(page)
        page.wait_for_load_state("networkidle")
        path = Path(os.environ.get(KEPT) or tmp_path) / f"{name}-{look}.png"
        page.screenshot(path=path)
        assert (WIDTH, HEIGHT) == struct.unpack(">II", path.read_bytes()[16:24])


def test_the_documentation_shows_only_these_screenshots() -> None:
    """The files in `docs/console` are those of the test above and the walk, and all are shown."""
    taken = {"walk.webp", *(f"{name}-{look}.png" for name in SHOWN for look in ("light", "dark"))}
    assert taken == {each.name for each in (DOCS / "console").iterdir()}
    page = (DOCS / "console.md").read_text(encoding="utf-8")
    assert taken == set(re.findall(r"\(console/([a-z-]+\.(?:png|webp))", page))
