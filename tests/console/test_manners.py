"""What holds on every page, filled or empty: accessibility, room on phones and laptops, few bytes, and no motion."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from manager.observations.reports import JobSeen, Measured, StreamMeasured
from tests.console.conftest import ConsoleService, PageFor, console_over, empty_town
from tests.console.contents import metered
from tests.manager.managers import Seen
from tests.manager.rest.fake_service import THEN
from tests.manager.rest.town import Town, town

pytestmark = pytest.mark.chromium
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
"""axe-core, a checker by Deque Systems under the Mozilla Public License 2.0, which is beside it."""
MAIN = Path(str(files("manager.console"))) / "scripts" / "main.js"
STANDARD = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
"""The rules of WCAG 2.2, levels A and AA."""
FIRST_BYTES = 300_000
"""The most that the first page transfers."""
ROUTE = re.compile(r'\{ path: "(/[^"]*)", page: (.*) \},')
"""A row of the table of pages: the path, and the rest."""
VIOLATIONS = """async (tags) => {
  const checked = await axe.run({ runOnly: tags, resultTypes: ["violations"] });
  return checked.violations.flatMap(({ id, nodes }) => nodes.map(({ target, any }) => [
    id, target.join(" "), any.map(({ message }) => message).join("; ")].join(": ")));
}"""
WIDER = """() => {
  const cut = [...document.querySelectorAll("main *, header *")].filter((node) =>
    node.getBoundingClientRect().right > innerWidth + 1 && !node.closest(".table, pre, svg, canvas, .sr-only, .skip"));
  const tables = [...document.querySelectorAll(".table")].filter((node) => node.scrollWidth > node.clientWidth + 1);
  const scrolls = document.documentElement.scrollWidth > innerWidth ? ["the page scrolls sideways"] : [];
  return [...scrolls, ...[...cut, ...tables].slice(0, 3).map((node) => node.outerHTML.slice(0, 200))];
}"""
NAMELESS = """() => [...document.querySelectorAll("input, select, textarea, button, a[href], summary")].filter((node) =>
    !(node.labels?.length || node.getAttribute("aria-label") || node.getAttribute("aria-labelledby")
      || node.textContent.trim() || node.title)).map((node) => node.outerHTML)"""
MOVING = """() => [...document.querySelectorAll("*")].filter((node) => {
    const { transitionDuration, animationName } = getComputedStyle(node);
    return animationName !== "none" || transitionDuration.split(", ").some((time) => parseFloat(time) > 0);
  }).map((node) => node.outerHTML.slice(0, 200))"""
LOOKS = (WIDER, NAMELESS, MOVING)


@pytest.fixture(scope="module", params=["filled", "empty"])
def console_service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleService]:
    """The town with troubles, and a service with a tenant that has done nothing yet."""
    seen, folder = Seen(), tmp_path_factory.mktemp("manners")
    made = _filled(folder, seen) if request.param == "filled" else empty_town(folder, seen)
    with made as there, console_over(there, seen) as served:
        if request.param == "filled":
            metered(served)
        yield served


@contextmanager
def _filled(folder: Path, seen: Seen) -> Iterator[Town]:
    with town(folder, seeing=seen) as made:
        job = made.places["job"]
        behind = Measured(streams={"s": StreamMeasured(lag_events=1_234, lag_seconds=2.5)})
        seen.jobs[job] = JobSeen(job=job, host="main", state="died", trouble="disk full", measured=(behind,), seen=THEN)
        yield made


def paths(console_service: ConsoleService, who: str) -> Iterator[str]:
    """An address of every page that the caller may open; what is not there is part of them."""
    place = console_service.places.get
    given = {":id": place("running", "none"), ":job": place("job", "none"), ":name": "everybodys", ":version": "1"}
    for path, rest in ROUTE.findall(MAIN.read_text(encoding="utf-8")):
        if who == "operator" or "operators: true" not in rest:
            yield "/".join(given.get(part, part) for part in path.split("/"))
    yield "/none"


def visited(page: Page, console_service: ConsoleService, who: str) -> Iterator[str]:
    """Each page, once it has all that it asks for."""
    for path in paths(console_service, who):
        page.goto(f"/#{path}")
        expect(page.locator("h1")).to_be_visible()
        page.wait_for_load_state("networkidle")
        yield path


@pytest.mark.parametrize("who", ["operator", "ann"])
@pytest.mark.parametrize(("width", "scheme"), [(1366, "light"), (360, "dark")])
def test_every_page_is_for_everybody(
    console_service: ConsoleService, page_for: PageFor, who: str, width: int, scheme: str
) -> None:
    """On a laptop and on a phone, axe-core finds no violation of WCAG 2.2, level AA.

    Nothing is cut off, no table scrolls sideways, each control has a name, and nothing moves where that is asked for.
    """
    page = page_for(console_service.keys[who], color_scheme=scheme, viewport={"width": width, "height": 740})
    page.evaluate(AXE)
    found = {
        path: page.evaluate(VIOLATIONS, STANDARD) + [wrong for look in LOOKS for wrong in page.evaluate(look)]
        for path in visited(page, console_service, who)
    }
    assert {} == {path: wrong for path, wrong in found.items() if wrong}


@pytest.mark.usefixtures("console_service")
def test_signing_in_violates_no_guideline(page_for: PageFor) -> None:
    """Nor does the page for those who have no session yet, on a phone."""
    page = page_for(None, viewport={"width": 360, "height": 740})
    expect(page.get_by_label("API key")).to_be_visible()
    page.evaluate(AXE)
    assert [] == page.evaluate(VIOLATIONS, STANDARD)


def test_the_navigation_is_one_row_on_a_laptop_and_a_menu_on_a_phone(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """All links are in one row at 1,366 pixels; at 360 a button shows them, and choosing one hides them again."""
    page = page_for(console_service.keys["operator"], viewport={"width": 1366, "height": 768})
    links = page.get_by_role("navigation").get_by_role("link")
    expect(links.first).to_be_visible()
    assert 1 == len({link.evaluate("(at) => at.getBoundingClientRect().top") for link in links.all()})
    expect(page.get_by_role("button", name="Menu")).to_be_hidden()
    page.set_viewport_size({"width": 360, "height": 740})
    expect(links.first).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("button", name="Menu")).to_have_attribute("aria-expanded", "true")
    links.get_by_text("Savings").click()
    expect(page.get_by_role("heading", name="Savings", level=1)).to_be_visible()
    expect(links.first).to_be_hidden()


def test_the_first_page_is_small(console_service: ConsoleService, page_for: PageFor) -> None:
    """Below 300 kB with all that it asks for, without a cache."""
    page = page_for(console_service.keys["operator"])
    network = page.context.new_cdp_session(page)
    sizes: list[float] = []
    network.on("Network.loadingFinished", lambda loaded: sizes.append(loaded["encodedDataLength"]))
    network.send("Network.enable")
    network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    page.reload()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert 10 < len(sizes)
    assert sum(sizes) < FIRST_BYTES


def test_only_the_composer_loads_the_editor(console_service: ConsoleService, page_for: PageFor) -> None:
    """It is larger than all the rest."""
    page = page_for(console_service.keys["operator"])
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url))
    loading: set[str] = set()
    for path in visited(page, console_service, "operator"):
        if any("codemirror" in url for url in asked):
            loading.add(path)
        asked.clear()
    assert {"compose"} == {path.split("/")[1] for path in loading}


def test_the_overview_says_what_to_do_where_there_is_nothing(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """Then links lead to sources, the composer and the modules; otherwise there are none."""
    page = page_for(console_service.keys["ann"])
    steps = page.locator(".empty").get_by_role("link")
    if console_service.places:
        expect(page.locator(".standing")).to_contain_text(re.compile("All is well|attention"))
        expect(steps).to_have_count(0)
    else:
        expect(page.locator(".standing")).to_have_text("Nothing runs yet, and nothing is wrong.")
        expect(steps).to_have_text(["Add a source", "Compose a dataflow", "See the modules"])
