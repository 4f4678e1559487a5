"""The composer: dataflows drawn by mouse and by keyboard, with the document beside the canvas."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Request, Route, expect

from manager.rest import examples
from manager.use_case import Caller, Paging
from tests.console.composing import canvas, connect, drag, middle, port, ready, searched, task
from tests.console.conftest import ConsoleService, PageFor
from tests.console.riotbench_templates import FILE, templates
from tests.console.riotbench_templates import written as written_templates

pytestmark = pytest.mark.chromium
README: dict[str, Any] = {
    "version": 1,
    "name": "drawn",
    "tasks": [
        {"id": "street", "type": "source", "config": {"source": "city:street"}},
        {"id": "plausible", "type": "range_filter", "config": {"min": -12.5, "max": 43.1, "field": "temperature"}},
        {
            "id": "average",
            "type": "block_window_average",
            "config": {"field": "temperature", "by": ["sensor"], "window": 5},
        },
        {"id": "averages", "type": "output"},
    ],
    "streams": [
        {"from": "street", "to": "plausible"},
        {"from": "plausible", "to": "average"},
        {"from": "average", "to": "averages"},
    ],
}
"""The dataflow of the README."""


@pytest.fixture
def composer(console_service: ConsoleService, page_for: PageFor) -> Page:
    """The composer of ann, with an empty document."""
    return opened(page_for, console_service.keys["ann"])


def opened(page_for: PageFor, key: str, at: str = "#/compose", **options: Any) -> Page:
    """A composer with everything loaded."""
    page = page_for(key, at, viewport={"width": 1500, "height": 1000}, **options)
    expect(page.locator(".cm-content")).to_be_visible()
    return page


def written(page: Page) -> dict[str, Any]:
    """The document beside the canvas."""
    found: dict[str, Any] = json.loads("\n".join(page.locator(".cm-line").all_inner_texts()))
    return found


def write(page: Page, document: dict[str, Any] | str) -> None:
    """Replace the document by hand."""
    text = document if isinstance(document, str) else json.dumps(document, indent=1)
    page.get_by_label("Document").fill(text)


def ann(service: ConsoleService) -> Caller:
    return service.service.administration.caller(service.keys["ann"])


def submitted(service: ConsoleService, name: str) -> list[str]:
    """The ids of ann's dataflows with a name."""
    return [each.id for each in service.service.dataflows.page(ann(service), Paging(), name=name).items]


def submit(page: Page) -> None:
    page.get_by_role("button", name="Submit").click()


def test_a_dataflow_is_drawn_with_the_mouse(console_service: ConsoleService, composer: Page) -> None:
    """Types are dragged, ports connected, forms filled; what runs already lights up; it is submitted as drawn."""
    page = composer
    form = page.get_by_role("region", name="The selected task")
    x, y = middle(canvas(page))
    names = {"source": "street", "range_filter": "plausible", "block_window_average": "average", "output": "averages"}
    for at, (type_, name) in enumerate(names.items()):
        drag(page, middle(searched(page, type_)), (x - 220 + 130 * at, y - 180 + 100 * at))
        expect(form.get_by_role("heading", level=2)).to_contain_text(type_)
        page.get_by_label("Id", exact=True).fill(name)
        page.get_by_label("Id", exact=True).press("Tab")
    connect(page, "street", "plausible")
    connect(page, "plausible", "average")
    # A click on each port does as well as a drag.
    port(page, "average", "output").click()
    port(page, "averages", "input").click()
    task(page, "street").click()
    page.get_by_label("source", exact=True).fill("city:street")
    expect(task(page, "street")).to_have_class(re.compile("runs"))
    expect(form).to_contain_text("Its events have sensor (string), temperature (float).")
    task(page, "plausible").click()
    expect(form).to_contain_text("Events arrive with sensor (string), temperature (float).")
    offers = form.get_by_label("field", exact=True)
    listed = page.evaluate("(at) => [...at.list.options].map((each) => each.value)", offers.element_handle())
    assert ["sensor", "temperature"] == listed
    for name, value in (("min", "-12.5"), ("max", "43.1"), ("field", "temperature")):
        form.get_by_label(name, exact=True).fill(value)
    expect(task(page, "plausible")).to_have_accessible_name(
        "plausible range_filter runs already; it costs nothing more"
    )
    task(page, "average").click()
    form.get_by_label("field", exact=True).fill("temperature")
    form.get_by_role("button", name="sensor").click()
    form.get_by_label("window", exact=True).fill("5")
    page.get_by_label("Name of the dataflow").fill("drawn")
    expect(ready(page)).to_contain_text("2 of 4 tasks run already")
    expect(task(page, "average")).to_have_accessible_name(re.compile("starts new, with 0.* cores"))
    assert README == written(page)
    expect(page.locator(".card").filter(has_text="Tasks reused").locator(".figure")).to_have_text("2 of 4")
    submit(page)
    page.get_by_role("link", name="drawn").click()
    expect(page.locator("main h1")).to_have_text("drawn")
    (made,) = submitted(console_service, "drawn")
    assert README == console_service.service.dataflows.get(ann(console_service), made).document


