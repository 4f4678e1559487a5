"""The layout of graphs and the drawing of the running graph."""

import re
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from manager.use_case import Paging
from tests.console.conftest import ConsoleService, PageFor
from tests.console.contents import answer_with, jobs_of, running

pytestmark = pytest.mark.chromium

# Lays each graph out twice, and tells which law it breaks.
LAWS = """
async (graphs) => {
  const { layered, routeOf } = await import("/console/scripts/graph/layers.js");
  function written({ width, height, at, routes }) {
    return JSON.stringify([width, height, [...at], [...routes]]);
  }
  function overlap(one, other) {
    return one.x < other.x + other.width && other.x < one.x + one.width &&
      one.y < other.y + other.height && other.y < one.y + one.height;
  }
  const broken = [];
  graphs.forEach(({ nodes, edges }, number) => {
    const wraps = number % 2 === 1;
    const drawn = layered(nodes, edges, { wraps });
    const boxes = nodes.filter((node) => drawn.at.has(node.id)).map((node) => ({ ...node, ...drawn.at.get(node.id) }));
    const byId = new Map(boxes.map((box) => [box.id, box]));
    const laws = {
      "all nodes are placed": boxes.length === nodes.length && drawn.at.size === nodes.length,
      "they are within": boxes.every(({ x, y, width, height }) =>
        x >= 0 && y >= 0 && x + width <= drawn.width && y + height <= drawn.height),
      "none overlap": boxes.every((box, place) => boxes.slice(0, place).every((other) => !overlap(box, other))),
      "edges have routes": edges.every(([from, to]) => drawn.routes.has(routeOf(from, to))),
      "edges go right": edges.every(([from, to]) => byId.get(from).x + byId.get(from).width < byId.get(to).x),
      "so do routes, from end to end": edges.every(([from, to]) => {
        const route = drawn.routes.get(routeOf(from, to));
        const [begin, end] = [byId.get(from), byId.get(to)];
        return route[0][0] === begin.x + begin.width && route[0][1] === begin.y + begin.height / 2 &&
          route.at(-1)[0] === end.x && route.at(-1)[1] === end.y + end.height / 2 &&
          route.every(([x], place) => place === 0 || x >= route[place - 1][0]);
      }),
      "no route bends within a node": [...drawn.routes.values()].every((route) =>
        route.slice(1, -1).every(([x, y]) => boxes.every((box) =>
          !(x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height)))),
      "the same again": written(layered(nodes, edges, { wraps })) === written(drawn),
    };
    Object.entries(laws).filter(([, holds]) => !holds).forEach(([law]) => broken.push([number, law]));
  });
  return broken;
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A graph as input of the layout."""

    nodes: list[dict[str, Any]]
    edges: list[list[int]]


def graph(seed: int) -> Drawn:
    """A graph without cycles: few or many parts, chains or hubs, short, long and duplicate edges."""
    random = Random(seed)
    size = random.choice([0, 1, 2, 5, 20, 40, 60])
    reach, inputs = random.choice([1, 3, size + 1]), random.choice([0.3, 1.0, 2.5])
    nodes = [{"id": n, "width": random.randrange(1, 200), "height": random.randrange(1, 90)} for n in range(size)]
    edges = [
        [random.randrange(max(0, child - reach), child), child]
        for child in range(1, size)
        for _ in range(int(inputs) + (random.random() < inputs % 1))
    ]
    # The order in which nodes come says nothing of what feeds what.
    random.shuffle(nodes)
    return Drawn(nodes=nodes, edges=edges)


def test_the_laws_of_layouts(page_for: PageFor) -> None:
    """Nodes do not overlap, edges go right and around nodes, and the same graph looks the same."""
    graphs = [graph(seed) for seed in range(200)]
    page = page_for(None)
    sent = [{"nodes": each.nodes, "edges": each.edges} for each in graphs]
    assert [] == page.evaluate(LAWS, sent)


def test_edges_that_close_a_cycle_do_not_affect_the_layout(page_for: PageFor) -> None:
    """Jobs may feed each other: the closing edge goes backwards, and the rest is as without it."""
    places = """
    async () => {
      const { layered, routeOf } = await import("/console/scripts/graph/layers.js");
      const nodes = ["a", "b", "c"].map((id) => ({ id, width: 10, height: 10 }));
      const forwards = [["a", "b"], ["b", "c"]];
      const [straight, cyclic] = [layered(nodes, forwards), layered(nodes, [...forwards, ["c", "a"], ["b", "b"]])];
      return [[...straight.at], [...cyclic.at], cyclic.routes.get(routeOf("c", "a")), cyclic.routes.size];
    }
    """
    straight, cyclic, back, routes = page_for(None).evaluate(places)
    assert straight == cyclic
    assert 3 == routes
    assert back[0][0] > back[-1][0]


