"""A walk through the console of a whole service; `make screenshots` films it for the documentation."""

import io
import os
import re
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.sources import SourceForm
from braid_client.answers.tenants import KeyForm
from tests.console.composing import canvas, connect, drag, middle, port, ready, searched, task
from tests.console.conftest import pages_of
from tests.console.test_composer import README
from tests.console.test_screenshots import KEPT
from tests.integration.hosting import QUICK
from tests.integration.serving import Served, serving

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.chromium]
SIZE = {"width": 1_400, "height": 940}
TOPIC = "city/street"
STREET = SourceForm.model_validate(
    {
        "name": "street",
        "visibility": "public",
        "connection": {"kind": "topic", "topic": TOPIC},
        "schema": {"sensor": "string", "temperature": "float"},
    }
)


class Film:
    """Frames of a page, each with the seconds for which it is shown."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._frames: list[tuple[bytes, float]] = []

    def frame(self, seconds: float = 2.0) -> None:
        """Add what the page shows."""
        self._frames.append((self._page.screenshot(), seconds))

    def save(self, path: Path) -> None:
        """Write it as an animation."""
        first, *others = (Image.open(io.BytesIO(picture)).convert("RGB") for picture, _ in self._frames)
        shown = [round(seconds * 1_000) for _, seconds in self._frames]
        first.save(path, save_all=True, append_images=others, duration=shown, loop=0, quality=60, method=6)


def test_a_dataflow_is_drawn_shared_run_and_looked_into(tmp_path: Path, browser: Browser) -> None:
    """What a school runs lights up while the city draws the same; hers runs, shows its events, and what breaks."""
    with (
        serving(Served(tmp_path, pace=QUICK)) as served,
        served.admit("city") as city,
        served.admit("school") as school,
    ):
        city.register_source(STREET)
        plausible = README | {
            "name": "plausible temperatures",
            "tasks": [*README["tasks"][:2], README["tasks"][3]],
            "streams": [{"from": "street", "to": "plausible"}, {"from": "plausible", "to": "averages"}],
        }
        served.until_state(school, school.submit(plausible).id, DataflowState.RUNNING)
        with served.client() as operator:
            key = operator.make_key(KeyForm(tenant="city")).key
        with pages_of(browser, f"http://127.0.0.1:{served.port}") as open_page:
            page = open_page(None, viewport=SIZE)
            film = Film(page)
            _sign_in(page, key)
            _compose(page, film)
            _look_into(page, film, served)
            _break(page, film, served)
            if folder := os.environ.get(KEPT):
                film.save(Path(folder) / "walk.webp")


def _sign_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()


def _compose(page: Page, film: Film) -> None:
    """Draw the README's dataflow with the mouse, see what runs already, and submit it."""
    page.get_by_role("link", name="Compose", exact=True).first.click()
    expect(page.locator(".cm-content")).to_be_visible()
    film.frame()
    form = page.get_by_role("region", name="The selected task")
    x, y = middle(canvas(page))
    for place, written in enumerate(README["tasks"]):
        drag(page, middle(searched(page, written["type"])), (x - 220 + 130 * place, y - 120 + 60 * place))
        expect(form.get_by_role("heading", level=2)).to_contain_text(written["type"])
        page.get_by_label("Id", exact=True).fill(written["id"])
        page.get_by_label("Id", exact=True).press("Tab")
        film.frame(0.8)
    for stream in README["streams"]:
        connect(page, stream["from"], stream["to"])
        expect(port(page, stream["to"], "input")).to_be_visible()
    film.frame(1.0)
    task(page, "street").click()
    form.get_by_label("source", exact=True).fill("street")
    task(page, "plausible").click()
    expect(form).to_contain_text("Events arrive with sensor (string), temperature (float).")
    for name, value in README["tasks"][1]["config"].items():
        form.get_by_label(name, exact=True).fill(str(value))
    expect(task(page, "plausible")).to_have_class(re.compile("runs"))
    film.frame(3.0)
    task(page, "average").click()
    form.get_by_label("field", exact=True).fill("temperature")
    form.get_by_role("button", name="sensor").click()
    form.get_by_label("window", exact=True).fill("5")
    page.get_by_label("Name of the dataflow").fill("averages of plausible temperatures")
    expect(ready(page)).to_contain_text("2 of 4 tasks run already")
    film.frame(3.0)
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("link", name="averages of plausible temperatures").click()
    expect(page.locator("main h1")).to_have_text("averages of plausible temperatures")


def _look_into(page: Page, film: Film, served: Served) -> None:
    """Watch it begin to run, and see what enters and leaves a task that is shared."""
    expect(page.locator(".flow-head")).to_contain_text("running", timeout=60_000)
    film.frame()
    task(page, "plausible").click()
    events = page.get_by_role("region", name="Events of plausible")
    sent = 0

    def is_seen() -> bool:
        nonlocal sent
        sent += 1
        served.publish(TOPIC, [{"sensor": "north", "temperature": 20.0 + sent % 5}])
        # Given a moment, as nothing but the page says when it has looked.
        page.wait_for_timeout(300)
        return events.get_by_role("listitem").count() >= 10

    served.until(is_seen, "events at a task")
    expect(events).to_contain_text('"sensor":"north"')
    expect(page.locator("[data-task=plausible]")).to_contain_text("shared with 1 other")
    film.frame(3.0)
    events.scroll_into_view_if_needed()
    film.frame(4.0)


def _break(page: Page, film: Film, served: Served) -> None:
    """Send what does not fit the source: the overview says so, and the source's page why."""
    served.publish(TOPIC, [{"sensor": "north", "temperature": "hot"}])
    page.get_by_role("link", name="Overview", exact=True).first.click()
    rejects = page.get_by_role("listitem").filter(has_text="Source city:street rejected").get_by_role("link")
    expect(rejects).to_be_visible(timeout=60_000)
    film.frame(3.0)
    rejects.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("street")
    expect(page.get_by_text('"temperature": "hot"').first).to_be_visible(timeout=60_000)
    film.frame(4.0)