def test_a_dataflow_is_composed_by_keyboard(console_service: ConsoleService, composer: Page) -> None:
    """Add, connect, configure and submit, without a mouse."""
    page, keys = composer, composer.keyboard
    canvas(page).focus()
    for type_ in ("source", "range_filter", "output"):
        keys.press("a")
        keys.type(type_)
        keys.press("Enter")
        expect(task(page, type_)).to_be_focused()
    keys.press("ArrowLeft")
    keys.press("ArrowLeft")
    expect(task(page, "source")).to_be_focused()
    for left, right in (("source", "range_filter"), ("range_filter", "output")):
        keys.press("c")
        keys.press("ArrowRight")
        keys.press("Enter")
        expect(task(page, right)).to_be_focused()
        assert {"from": left, "to": right} in written(page)["streams"]
    keys.press("ArrowLeft")
    expect(task(page, "range_filter")).to_have_class(re.compile("selected"))
    keys.press("Enter")
    expect(page.get_by_label("min", exact=True)).to_be_focused()
    keys.type("1")
    keys.press("Tab")
    keys.type("2")
    keys.press("Tab")
    keys.type("temperature")
    assert {"min": 1, "max": 2, "field": "temperature"} == written(page)["tasks"][1]["config"]
    page.get_by_label("Name of the dataflow").fill("by keyboard")
    task(page, "source").focus()
    keys.press("Enter")
    keys.type("city:street")
    expect(ready(page)).to_be_visible()
    page.get_by_role("button", name="Submit").focus()
    keys.press("Enter")
    expect(page.get_by_role("link", name="by keyboard")).to_be_focused()
    assert 1 == len(submitted(console_service, "by keyboard"))


def test_tasks_are_copied_moved_and_removed_by_keyboard(composer: Page) -> None:
    """And all of it is undone and redone."""
    page, keys = composer, composer.keyboard
    write(page, README)
    task(page, "plausible").click()
    keys.press("Control+c")
    keys.press("Control+v")
    copy = task(page, "plausible-2")
    expect(copy).to_be_focused()
    assert written(page)["tasks"][1]["config"] == written(page)["tasks"][4]["config"]
    above = middle(copy)
    keys.press("Shift+ArrowDown")
    assert above[1] < middle(copy)[1]
    keys.press("Delete")
    expect(copy).to_have_count(0)
    assert README == written(page)
    keys.press("Control+a")
    keys.press("Control+x")
    assert ([], []) == (written(page)["tasks"], written(page)["streams"])
    canvas(page).focus()
    keys.press("Control+v")
    assert README == written(page)
    for key, tasks in (("Control+z", 0), ("Control+z", 4), ("Control+Shift+z", 0), ("Control+y", 4)):
        keys.press(key)
        expect(page.locator("[data-task]")).to_have_count(tasks)