def test_many_jobs_fill_the_screen(page_for: PageFor) -> None:
    """Those that one job feeds are in several columns, so that all of them can be read at once."""
    shape = """
    async () => {
      const { layered } = await import("/console/scripts/graph/layers.js");
      const nodes = Array.from({ length: 50 }, (_, id) => ({ id, width: 1900, height: 1200 }));
      const edges = nodes.slice(1).map(({ id }) => [0, id]);
      const shapes = [{}, { wraps: true }].map((how) => layered(nodes, edges, how));
      return shapes.map(({ width, height }) => width / height);
    }
    """
    tall, filling = page_for(None).evaluate(shape)
    assert tall < 0.1
    assert 1 < filling < 3


SIZE = 1_000
TIMES = "\N{MULTIPLICATION SIGN}"
WRITTEN = """
async () => {
  const { layoutOf, byJob } = await import("/console/scripts/graph/layout.js");
  const { draw } = await import("/console/scripts/graph/drawing.js");
  const { colouring } = await import("/console/scripts/graph/colours.js");
  const pages = await Promise.all([0, 500].map((after) => fetch(`/v1/running/tasks?limit=500&after=${after}`)));
  const tasks = (await Promise.all(pages.map((page) => page.json()))).flatMap(({ items }) => items);
  const layout = layoutOf(tasks);
  const look = {
    tasks: new Map(tasks.map((task) => [task.instance, task])), jobs: new Map([["10", { state: "running" }]]),
    marked: null, chosen: null, colours: colouring("load", byJob(tasks)), theme: { font: "sans-serif" },
  };
  const pen = document.createElement("canvas").getContext("2d");
  const node = layout.nodes.get(950);
  function writtenAt(scale) {
    const texts = [];
    pen.fillText = (text) => texts.push(text);
    const size = { width: 1200, height: 600 };
    draw(pen, layout, { scale, x: 600 - node.x * scale, y: 300 - node.y * scale }, size, look);
    return texts;
  }
  return { far: writtenAt(0.1), middle: writtenAt(0.2), near: writtenAt(0.6), nearest: writtenAt(1) };
}
"""
"""Gives the texts that are drawn at four scales."""


@pytest.fixture
def lists() -> dict[str, list[dict[str, Any]]]:
    """The answers of the API; a test may change them."""
    tasks = running(SIZE)
    return {"/v1/running/tasks": tasks, "/v1/jobs": jobs_of(tasks)}


@pytest.fixture
def page(page_for: PageFor, console_service: ConsoleService, lists: dict[str, list[dict[str, Any]]]) -> Page:
    """The page of the graph, with a thousand tasks in ten jobs."""
    made = page_for(console_service.keys["operator"], viewport={"width": 1280, "height": 900})
    answer_with(made, lists)
    made.goto("/#/graph")
    expect(summary(made)).to_have_text("In view: 9 streams between 10 jobs, of 1,000 tasks in all.")
    return made


def summary(page: Page) -> Locator:
    return page.locator(".canvas-summary")


def board(page: Page) -> Locator:
    return page.get_by_role("application", name="Running graph")


def in_view(page: Page) -> int:
    """The number of drawn tasks; none from afar."""
    found = re.search(r"In view: ([\d,]+) tasks?", summary(page).inner_text())
    return 0 if found is None else int(found[1].replace(",", ""))


def test_jobs_are_boxes_from_afar_and_tasks_from_nearby(page: Page) -> None:
    """A thousand tasks are ten boxes; Enter goes to the selected one, whose tasks are drawn; and 0 back."""
    page.get_by_role("button", name="job 10", exact=True).click()
    details = page.get_by_role("region", name="Selection")
    expect(details.get_by_role("heading", name="Job 10")).to_be_visible()
    expect(details).to_contain_text("9.5")
    board(page).press("Enter")
    expect(summary(page)).to_contain_text(re.compile(r"In view: 10\d tasks"))
    board(page).press("0")
    expect(summary(page)).to_contain_text("In view: 9 streams between 10 jobs")
    details.get_by_role("button", name="Zoom in on it").click()
    expect(summary(page)).to_contain_text(re.compile(r"In view: 10\d tasks"))


