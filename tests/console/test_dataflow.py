"""The page of a dataflow: its contents and actions."""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, Route, expect

from braid_client.answers.dataflows import Stop
from braid_client.answers.tenants import Role
from engine.delivery.publisher import LeftOutSoFar
from manager.observations.reports import JobSeen, Measured
from manager.outputs.readers import OutputWatcher
from manager.rest import examples
from manager.store.dead_letters import Letter, keep
from manager.use_case import Caller
from merge import Instance
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.managers import caller
from tests.manager.memory_outputs import connecting, output
from tests.twins.memory_broker import MemoryBroker

pytestmark = [pytest.mark.full, pytest.mark.chromium]

ANN = Caller(key="k", role=Role.TENANT, tenant="ann")
EDITED = examples.DOCUMENT | {
    "name": "edited",
    "tasks": [*examples.DOCUMENT["tasks"], {"id": "all", "type": "output"}],
    "streams": [*examples.DOCUMENT["streams"], {"from": "street", "to": "all"}],
}

# Asks as soon as the focus is back, once what was decided in the same turn has been done.
ASKING_AGAIN = """
(button) => button.addEventListener("focus", async () => {
  for (let step = 0; step < 20; step += 1) {
    await null;
  }
  button.click();
}, { once: true })
"""


@pytest.fixture
def broker() -> MemoryBroker:
    """The broker to which outputs are published."""
    return MemoryBroker()


@pytest.fixture
def watcher(console_service: ConsoleService, broker: MemoryBroker) -> Iterator[OutputWatcher]:
    """A watcher of outputs that nobody looks at yet."""
    made = OutputWatcher(connecting(broker))
    console_service.equip(outputs=made)
    made.start()
    yield made
    made.stop()
    console_service.equip()


def _submitted(console_service: ConsoleService, *, fresh: bool = False) -> str:
    tasks = [each | {"fresh": True} if fresh and each["type"] != "source" else each for each in EDITED["tasks"]]
    return console_service.service.dataflows.submit(ANN, json.dumps(EDITED | {"tasks": tasks}).encode()).id


def _opened(console_service: ConsoleService, page_for: PageFor, dataflow: str, tab: str = "tasks") -> Page:
    page = page_for(console_service.keys["ann"], f"#/dataflows/{dataflow}?tab={tab}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def test_it_shows_a_dataflow(console_service: ConsoleService, page_for: PageFor) -> None:
    """State and reason, tasks in drawing and table, sharing, topics, costs, operations and document."""
    page = _opened(console_service, page_for, console_service.places["edited"])
    expect(page.get_by_text("deploying", exact=True)).to_be_visible()
    drawing = page.get_by_role("listbox", name="4 tasks and 3 streams between them")
    expect(drawing.locator(".flow-task.shared")).to_have_count(4)
    expect(drawing.locator(".flow-stream")).to_have_count(3)
    row = page.get_by_role("row", name=re.compile("average block_window_average"))
    expect(row).to_contain_text("reused")
    page.get_by_role("tab", name="Outputs").click()
    expect(page.get_by_text(f"braid/1/out/ann/{console_service.places['edited']}/averages")).to_be_visible()
    page.get_by_role("tab", name="Operations").click()
    expect(page.get_by_role("region", name="Newest first; numbers are tasks")).to_contain_text("submit")
    page.get_by_role("tab", name="Costs").click()
    expect(page.get_by_text("Not metered yet")).to_be_visible()
    page.get_by_role("tab", name="Document").click()
    expect(page.get_by_label("The document")).to_contain_text('"name": "averages of plausible temperatures"')
    page = _opened(console_service, page_for, console_service.places["running"], "costs")
    expect(page.get_by_text("Share", exact=True)).to_be_visible()
    expect(page.get_by_text("50% (of the CPU time of tasks, measured)")).to_be_visible()
    for figure in ("Work saved by sharing", "Cores saved by sharing", "Cores saved by packing"):
        expect(page.get_by_text(figure, exact=True)).to_be_visible()


def test_a_failure_appears_live(console_service: ConsoleService, page_for: PageFor) -> None:
    """An open page shows the failed task and the reason, without a reload."""
    page = _opened(console_service, page_for, console_service.places["alone"])
    average = next(
        Instance(each.instance)
        for each in console_service.service.dataflows.get(ANN, console_service.places["alone"]).tasks
        if each.id == "average"
    )
    with console_service.tools.committer.looking() as state:
        job = str(state.jobs.homes[average].job)
        version = state.plans[state.jobs.homes[average].job].version
    console_service.seen.jobs[job] = JobSeen(
        job=job,
        host="main",
        state="running",
        version=version,
        in_effect=version,
        failed={average: "cannot divide by zero"},
        seen=datetime.now(UTC),
    )
    expect(page.get_by_text("degraded", exact=True)).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("block_window_average"))).to_contain_text("cannot divide by zero")
    expect(page.locator(".flow-task.failed")).to_contain_text("failed")
    expect(page.get_by_text("Not well: average has failed: cannot divide by zero.")).to_be_visible()
    del console_service.seen.jobs[job]