def test_the_document_and_the_canvas_are_always_the_same(composer: Page) -> None:
    """What is typed is drawn as soon as it is JSON; meanwhile the canvas stays, and takes no edits."""
    page = composer
    write(page, README)
    expect(page.locator("[data-task]")).to_have_count(4)
    expect(page.locator("[data-stream]")).to_have_count(3)
    write(page, json.dumps(README)[:-1])
    expect(page.get_by_text("This is not JSON")).to_be_visible()
    expect(page.locator("[data-task]")).to_have_count(4)
    task(page, "plausible").click()
    page.keyboard.press("Delete")
    expect(page.get_by_role("alert").filter(has_text="not JSON at the moment")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    assert README == written(page)
    task(page, "plausible").click()
    page.keyboard.press("Delete")
    left = README | {
        "tasks": [each for each in README["tasks"] if each["id"] != "plausible"],
        "streams": README["streams"][2:],
    }
    assert left == written(page)


WORDS = {"id": "words", "type": "project", "config": {"computed": {"temperature": "sensor"}}}
"""A task whose events have a temperature that is a text."""


@pytest.mark.parametrize(
    ("left", "right", "why"),
    [
        ("average", "plausible", "plausible already leads to average; a dataflow has no cycles."),
        ("street", "plausible", "There is such a stream from street to plausible already."),
        (
            "words",
            "average",
            "average reads the field temperature as float or integer, and in these events it is string.",
        ),
    ],
)
def test_a_wrong_stream_is_refused_with_why(composer: Page, left: str, right: str, why: str) -> None:
    """At once, and the document stays as it is."""
    page = composer
    streams = [*README["streams"], {"from": "street", "to": "words"}]
    document = README | {"tasks": [*README["tasks"], WORDS], "streams": streams}
    write(page, document)
    expect(page.get_by_text("1 problem to solve.")).to_be_visible()
    connect(page, left, right)
    expect(page.get_by_role("alert")).to_contain_text(why)
    assert document == written(page)
    # Without a mouse it is refused in the same way.
    task(page, left).click()
    page.get_by_label("Lead a stream to").select_option(right)
    page.get_by_role("button", name="Connect", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text(why)


def test_a_side_input_takes_only_what_it_reads(composer: Page) -> None:
    """Such as models; a main input takes events whose field is still to be chosen."""
    page = composer
    predict = {"id": "predict", "type": "linear_regression_predict", "config": {"fields": ["humidity"]}}
    write(page, README | {"tasks": [*README["tasks"], predict]})
    expect(task(page, "predict")).to_have_accessible_name(re.compile("waits for a stream"))
    for name, streams in (("model", 3), ("in", 4)):
        end = task(page, "predict").locator(f'[data-port="{name}"] .port-dot')
        drag(page, middle(port(page, "street", "output")), middle(end))
        assert streams == len(written(page)["streams"])
        if name == "model":
            expect(page.get_by_role("alert")).to_contain_text("predict needs the field model")
    assert {"from": "street", "to": "predict", "to_port": "in"} == written(page)["streams"][-1]


def test_problems_are_shown_at_tasks_fields_and_lines(composer: Page) -> None:
    """Each with its remedy, which a button does where that is mechanical."""
    page = composer
    wrong = json.loads(json.dumps(README).replace('"range_filter"', '"range_fliter"').replace('"window"', '"windwo"'))
    wrong["streams"].append(wrong["streams"][0])
    wrong["tasks"][0]["config"]["source"] = "city:stret"
    write(page, wrong)
    problems = page.get_by_role("region", name="3 problems")
    expect(problems.get_by_role("listitem")).to_have_count(3)
    first = problems.get_by_role("listitem").filter(has_text="range_fliter").first
    expect(first).to_contain_text("/tasks/1/type")
    expect(first).to_contain_text("did you mean 'range_filter'?")
    line = next(at for at, each in enumerate(json.dumps(wrong, indent=1).splitlines(), 1) if "range_fliter" in each)
    expect(first.get_by_role("button").first).to_have_text(f"Line {line}, column 12")
    expect(task(page, "plausible")).to_have_class(re.compile("invalid"))
    task(page, "average").click()
    form = page.get_by_role("region", name="The selected task")
    form.get_by_role("button", name="Use window").click()
    for name in ("Use range_filter", "Use city:street", "Remove the stream"):
        problems = page.get_by_role("region", name=re.compile("problem"))
        problems.get_by_role("button", name=name).click()
        expect(problems.get_by_role("button", name=name)).to_have_count(0)
    expect(ready(page)).to_be_visible()
    assert README == written(page)


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ('{\n  "version": 1,\n  "name": nonsense\n}', "Line 3, column 11"),
        ('{"version": 1', "Line 1, column 14"),
        ('{\n  "a": [1, 2,\n  ]\n}', "Line 3, column 3"),
        ("{} {}", "Line 1, column 4"),
        ("", "Line 1, column 1"),
    ],
)
def test_a_syntax_error_is_shown_at_its_place(composer: Page, document: str, where: str) -> None:
    """Without a request."""
    asked: list[Request] = []
    composer.on("request", lambda request: asked.append(request) if "explain" in request.url else None)
    write(composer, document)
    problem = composer.get_by_role("region", name="1 problem").get_by_role("listitem")
    expect(problem).to_contain_text("This is not JSON")
    expect(problem.get_by_role("button")).to_have_text(where)
    problem.get_by_role("button").click()
    expect(composer.get_by_label("Document")).to_be_focused()
    expect(composer.get_by_role("button", name="Submit")).to_be_disabled()
    assert [] == asked


