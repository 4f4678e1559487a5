"""The reconfiguration of a dataflow on its page: changes in forms, preview, progress, cancel, history and undo."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from braid_client.answers.reconfigurations import ReconfigurationForm
from braid_client.answers.tenants import Role
from manager.kernel.transitions import TransitionEvent
from manager.rest import examples
from manager.use_case import Caller, Paging
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.managers import take

pytestmark = [pytest.mark.full, pytest.mark.chromium]

UNDOES = """
async (lists) => {
  const { history } = await import("/console/scripts/pages/dataflow/reconfiguration/history.js");
  const moments = { begun: "2026-03-01T12:00:00Z", switched: null, ended: null };
  const fixed = { ...moments, who: "ann", outcome: "", scope: null, queue: null };
  return lists.map((list) => {
    const items = list.map(([id, state, undoes]) => ({ ...fixed, id, state, undoes }));
    return history({ items, next: null }, "d", () => {}).querySelector("button")?.ariaLabel ?? null;
  });
}
"""
PLACED = """
async ([errors, document]) => {
  const { placed } = await import("/console/scripts/pages/dataflow/reconfiguration/problems.js");
  return placed(errors, document).map(({ task, part, field, at }) => [task ?? null, part, field ?? null, at ?? null]);
}
"""
ANN = Caller(key="k", role=Role.TENANT, tenant="ann")
OWN = examples.DOCUMENT | {
    "name": "changing",
    "tasks": [each | {"fresh": True} if each["type"] != "source" else each for each in examples.DOCUMENT["tasks"]],
}
"""A document whose tasks nobody shares, but for the source."""


def submitted(service: ConsoleService, document: Mapping[str, Any] = OWN) -> str:
    return service.service.dataflows.submit(ANN, json.dumps(document).encode()).id


def opened(service: ConsoleService, page_for: PageFor, dataflow: str, who: str = "ann", **options: Any) -> Page:
    page = page_for(service.keys[who], f"#/dataflows/{dataflow}", **options)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def change(page: Page, task: str) -> Locator:
    """The form of a task's change, which is begun if need be."""
    page.locator(f"[data-task={task}]").click()
    page.get_by_role("button", name=f"Change {task}", exact=True).click()
    found = page.locator("details.change").filter(has=page.get_by_role("heading", name=task, exact=True))
    expect(found).to_be_visible()
    return found


def done(service: ConsoleService) -> None:
    """End what is under way, as a reconciler does once the jobs have switched."""
    changes = service.tools.changes.reconfigurations
    for each in changes.under_way():
        take(changes, each.reconfiguration.id, TransitionEvent.BEGUN)
        take(changes, each.reconfiguration.id, TransitionEvent.PROVEN)


def config_of(service: ConsoleService, dataflow: str, task: str) -> dict[str, Any]:
    """The config of a task in the dataflow's document."""
    document = service.service.dataflows.get(ANN, dataflow).document
    configs: dict[str, dict[str, Any]] = {each["id"]: each.get("config", {}) for each in document["tasks"]}
    return configs[task]