def test_an_output_shows_its_format_and_what_was_left_out(console_service: ConsoleService, page_for: PageFor) -> None:
    """With the topic of its own, and the reason for the newest event."""
    settings = {"format": "csv", "topic": "ann/own/averages", "retain": True, "qos": 0}
    tasks = [each | ({"config": settings} if each["type"] == "output" else {}) for each in EDITED["tasks"]]
    answer = console_service.service.dataflows.submit(ANN, json.dumps(EDITED | {"tasks": tasks}).encode())
    with console_service.tools.committer.looking() as state:
        (job,) = state.jobs_of(answer.id)
    events = LeftOutSoFar(count=3, at=1.0, reason="the field 'street' is empty", event='{"street":""}')
    measured = Measured(left_out={answer.id: {answer.outputs[0].sink: events}})
    console_service.seen.jobs[str(job)] = JobSeen(
        job=str(job), host="main", state="running", measured=(measured,), seen=datetime.now(UTC)
    )
    page = _opened(console_service, page_for, answer.id, "outputs")
    row = page.get_by_role("region", name="The age of events at the output").get_by_role("row")
    expect(row.last).to_contain_text("csv, retained, sent once")
    expect(row.last).to_contain_text("ann/own/averages")
    left_out = page.get_by_role("region", name="Since the job of each output started").get_by_role("row").last
    for text in ("3", "the field 'street' is empty", '{"street":""}'):
        expect(left_out).to_contain_text(text)
    del console_service.seen.jobs[str(job)]
    console_service.service.dataflows.remove(ANN, answer.id, Stop.NOW)


def test_an_output_is_watched(
    console_service: ConsoleService, page_for: PageFor, broker: MemoryBroker, watcher: OutputWatcher
) -> None:
    """Events are shown as text and counted; once it is stopped, nothing listens."""
    dataflow = _submitted(console_service)
    page = _opened(console_service, page_for, dataflow, "outputs")
    page.get_by_role("button", name="Watch averages").click()
    expect(page.get_by_text("Watching from now on.")).to_be_visible()
    topic = f"braid/1/out/ann/{dataflow}/averages"
    broker.publish(topic, output(1, {"temperature": 21.5}))
    events = page.get_by_role("list", name="Events of averages")
    expect(events.get_by_role("listitem")).to_have_text(['1 {"temperature":21.5}'])
    broker.publish(topic, output(7, *({"street": "<b>", "number": number} for number in range(30))))
    expect(page.get_by_text("21 events shown, 15 not shown.")).to_be_visible()
    expect(events.get_by_role("listitem").first).to_have_text('26 {"street":"<b>","number":19}')
    assert 1 == watcher.looks
    page.get_by_role("button", name="Stop watching").click()
    expect(page.get_by_role("button", name="Watch averages")).to_be_focused()
    expect(events).to_have_count(0)
    deadline = time.monotonic() + 30.0
    while watcher.looks and time.monotonic() < deadline:
        page.wait_for_timeout(10)
    assert 0 == watcher.looks


def test_dead_letters_are_deleted_and_replayed(console_service: ConsoleService, page_for: PageFor) -> None:
    """Events and tracebacks unfold; deletion needs a confirmation; a refused replay shows why; all can be replayed."""
    page = _opened(console_service, page_for, console_service.places["edited"], "dead-letters")
    letter = console_service.places["shared_letter"]
    page.get_by_text("1 event", exact=True).click()
    expect(page.get_by_text('{"temperature":"warm"}')).to_be_visible()
    page.get_by_text("Traceback", exact=True).click()
    expect(page.get_by_text("a line of ann's code")).to_be_visible()
    page.get_by_role("button", name=f"Replay dead letter {letter}").click()
    expect(page.get_by_role("alert").filter(has_text="Not allowed")).to_be_visible()
    page.get_by_role("button", name=f"Delete dead letter {letter}").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name=f"Delete dead letter {letter}")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No dead letters.")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("Deleted 1 dead letter.")
    page = _opened(console_service, page_for, console_service.places["alone"], "dead-letters")
    page.get_by_role("button", name="Replay all dead letters").click()
    expect(page.get_by_role("status")).to_contain_text("Replayed 1 dead letter with 1 event.")