def test_only_an_explained_document_can_be_submitted(composer: Page) -> None:
    """A changed one must be explained again, which happens by itself."""
    page = composer
    write(page, README | {"name": "changed"})
    expect(page.get_by_role("button", name="Submit")).to_be_enabled()
    held: list[Route] = []
    page.route("**/v1/explain?*", lambda route: held.append(route))  # noqa: PLW0108 - it gets an attribute
    page.get_by_label("Name of the dataflow").fill("changed again")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    expect(page.get_by_role("heading", name="Preview")).to_have_count(0)


def test_a_submission_whose_answer_is_lost_is_sent_again_as_the_same(
    console_service: ConsoleService, composer: Page
) -> None:
    """An attempt has one idempotency key, so the dataflow exists once; the next attempt has another."""
    page = composer
    keys: list[str] = []
    lost = [True]

    def lose_the_first_answer(route: Route) -> None:
        if route.request.method == "POST":
            keys.append(route.request.headers["idempotency-key"])
            if lost:
                lost.clear()
                route.fetch()
                route.abort()
                return
        route.continue_()

    page.route("**/v1/dataflows*", lose_the_first_answer)
    write(page, README | {"name": "sent twice"})
    expect(ready(page)).to_be_visible()
    submit(page)
    expect(page.get_by_role("alert").filter(has_text="The service cannot be reached").first).to_be_visible()
    submit(page)
    expect(page.get_by_role("heading", name="Submitted")).to_be_visible()
    assert 1 == len(submitted(console_service, "sent twice"))
    write(page, README | {"name": "sent later"})
    expect(ready(page)).to_be_visible()
    submit(page)
    expect(page.get_by_role("link", name="sent later")).to_be_visible()
    assert (3, 2, keys[0]) == (len(keys), len(set(keys)), keys[1])