def test_two_tasks_are_changed_together_and_undone(console_service: ConsoleService, page_for: PageFor) -> None:
    """Changed in forms, previewed with components and states, applied, watched to the end, and undone by a preview."""
    flow = submitted(console_service)
    page = opened(console_service, page_for, flow)
    average = change(page, "average")
    expect(average.get_by_label("field", exact=True)).to_be_focused()
    expect(average.get_by_label("window")).to_have_value("5")
    average.get_by_label("window").fill("20")
    expect(average.locator("summary")).to_contain_text("window: 5 → 20")
    plausible = change(page, "plausible")
    plausible.get_by_label("max", exact=True).fill("50.5")
    expect(plausible.get_by_label("Start with fresh state")).to_be_hidden()
    page.get_by_role("button", name="Preview").click()

    preview = page.get_by_role("region", name="Preview")
    expect(preview.get_by_role("heading", name="Preview")).to_be_focused()
    expect(preview).to_contain_text("in job 1.")
    rows = preview.get_by_role("table", name="Tasks that change").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="average")).to_contain_text("changed in place")
    expect(rows.filter(has_text="average")).to_contain_text("kept as it is")
    expect(rows.filter(has_text="plausible")).to_contain_text("has none")
    expect(preview.locator(".dag-task.marked")).to_have_count(2)
    expect(preview.locator(".dag-task", has_text="plausible").locator(".dag-mark.first")).to_have_text("1")
    assert 5 == config_of(console_service, flow, "average")["window"]

    page.get_by_role("button", name="Apply").click()
    progress = page.get_by_role("region", name=re.compile("^Reconfiguration "))
    expect(progress.get_by_role("heading")).to_be_focused()
    expect(progress.locator("[aria-current=step]")).to_contain_text("Switching")
    expect(page.locator("details.change")).to_have_count(0)
    assert (20, 50.5) == (
        config_of(console_service, flow, "average")["window"],
        config_of(console_service, flow, "plausible")["max"],
    )
    reconfigurations = console_service.tools.changes.reconfigurations
    (made,) = console_service.service.reconfigurations.page(ANN, flow, Paging()).items
    take(reconfigurations, int(made.id), TransitionEvent.BEGUN)
    expect(progress.locator("[aria-current=step]")).to_contain_text("Switched")
    expect(progress).to_contain_text("In effect after")
    take(reconfigurations, int(made.id), TransitionEvent.PROVEN)
    expect(progress.locator("[aria-current=step]")).to_contain_text("Done")

    history = page.get_by_role("region", name="only the last one can be undone")
    expect(history.get_by_role("row")).to_have_count(2)
    expect(history).to_contain_text("average, plausible")
    page.reload()
    history.get_by_role("button", name=f"Undo reconfiguration {made.id}").click()
    preview = page.get_by_role("region", name=f"Preview: undo reconfiguration {made.id}")
    expect(preview).to_contain_text("changed in place")
    expect(preview).to_contain_text("has none")
    preview.get_by_role("button", name="Undo").click()
    expect(progress).to_contain_text(f"which undoes {made.id}")
    assert OWN["tasks"][2]["config"] == config_of(console_service, flow, "average")
    done(console_service)
    expect(progress.locator("[aria-current=step]")).to_contain_text("Done")
    expect(history.get_by_role("row")).to_have_count(3)


def test_a_change_is_taken_back(console_service: ConsoleService, page_for: PageFor) -> None:
    """Each alone; a preview goes with any edit; without a change there is nothing to preview."""
    page = opened(console_service, page_for, submitted(console_service))
    change(page, "average").get_by_label("window").fill("20")
    change(page, "plausible").get_by_label("max", exact=True).fill("50")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Preview")).to_be_visible()
    page.get_by_role("button", name="Revert the change of plausible").click()
    expect(page.get_by_role("button", name="Preview")).to_be_focused()
    expect(page.get_by_role("region", name="Preview")).to_have_count(0)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("table", name="Tasks that change").get_by_role("row")).to_have_count(2)
    change(page, "average").get_by_label("window").fill("5")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert").filter(has_text="Nothing is changed yet")).to_be_visible()
    page.get_by_role("button", name="Revert the change of average").click()
    expect(page.get_by_role("button", name="Change average", exact=True)).to_be_focused()
    expect(page.get_by_role("form", name="Changes")).to_be_hidden()


def test_problems_are_shown_at_their_fields(console_service: ConsoleService, page_for: PageFor) -> None:
    """With the remedy, also at a task below that the change breaks, and at the state of which nothing is declared."""
    flow = submitted(console_service)
    page = opened(console_service, page_for, flow)
    average = change(page, "average")
    average.get_by_label("window").fill("none")
    page.get_by_role("button", name="Preview").click()
    window = average.get_by_label("window")
    expect(window).to_be_focused()
    expect(window).to_have_attribute("aria-invalid", "true")
    expect(window).to_have_accessible_description(re.compile("The value should be an integer. Give an integer."))
    window.fill("5")
    average.get_by_label("by").fill("street")
    page.get_by_role("button", name="Preview").click()
    expect(average.locator(".wrong", has_text="street")).to_be_visible()
    average.get_by_label("by").fill("sensor")
    average.get_by_label("Type").fill("count")
    average.get_by_label("Type").press("Tab")
    expect(average.get_by_label("window")).to_have_count(0)
    page.get_by_role("button", name="Preview").click()
    fresh = average.get_by_label("Start with fresh state")
    expect(fresh).to_be_focused()
    expect(average.locator(".wrong", has_text="Start with fresh state")).to_be_visible()
    fresh.check()
    page.get_by_role("button", name="Preview").click()
    rows = page.get_by_role("table", name="Tasks that change").get_by_role("row")
    expect(rows.filter(has_text="average")).to_contain_text("begins without state")
    average.get_by_label("Type").fill("cuont")
    page.get_by_role("button", name="Preview").click()
    expect(average.locator(".wrong", has_text="did you mean 'count'?")).to_be_visible()