def test_dead_letters_of_one_cause_are_deleted_together(console_service: ConsoleService, page_for: PageFor) -> None:
    """They are counted by task and reason; a letter of another reason stays, and then nothing is left to group."""
    dataflow = console_service.places["alone"]
    tasks = console_service.service.dataflows.get(caller("ann"), dataflow).tasks
    (at,) = (each.instance for each in tasks if each.id == "plausible")
    reasons = ("too hot", "too hot", "too cold", "too hot")
    letters = [Letter(instance=at, port="in", batch=90 + n, reason=why, events=[n]) for n, why in enumerate(reasons)]
    with console_service.tools.store.write() as session:
        keep(session, letters, {at: {"ann": [dataflow]}}, at=0.0)
    page = _opened(console_service, page_for, dataflow, "dead-letters")
    groups = page.get_by_role("region", name="By task and reason")
    hot = groups.get_by_role("row").filter(has_text="too hot")
    expect(hot.get_by_role("cell").nth(1)).to_have_text("3")
    hot.get_by_role("button", name="Delete 3 dead letters like").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_have_text("Deleted 3 dead letters.")
    expect(page.get_by_role("region", name="Newest first").get_by_text("too cold")).to_be_visible()
    expect(groups).to_have_count(0)


def test_a_removal_is_previewed(console_service: ConsoleService, page_for: PageFor) -> None:
    """The dialog lists the tasks that stop and counts those that others keep; it does nothing without confirmation."""
    dataflow = _submitted(console_service, fresh=True)
    page = _opened(console_service, page_for, dataflow, "outputs")
    page.get_by_role("button", name="Remove…").click()
    dialog = page.get_by_role("dialog", name="Remove this dataflow?")
    expect(dialog.get_by_text("4 tasks stop:")).to_be_visible()
    expect(dialog.get_by_role("listitem").filter(has_text="block_window_average")).to_be_visible()
    expect(dialog.get_by_text("1 task keeps running for others.")).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Remove…")).to_be_focused()
    page.keyboard.press("Enter")
    dialog.get_by_label("After processing what its sources have sent so far").check()
    dialog.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("draining", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Edit…")).to_have_count(0)
    page.get_by_role("button", name="Remove…").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("removed", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Remove…")).to_have_count(0)
    expect(page.get_by_role("button", name="Watch averages")).to_have_count(0)


def test_a_draining_dataflow_can_be_removed_at_once(console_service: ConsoleService, page_for: PageFor) -> None:
    """As soon as it is seen to drain, even if a part of the page never loads."""
    page = _opened(console_service, page_for, _submitted(console_service, fresh=True), "operations")
    page.get_by_role("button", name="Remove…").click()
    dialog = page.get_by_role("dialog", name="Remove this dataflow?")
    dialog.get_by_label("After processing what its sources have sent so far").check()
    unanswered: list[Route] = []
    page.route("**/v1/operations?*", lambda route: unanswered.append(route))  # noqa: PLW0108 - it gets an attribute
    dialog.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("draining", exact=True)).to_be_visible()
    page.get_by_role("button", name="Remove…").click()
    expect(dialog).to_be_visible()
    assert unanswered


@pytest.mark.parametrize("way", ["click", "Escape"])
def test_a_dialog_can_be_reopened_at_once(console_service: ConsoleService, page_for: PageFor, way: str) -> None:
    """After it is left no time need pass, not even a turn of the browser's event loop."""
    page = _opened(console_service, page_for, console_service.places["running"])
    ask = page.locator("button", has_text="Remove…")
    ask.click()
    dialog = page.get_by_role("dialog", name="Remove this dataflow?")
    expect(dialog).to_be_visible()
    ask.evaluate(ASKING_AGAIN)
    if way == "Escape":
        page.keyboard.press("Escape")
    else:
        dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(1)


def test_an_unknown_dataflow_is_reported(console_service: ConsoleService, page_for: PageFor) -> None:
    """Another tenant's dataflow looks like one that never existed."""
    page = page_for(console_service.keys["bob"], f"#/dataflows/{console_service.places['running']}")
    expect(page.get_by_role("alert").filter(has_text="there is no dataflow")).to_be_visible()


def test_it_fits_a_small_screen(console_service: ConsoleService, page_for: PageFor) -> None:
    """At 360 pixels only drawings and tables scroll sideways, and every control has a name, in every tab."""
    at = f"#/dataflows/{console_service.places['running']}?tab=outputs"
    page = page_for(console_service.keys["operator"], at, viewport={"width": 360, "height": 640})
    expect(page.get_by_role("button", name="Watch averages")).to_be_visible()
    expect(page.get_by_role("link", name="Edit…")).to_be_visible()
    controls = "[...document.querySelectorAll('button, input, select, textarea')]"
    unnamed = f"{controls}.filter((each) => !each.labels?.length && !each.textContent && !each.ariaLabel).length"
    page.locator("[data-task=average]").click()
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert 0 == page.evaluate(unnamed)