def test_an_operator_names_a_tenant_and_opens_a_file(
    console_service: ConsoleService, page_for: PageFor, tmp_path: Path
) -> None:
    """The file is drawn, and the start is the chosen one."""
    page = opened(page_for, console_service.keys["operator"])
    file = tmp_path / "dataflow.json"
    file.write_text(json.dumps(README | {"name": "from a file"}))
    page.get_by_text("Begin with a template").click()
    page.get_by_label("From a file").set_input_files(file)
    expect(task(page, "plausible")).to_be_visible()
    expect(page.get_by_text("Name the tenant")).to_be_visible()
    page.get_by_label("Tenant").fill("nobody")
    expect(page.get_by_role("alert").filter(has_text="Not found")).to_be_visible()
    page.get_by_label("Tenant").fill("ann")
    page.get_by_label("Start").select_option("earliest")
    expect(ready(page)).to_contain_text("0 of 4")
    submit(page)
    expect(page.get_by_role("link", name="from a file")).to_be_visible()
    (made,) = submitted(console_service, "from a file")
    assert "earliest" == console_service.service.dataflows.get(ann(console_service), made).start


def test_a_running_dataflow_is_replaced(console_service: ConsoleService, page_for: PageFor) -> None:
    """Its page leads to the composer, which has its document; what is submitted is the next revision of it."""
    raw = json.dumps(README | {"name": "to replace"}).encode()
    made = console_service.service.dataflows.submit(ann(console_service), raw).id
    page = page_for(console_service.keys["ann"], f"#/dataflows/{made}")
    page.get_by_role("link", name="Edit…").click()
    expect(page.locator(".cm-content")).to_be_visible()
    expect(page.get_by_text("4 of 4 tasks run already")).to_be_visible()
    assert f"#/compose/{made}" in page.url
    assert README["tasks"] == written(page)["tasks"]
    task(page, "average").click()
    page.get_by_label("window", exact=True).fill("7")
    expect(page.get_by_text("2 of 4 tasks run already")).to_be_visible()
    page.get_by_role("button", name="Replace", exact=True).click()
    expect(page.get_by_role("link", name="to replace")).to_be_visible()
    shown = console_service.service.dataflows.get(ann(console_service), made)
    assert (2, 7) == (shown.revision, shown.document["tasks"][2]["config"]["window"])