def test_a_task_that_breaks_below_is_opened(console_service: ConsoleService, page_for: PageFor) -> None:
    """The problem is at its field, where it can be repaired; one of a whole config is below its fields."""
    page = opened(console_service, page_for, submitted(console_service))
    plausible = change(page, "plausible")
    plausible.get_by_label("max", exact=True).fill("-50")
    page.get_by_role("button", name="Preview").click()
    expect(plausible.locator(".wrong:visible")).to_contain_text("min -12.5 is greater than max -50")
    plausible.get_by_label("Type").fill("count")
    plausible.get_by_label("Type").press("Tab")
    expect(plausible.get_by_label("max", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Preview").click()
    field = change(page, "average").get_by_label("field", exact=True)
    expect(field).to_have_accessible_description(re.compile("temperature"))
    field.fill("count")
    page.get_by_role("button", name="Preview").click()
    # The old states are neither those of the new type, nor made from the new field.
    expect(page.locator(".wrong:visible", has_text="Start with fresh state")).to_have_count(2)
    for fresh in page.get_by_label("Start with fresh state").all():
        fresh.check()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("table", name="Tasks that change").get_by_role("row")).to_have_count(3)


def test_it_fits_a_small_screen(console_service: ConsoleService, page_for: PageFor) -> None:
    """At 360 pixels only drawings and tables scroll sideways, and every control has a name."""
    viewport = {"width": 360, "height": 640}
    page = opened(console_service, page_for, submitted(console_service), viewport=viewport)
    change(page, "average").get_by_label("window").fill("20")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Preview")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    controls = "[...document.querySelectorAll('button, input, select, textarea')]"
    unnamed = f"{controls}.filter((each) => !each.labels?.length && !each.textContent && !each.ariaLabel).length"
    assert 0 == page.evaluate(unnamed)


def test_a_shared_task_is_copied(console_service: ConsoleService, page_for: PageFor) -> None:
    """The preview says which tasks are copied, and why."""
    shared = OWN | {
        "tasks": [{name: value for name, value in each.items() if name != "fresh"} for each in OWN["tasks"]]
    }
    page = opened(console_service, page_for, submitted(console_service, shared))
    change(page, "plausible").get_by_label("outside").select_option("drop")
    page.get_by_role("button", name="Preview").click()
    rows = page.get_by_role("table", name="Tasks that change").get_by_role("row")
    expect(rows.filter(has_text="plausible")).to_contain_text(
        "copied and changed, because other dataflows use it as it is"
    )
    expect(rows.filter(has=page.get_by_role("rowheader", name="average", exact=True))).to_contain_text(
        "copied, because other dataflows use it as it is"
    )


def test_an_operator_changes_all_users_of_a_task(console_service: ConsoleService, page_for: PageFor) -> None:
    """They share the changed task as before, and nothing is copied; a tenant cannot name other dataflows."""
    street, plausible, *others = examples.DOCUMENT["tasks"]
    plausible = plausible | {"config": plausible["config"] | {"max": 31.0}}
    flow, other = (submitted(console_service, OWN | {"tasks": [street, plausible, *others]}) for _ in range(2))
    page = opened(console_service, page_for, flow, "operator")
    change(page, "plausible").get_by_label("max", exact=True).fill("50")
    page.get_by_role("button", name="Preview").click()
    rows = page.get_by_role("table", name="Tasks that change").get_by_role("row")
    expect(rows.filter(has_text="plausible")).to_contain_text("copied and changed")
    page.get_by_label("Also change these dataflows").fill(other)
    expect(rows).to_have_count(0)
    page.get_by_role("button", name="Preview").click()
    expect(rows.filter(has_text="plausible")).to_have_count(2)
    expect(rows.filter(has_text=other)).to_contain_text("changed in place")
    page = opened(console_service, page_for, flow)
    change(page, "plausible")
    expect(page.get_by_label("Also change these dataflows")).to_have_count(0)


def test_one_that_prepares_is_cancelled(
    console_service: ConsoleService, page_for: PageFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that wait for a marker are named in the preview; until the first task switches it can be cancelled."""
    committer = console_service.tools.committer
    monkeypatch.setattr(committer, "ground", replace(committer.ground, strategy="launch"))
    street, plausible, average, averages = examples.DOCUMENT["tasks"]
    plausible = plausible | {"config": plausible["config"] | {"max": 33.0}}
    above = [{"from": "street", "to": "plausible"}, {"from": "plausible", "to": "averages"}]
    submitted(console_service, OWN | {"tasks": [street, plausible, averages], "streams": above})
    flow = submitted(console_service, OWN | {"tasks": [street, plausible, average, averages]})
    page = opened(console_service, page_for, flow)
    change(page, "plausible").get_by_label("max", exact=True).fill("50")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Preview")).to_contain_text("waits for a marker from another job.")
    rows = page.get_by_role("table", name="Tasks that change").get_by_role("row")
    expect(rows.filter(has_text="averages")).to_contain_text("copied, because a task above it is copied")
    page.get_by_role("button", name="Apply").click()
    progress = page.get_by_role("region", name=re.compile("^Reconfiguration "))
    expect(progress.locator("[aria-current=step]")).to_contain_text("Preparing")
    page.get_by_role("button", name="Cancel the reconfiguration").click()
    expect(progress).to_contain_text("given up, because ann cancelled it")
    expect(page.get_by_role("button", name="Cancel the reconfiguration")).to_have_count(0)
    assert 33.0 == config_of(console_service, flow, "plausible")["max"]


def test_one_that_waits_says_for_what_and_is_cancelled(console_service: ConsoleService, page_for: PageFor) -> None:
    """It names its place and the one before it, goes on by itself once that has switched, or is cancelled."""
    flow = submitted(console_service)
    reconfigurations = console_service.tools.changes.reconfigurations
    form = ReconfigurationForm(tasks={"plausible": {"config": {"max": 44.0}}})
    first = console_service.service.reconfigurations.begin(ANN, flow, form)
    page = opened(console_service, page_for, flow)
    change(page, "average").get_by_label("window").fill("20")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Apply").click()
    progress = page.get_by_role("region", name=re.compile("^Reconfiguration "))
    expect(progress.locator("[aria-current=step]")).to_contain_text("Waiting")
    expect(progress).to_contain_text(f"Place 1 of the queue. It waits for reconfiguration {first.id}.")
    page.get_by_role("button", name="Cancel the reconfiguration").click()
    expect(progress).to_contain_text("given up, because ann cancelled it")
    change(page, "average").get_by_label("window").fill("30")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Apply").click()
    expect(progress.locator("[aria-current=step]")).to_contain_text("Waiting")
    newest, *_ = console_service.service.reconfigurations.page(ANN, flow, Paging()).items
    take(reconfigurations, int(first.id), TransitionEvent.BEGUN)
    take(reconfigurations, int(newest.id), TransitionEvent.CLEARED)
    expect(progress.locator("[aria-current=step]")).to_contain_text("Switching")
    assert 30 == config_of(console_service, flow, "average")["window"]
    take(reconfigurations, int(newest.id), TransitionEvent.BEGUN)
    for each in (first, newest):
        take(reconfigurations, int(each.id), TransitionEvent.PROVEN)
    expect(progress.locator("[aria-current=step]")).to_contain_text("Done")


def test_only_the_last_one_that_has_taken_effect_can_be_undone(page_for: PageFor) -> None:
    """Not one that waits, nor one that was abandoned, nor the way back of one that failed."""
    done, abandoned = ["3", "done", None], ["4", "abandoned", None]
    lists = [
        [],
        [done, ["2", "done", None]],
        [abandoned, done],
        [abandoned],
        [["4", "switching", None], done],
        [["4", "switched", None], done],
        [["4", "waiting", None], done],
        [["4", "done", "3"], done],
        [["4", "done", "3"], ["3", "reverted", None], ["2", "done", None]],
    ]
    expected = [None, "3", "3", None, None, "4", None, "4", None]
    labels = [None if each is None else f"Undo reconfiguration {each}" for each in expected]
    assert labels == page_for(None).evaluate(UNDOES, lists)


def test_problems_find_their_fields(page_for: PageFor) -> None:
    """By the place of a task in the document, or by its name, even if that is a number."""
    document = {"tasks": [{"id": "1"}, {"id": "a/b"}]}
    cases = {
        ("/tasks/0/config/window", "wrong-type"): ["1", "config", "window", ""],
        ("/tasks/1/config/ranges/x/min", "wrong-type"): ["a/b", "config", "ranges", "x/min"],
        ("/tasks/1/config", "wrong-value"): ["a/b", "config", None, ""],
        ("/tasks/1/type", "unknown-type"): ["a/b", "type", None, ""],
        ("/tasks/1", "undeclared-state"): ["1", "state", None, None],
        ("/tasks/a~1b/type", "no-host"): ["a/b", "type", None, ""],
        ("/streams/0", "cycle"): [None, "type", None, ""],
        ("/fresh", "unchanged-task"): [None, "type", None, ""],
        ("", "too-large"): [None, "type", None, ""],
    }
    errors = [{"pointer": pointer, "code": code, "message": "", "remedy": ""} for pointer, code in cases]
    assert list(cases.values()) == page_for(None).evaluate(PLACED, [errors, document])


def composed(service: ConsoleService, page_for: PageFor, flow: str) -> Page:
    """The composer of a dataflow."""
    page = page_for(service.keys["ann"], f"#/compose/{flow}", viewport={"width": 1500, "height": 1000})
    expect(page.locator(".cm-content")).to_be_visible()
    expect(page.get_by_text(re.compile("Ready to submit"))).to_be_visible()
    return page


def test_a_dataflow_is_changed_on_the_canvas(console_service: ConsoleService, page_for: PageFor) -> None:
    """It is shown first what would change, with the component; applied, it is a reconfiguration."""
    flow = submitted(console_service)
    page = composed(console_service, page_for, flow)
    changing = page.get_by_role("button", name="Change while it runs…")
    expect(changing).to_be_disabled()
    page.locator("[data-task=average]").click()
    page.get_by_label("window", exact=True).fill("9")
    expect(changing).to_be_enabled()
    changing.click()
    shown = page.get_by_role("region", name="What would change")
    expect(shown.get_by_role("list", name="Components")).to_contain_text("average")
    assert () == console_service.service.reconfigurations.page(ANN, flow, Paging()).items
    shown.get_by_role("button", name="Apply").click()
    expect(page.get_by_text(re.compile("changes: reconfiguration .* has begun"))).to_be_visible()
    assert 9 == config_of(console_service, flow, "average")["window"]
    done(console_service)
    page.get_by_role("link", name="changing").click()
    expect(page.get_by_role("tab", name="Changes")).to_have_attribute("aria-selected", "true")


def test_what_was_changed_on_the_canvas_is_replaced_from_there(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """The document that the change has made is the composer's own, so nobody is asked to overwrite it."""
    flow = submitted(console_service)
    page = composed(console_service, page_for, flow)
    page.locator("[data-task=average]").click()
    page.get_by_label("window", exact=True).fill("9")
    page.get_by_role("button", name="Change while it runs…").click()
    page.get_by_role("region", name="What would change").get_by_role("button", name="Apply").click()
    expect(page.get_by_text(re.compile("changes: reconfiguration .* has begun"))).to_be_visible()
    done(console_service)
    page.get_by_label("window", exact=True).fill("11")
    page.get_by_role("button", name="Replace", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Submitted revision 3.")).to_be_attached()
    assert 11 == config_of(console_service, flow, "average")["window"]


def test_a_change_on_the_canvas_whose_answer_is_lost_is_applied_again_as_the_same(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """The preview stays, so its key is sent again, and there is one reconfiguration."""
    flow = submitted(console_service)
    page = composed(console_service, page_for, flow)
    keys: list[str] = []

    def lose_the_first_answer(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/reconfigurations", lose_the_first_answer)
    page.locator("[data-task=average]").click()
    page.get_by_label("window", exact=True).fill("9")
    page.get_by_role("button", name="Change while it runs…").click()
    applying = page.get_by_role("region", name="What would change").get_by_role("button", name="Apply")
    applying.click()
    expect(page.get_by_role("alert").filter(has_text="The service cannot be reached").first).to_be_visible()
    applying.click()
    expect(page.get_by_text(re.compile("changes: reconfiguration .* has begun"))).to_be_visible()
    assert (2, keys[0]) == (len(keys), keys[1])
    assert 1 == len(console_service.service.reconfigurations.page(ANN, flow, Paging()).items)
    done(console_service)


def test_what_cannot_change_while_it_runs_is_said(console_service: ConsoleService, page_for: PageFor) -> None:
    """Another output needs a new document; nothing has begun then."""
    flow = submitted(console_service)
    page = composed(console_service, page_for, flow)
    more = OWN | {
        "tasks": [*OWN["tasks"], {"id": "others", "type": "output"}],
        "streams": [*OWN["streams"], {"from": "plausible", "to": "others"}],
    }
    page.get_by_label("Document").fill(json.dumps(more))
    changing = page.get_by_role("button", name="Change while it runs…")
    expect(changing).to_be_enabled()
    changing.click()
    expect(page.get_by_text("What cannot change while it runs can be replaced")).to_be_visible()
    assert () == console_service.service.reconfigurations.page(ANN, flow, Paging()).items