def test_more_is_written_the_nearer_it_is(page: Page) -> None:
    """First the jobs with counts and load, then tasks, then their names, and at last their figures."""
    page.get_by_label("Search").fill("#950")
    page.get_by_role("region", name="Tasks and jobs as a list").get_by_role("button", name="#950").click()
    written = page.evaluate(WRITTEN)
    assert {"job 10", "100 tasks", "9.51 cores", "1 failed"} <= set(written["far"])
    assert not [text for text in written["far"] + written["middle"] if "step" in text]
    assert [text for text in written["near"] if text.startswith("step ")]
    assert not [text for text in written["near"] if "/s ·" in text]
    assert [text for text in written["nearest"] if "/s · " in text]
    assert [text for text in written["nearest"] if text.startswith("step ")]
    assert {f"{TIMES}{number}" for number in (20, 9, 5, 3, 2)} & set(written["nearest"])


def test_a_task_is_found_and_shown_with_its_neighbours(page: Page) -> None:
    """By name, type, instance, job and state; selecting it brings it into view and shows its details."""
    search = page.get_by_label("Search")
    found = page.get_by_role("region", name="Tasks and jobs as a list")
    search.fill("job 10 failed")
    expect(found.locator("caption")).to_have_text("1 task")
    search.fill("step failed")
    expect(found.locator("caption")).to_have_text("1 task")
    search.fill("no such type")
    expect(found).to_contain_text("No matching task.")
    search.fill("#1000")
    found.get_by_role("button", name="#1000").click()
    details = page.get_by_role("region", name="Selection")
    expect(details.get_by_role("heading", name="#1000")).to_be_visible()
    # What a host says is text, whatever it holds.
    expect(details).to_contain_text("no such field: <b>temperature</b>")
    expect(details).to_contain_text("4.17 min")
    parent = running(SIZE)[-1]["inputs"][0]
    details.get_by_role("button", name=f"#{parent}", exact=False).first.click()
    expect(details.get_by_role("heading", name=f"#{parent}")).to_be_visible()
    expect(details.get_by_role("button", name="#1000")).to_be_visible()
    assert 0 < in_view(page) < 80


def test_pointer_and_wheel_move_the_graph_and_a_click_selects(page: Page) -> None:
    """Dragging pans, the wheel zooms at the pointer, and a click selects a task or job."""
    page.get_by_label("Search").fill("#500")
    page.get_by_role("region", name="Tasks and jobs as a list").get_by_role("button", name="#500").click()
    details = page.get_by_role("region", name="Selection")
    expect(details.get_by_role("heading", name="#500")).to_be_visible()
    board(page).press("Escape")
    expect(details).to_contain_text("Nothing selected")
    board(page).scroll_into_view_if_needed()
    box = board(page).bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y + 60, steps=4)
    page.mouse.up()
    # A drag is no click.
    expect(details).to_contain_text("Nothing selected")
    page.mouse.move(x + 120, y + 60)
    before = in_view(page)
    page.mouse.wheel(0, 400)
    expect(summary(page)).not_to_contain_text(f"In view: {before} task")
    assert in_view(page) > before
    page.mouse.click(x + 120, y + 60)
    expect(details.get_by_role("heading", name="#500")).to_be_visible()


def test_two_fingers_zoom_the_graph(page: Page) -> None:
    """Around the point between them: tasks are in view, then all jobs again."""
    whole = "In view: 9 streams between 10 jobs"
    board(page).scroll_into_view_if_needed()
    box = board(page).bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touching = page.context.new_cdp_session(page)

    def pinch(apart: list[int]) -> None:
        for number, each in enumerate(apart):
            points = [{"x": x + side * each, "y": y, "id": place} for place, side in enumerate((-1, 1))]
            kind = "touchMove" if number else "touchStart"
            touching.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        touching.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    pinch([20, 60, 120, 200])
    pinch([20, 60, 120, 200])
    expect(summary(page)).not_to_contain_text(whole)
    pinch([200, 120, 60, 20])
    pinch([200, 120, 60, 20])
    expect(summary(page)).to_contain_text(whole)
    # Fingers that moved it chose nothing.
    expect(page.get_by_role("region", name="Selection")).to_contain_text("Nothing selected")


def test_updates_keep_the_view_and_the_selection(page: Page, lists: dict[str, list[dict[str, Any]]]) -> None:
    """When tasks come and go, the selected one stays in place, unless it is gone."""
    page.get_by_label("Search").fill("#950")
    page.get_by_role("region", name="Tasks and jobs as a list").get_by_role("button", name="#950").click()
    details = page.get_by_role("region", name="Selection")
    expect(details.get_by_role("heading", name="#950")).to_be_visible()
    lists["/v1/running/tasks"] = [*running(SIZE)[:-1], *(each | {"job": "11"} for each in running(1_100)[1_000:])]
    expect(page.locator("main")).to_contain_text("Running: 1,099 tasks in 11 jobs", timeout=15_000)
    expect(details.get_by_role("heading", name="#950")).to_be_visible()
    board(page).scroll_into_view_if_needed()
    box = board(page).bounding_box()
    assert box is not None
    board(page).press("Escape")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(details.get_by_role("heading", name="#950")).to_be_visible()