def test_the_second_of_two_editors_sees_what_the_first_has_changed(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """It may take that, and undo brings its own back, or overwrite it; nothing is overwritten unseen."""
    raw = json.dumps(README | {"name": "of two"}).encode()
    made = console_service.service.dataflows.submit(ann(console_service), raw).id
    first, second = (opened(page_for, console_service.keys["ann"], f"#/compose/{made}") for _ in range(2))
    for page, window in ((first, "17"), (second, "19")):
        expect(page.get_by_text("4 of 4 tasks run already")).to_be_visible()
        task(page, "average").click()
        page.get_by_label("window", exact=True).fill(window)
        expect(page.get_by_text("2 of 4 tasks run already")).to_be_visible()
        page.get_by_role("button", name="Replace", exact=True).click()
    expect(first.get_by_role("link", name="of two")).to_be_visible()
    conflict = second.get_by_role("alert").filter(has_text="Changed meanwhile")
    expect(conflict).to_contain_text("task average has 17 as its config.window, and had 5")
    conflict.get_by_role("button", name="Take theirs").click()
    expect(second.get_by_label("window", exact=True)).to_have_value("17")
    expect(second.get_by_text("4 of 4 tasks run already")).to_be_visible()
    second.get_by_role("button", name="Undo").click()
    expect(second.get_by_label("window", exact=True)).to_have_value("19")
    expect(second.get_by_text("2 of 4 tasks run already")).to_be_visible()
    # The first goes on, by the document that it has submitted.
    first.get_by_label("window", exact=True).fill("18")
    expect(first.get_by_text("2 of 4 tasks run already")).to_be_visible()
    first.get_by_role("button", name="Replace", exact=True).click()
    expect(first.get_by_role("status").filter(has_text="Submitted revision 3.")).to_be_attached()
    second.get_by_role("button", name="Change while it runs").click()
    expect(conflict).to_contain_text("task average has 18 as its config.window, and had 17")
    second.get_by_role("button", name="Replace", exact=True).click()
    conflict.get_by_role("button", name="Overwrite theirs").click()
    expect(second.get_by_role("link", name="of two")).to_be_visible()
    shown = console_service.service.dataflows.get(ann(console_service), made)
    assert (4, 19) == (shown.revision, shown.document["tasks"][2]["config"]["window"])


def test_what_the_canvas_does_not_draw_stays_as_it_is_written(composer: Page) -> None:
    """Policies, points and large numbers among them, down to the last space."""
    page = composer
    kept = '"policy": {"throughput":   0.80, "big": 12345678901234567890},\n  "points": [ ],'
    tasks = ", ".join(json.dumps(each) for each in README["tasks"])
    streams = ", ".join(json.dumps(each) for each in README["streams"])
    write(page, f'{{"version": 1, "name": "kept",\n  {kept}\n  "tasks": [{tasks}],\n  "streams": [{streams}]}}')
    task(page, "average").click()
    page.keyboard.press("Delete")
    expect(task(page, "average")).to_have_count(0)
    assert kept in "\n".join(page.locator(".cm-line").all_inner_texts())


def test_what_is_chosen_later_is_drawn(composer: Page) -> None:
    """Alternates by their names, with figures in the form; points and gaps by who chooses; guarded streams dashed."""
    page = composer
    fine = {"name": "fine", "type": "kalman_filter", "config": {"field": "temperature"}, "value": 1, "cost": 90}
    coarse = {"name": "coarse", "value": 0.6, "cost": 5} | {k: README["tasks"][1][k] for k in ("type", "config")}
    guard = {"activate": {"metric": "latency", "below": 2}, "deactivate": {"metric": "latency", "above": 4}}
    adaptive = README | {
        "tasks": [
            README["tasks"][0],
            {"id": "smooth", "alternates": [fine, coarse], "first": "coarse"},
            {"id": "averages", "type": "output"},
            {"id": "details", "type": "output"},
        ],
        "streams": [
            {"from": "street", "to": "smooth"},
            {"from": "smooth", "to": "averages"},
            {"from": "smooth", "to": "details", "when": guard},
        ],
    }
    write(page, adaptive)
    expect(ready(page)).to_be_visible()
    expect(task(page, "smooth")).to_have_accessible_name(re.compile("smooth fine or coarse (starts|runs)"))
    expect(page.locator(".joined.guarded")).to_have_count(1)
    task(page, "smooth").click()
    form = page.get_by_role("region", name="The selected task")
    expect(form).to_contain_text("coarse (first)")
    expect(form).to_contain_text("kalman_filter, value 1, cost 90")
    places = [{"id": "clean", "point": {}}, {"id": "calm", "gap": {"most": 3}}]
    write(page, README | {"tasks": [README["tasks"][0], *places, README["tasks"][3]], "streams": []})
    expect(task(page, "clean")).to_contain_text("a module by plan")
    expect(task(page, "calm")).to_contain_text("modules by plan")


def test_drafts_and_templates_are_opened(console_service: ConsoleService, composer: Page) -> None:
    """A draft comes back after a reload, for whoever drew it alone; every dataflow of one's own is a template."""
    page = composer
    write(page, README | {"name": "half"})
    page.get_by_text("Begin with a template").click()
    expect(page.get_by_role("button", name="half", exact=True)).to_be_visible()
    # Under another name it is the same draft.
    page.get_by_label("Name of the dataflow").press("End")
    page.get_by_label("Name of the dataflow").press_sequentially(" done", delay=200)
    expect(page.get_by_role("button", name="half done", exact=True)).to_be_visible()
    expect(page.get_by_role("list", name="Drafts in this browser").get_by_role("listitem")).to_have_count(1)
    task(page, "street").click()
    page.keyboard.press("Shift+ArrowDown")
    page.reload()
    page.get_by_text("Begin with a template").click()
    page.get_by_role("button", name="half done", exact=True).click()
    expect(page.locator("[data-task]")).to_have_count(4)
    expect(page.locator(".cm-content")).to_be_visible()
    assert "half done" == written(page)["name"]
    label = page.get_by_label("Template").locator("option").filter(has_text=console_service.places["running"])
    page.get_by_label("Template").select_option(label.inner_text())
    expect(page.get_by_label("Name of the dataflow")).to_have_value(examples.DOCUMENT["name"])
    answer = page.context.request.post("/v1/session", data={"key": console_service.keys["bob"]})
    assert answer.ok
    page.reload()
    page.get_by_text("Begin with a template").click()
    expect(page.locator("#who")).to_have_text("bob")
    expect(page.get_by_text("Drafts are kept in this browser")).to_be_visible()
    kept = page.evaluate("() => JSON.stringify({...localStorage})")
    assert [False, False] == [console_service.keys[who] in kept for who in ("ann", "bob")]


def test_templates_of_riotbench_are_drawn(composer: Page) -> None:
    """They are those of the workload; each is whole but for its sources, which are one's own to name."""
    assert FILE.read_text(encoding="utf-8") == written_templates()
    page = composer
    for template in templates():
        page.get_by_text("Begin with a template").click()
        page.get_by_label("Template").select_option(template["name"])
        page.get_by_text("Begin with a template").click()
        expect(page.locator(".composed")).to_have_count(len(template["document"]["tasks"]))
        problems = page.get_by_role("region", name=re.compile("[12] problems?$")).get_by_role("listitem")
        expect(problems.first).to_contain_text("riotbench.urban")


def test_the_document_completes_itself(composer: Page) -> None:
    """Fields by the schema of the document and of the task's type, types, sources, ids, and fields that arrive."""
    page, keys = composer, composer.keyboard
    write(page, README)
    expect(ready(page)).to_be_visible()
    text = page.get_by_label("Document")
    options = page.locator(".cm-tooltip-autocomplete [role=option]")
    for before, typed, offered in (
        ('"config": {"min": -12.5, "max": 43.1, "field": "temperature"', ', "out', "outside"),
        ('"type": "range_filter"', ', "fre', "fresh"),
        ('"config": {"source": ', '"ci', "city:street"),
        ('"streams": [', '{"from": "pl', "plausible"),
    ):
        write(page, json.dumps(README).replace(before, before + "@", 1))
        text.press("Control+Home")
        at = json.dumps(README).replace(before, before + "@", 1).index("@")
        for _ in range(at + 1):
            keys.press("ArrowRight")
        keys.press("Backspace")
        keys.type(typed)
        expect(options.filter(has_text=offered).first).to_be_visible()
        keys.press("Escape")


def test_without_the_richer_editor_a_text_area_does(console_service: ConsoleService, page_for: PageFor) -> None:
    """If it cannot be loaded."""
    page = page_for(None)
    page.context.request.post("/v1/session", data={"key": console_service.keys["ann"]})
    page.route("**/vendor/codemirror.js", lambda route: route.fulfill(content_type="text/javascript", body=""))
    page.goto("/#/compose")
    page.reload()
    area = page.get_by_label("Document")
    area.fill(json.dumps(README))
    expect(ready(page)).to_be_visible()
    task(page, "plausible").click()
    page.keyboard.press("Delete")
    assert 3 == len(json.loads(area.input_value())["tasks"])
    area.press("Control+z")
    assert README == json.loads(area.input_value())


def test_the_composer_opens_fast(console_service: ConsoleService, page_for: PageFor) -> None:
    """Within 300 kB, without what is loaded once it is there."""
    page = page_for(None)
    page.context.request.post("/v1/session", data={"key": console_service.keys["ann"]})
    sizes: dict[str, int] = {}
    late = re.compile(r"vendor/|rich-editor|completion\.js|schema\.json|/v1/dataflows")
    page.on("response", lambda answer: sizes.update({answer.url: len(answer.body()) if answer.ok else 0}))
    page.goto("/#/compose")
    page.reload()
    expect(page.locator(".cm-content")).to_be_visible()
    first = {url: size for url, size in sizes.items() if not late.search(url)}
    assert 100_000 < sum(first.values()) < 300_000, first