def test_colours_have_a_legend(page: Page) -> None:
    """By job, by number of dataflows, by tenant, or by load."""
    legend = page.get_by_role("list", name="Colours")
    mark = f"{TIMES}3: shared by 3 dataflows"
    expect(legend.get_by_role("listitem")).to_have_text([*(f"job {number}" for number in range(1, 11)), mark])
    expected = {
        "sharing": [
            "16 dataflows or more",
            "8 to 15 dataflows",
            "4 to 7 dataflows",
            "2 or 3 dataflows",
            "one dataflow",
        ],
        "tenant": ["ann", "bob", "several tenants"],
        "load": ["0.5 cores or more", "0.1 cores or more", "0.02 cores or more", "less", "not known yet"],
    }
    for way, words in expected.items():
        page.get_by_label("Colour", exact=True).select_option(way)
        expect(legend.get_by_role("listitem")).to_have_text([*words, mark])


def test_a_highlighted_dataflow_is_brought_into_view(page: Page) -> None:
    """All of its tasks are in view, and few others."""
    tasks = [{"instance": instance} for instance in (210, 211, 212, 213)]
    page.route("**/v1/dataflows/d-7", lambda route: route.fulfill(json={"id": "d-7", "name": "x", "tasks": tasks}))
    page.get_by_label("Highlight a dataflow").fill("d-7")
    page.get_by_label("Highlight a dataflow").press("Enter")
    expect(page.get_by_role("list", name="Colours")).to_contain_text("outlined: 4 tasks of x")
    expect(summary(page)).to_contain_text(" tasks and ")
    assert 4 <= in_view(page) <= 300


def test_the_graph_fits_a_small_screen(page: Page) -> None:
    """Only tables and the graph itself scroll sideways."""
    page.set_viewport_size({"width": 360, "height": 700})
    page.get_by_role("button", name="Show all").click()
    expect(summary(page)).to_contain_text("In view: 9 streams between 10 jobs")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_dataflow_is_highlighted_in_the_real_graph(console_service: ConsoleService, page_for: PageFor) -> None:
    """Its tasks are outlined and counted, with a link to its page; an unknown one is reported."""
    dataflow = console_service.places["running"]
    page = page_for(console_service.keys["operator"], f"#/graph?dataflow={dataflow}")
    marked = page.get_by_role("list", name="Colours").get_by_role("listitem").last
    expect(marked).to_contain_text("outlined: 4 tasks of averages of plausible temperatures")
    assert f"#/dataflows/{dataflow}" == marked.get_by_role("link").get_attribute("href")
    with console_service.tools.committer.looking() as state:
        expect(summary(page)).to_contain_text(f"of {len(state.running.tasks)} tasks in all")
    page.get_by_label("Highlight a dataflow").fill("nowhere")
    page.get_by_label("Highlight a dataflow").press("Enter")
    expect(page.get_by_role("alert").filter(has_text="nowhere")).to_be_visible()
    expect(marked).to_have_text(f"{TIMES}3: shared by 3 dataflows")


def test_a_tenant_sees_its_own_tasks(console_service: ConsoleService, page_for: PageFor) -> None:
    """By its own names, with how many dataflows share them, and without a word of others or of how jobs are run."""
    service = console_service.service
    own = service.running.tasks(service.administration.caller(console_service.keys["bob"]), Paging()).items
    shared = next(task for task in own if task.tenants > 1 and task.inputs)
    page = page_for(console_service.keys["bob"], "#/graph")
    expect(summary(page)).to_contain_text(f"of {len(own)} tasks in all")
    expect(page.locator("main")).to_contain_text(f"Your running tasks: {len(own)} tasks")
    assert ["by job", "by load", "by number of dataflows"] == page.get_by_label("Colour", exact=True).locator(
        "option"
    ).all_inner_texts()
    page.get_by_label("Search").fill(f"#{shared.instance}")
    found = page.get_by_role("region", name="Tasks and jobs as a list")
    found.get_by_role("button", name=f"{shared.name} #{shared.instance}").click()
    details = page.get_by_role("region", name="Selection")
    expect(details).to_contain_text(f"{shared.dataflows} dataflows of {shared.tenants} tenants")
    assert 0 == page.locator("main a[href^='#/jobs']").count()
    assert "ann" not in details.inner_text()
