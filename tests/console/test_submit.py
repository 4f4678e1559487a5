"""The submission page: a document is checked, explained and submitted once."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Request, Route, expect

from manager.rest import examples
from manager.use_case import Paging
from tests.console.conftest import ConsoleService, PageFor

pytestmark = pytest.mark.chromium


def text(name: str, **changes: Any) -> str:
    return json.dumps(examples.DOCUMENT | {"name": name} | changes, indent=2)


def fill(page: Page, document: str) -> None:
    page.get_by_label("Document").fill(document)


def explain(page: Page) -> None:
    page.get_by_role("button", name="Explain").click()


def submit(page: Page) -> None:
    page.get_by_role("button", name="Submit").click()


def named(service: ConsoleService, name: str) -> int:
    """The number of ann's dataflows with a name."""
    ann = service.service.administration.caller(service.keys["ann"])
    return len(service.service.dataflows.page(ann, Paging(), name=name).items)


def test_a_document_is_explained_and_then_submitted(console_service: ConsoleService, page_for: PageFor) -> None:
    """The preview comes first; then there is a link to its page, and the dataflow exists once."""
    page = page_for(console_service.keys["ann"], "#/submit")
    fill(page, text("made in the console"))
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    explain(page)
    reused = page.get_by_role("table", name="Tasks that already run")
    expect(reused.get_by_role("row")).to_have_count(1 + 4)
    expect(page.locator(".card").filter(has_text="Tasks reused").locator(".figure")).to_have_text("4 of 4")
    expect(page.locator(".card").filter(has_text="Work saved").locator(".figure")).to_have_text("100%")
    expect(page.get_by_text("Work is the number of events")).to_contain_text("measured")
    assert 0 == named(console_service, "made in the console")
    submit(page)
    page.get_by_role("link", name="made in the console").click()
    expect(page.locator("main h1")).to_contain_text("made in the console")
    assert "#/dataflows/d" in page.url
    assert 1 == named(console_service, "made in the console")


def test_a_changed_document_must_be_explained_again(console_service: ConsoleService, page_for: PageFor) -> None:
    """Only an explained document can be submitted."""
    page = page_for(console_service.keys["ann"], "#/submit")
    fill(page, text("changed"))
    explain(page)
    expect(page.get_by_role("button", name="Submit")).to_be_enabled()
    fill(page, text("changed again"))
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    expect(page.get_by_role("heading", name="Preview")).to_have_count(0)


@pytest.mark.parametrize(
    ("document", "where", "marked"),
    [
        ('{\n  "version": 1,\n  "name": nonsense\n}', "Line 3, column 11", "n"),
        ('{"version": 1', "Line 1, column 14", ""),
        ('{\n  "a": [1, 2,\n  ]\n}', "Line 3, column 3", "]"),
        ("{} {}", "Line 1, column 4", "{"),
        ("", "Line 1, column 1", ""),
    ],
)
def test_a_syntax_error_is_shown_at_its_place(
    console_service: ConsoleService, page_for: PageFor, document: str, where: str, marked: str
) -> None:
    """With the text around it, without a request."""
    page = page_for(console_service.keys["ann"], "#/submit")
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if "explain" in request.url else None)
    fill(page, document)
    explain(page)
    problem = page.get_by_role("alert").filter(has_text="The document is not JSON")
    expect(problem).to_contain_text(where)
    expect(problem.locator("mark")).to_have_text(marked)
    assert [] == asked


def test_problems_are_shown_at_their_place(console_service: ConsoleService, page_for: PageFor) -> None:
    """Each with its line, its remedy and the text around it."""
    page = page_for(console_service.keys["ann"], "#/submit")
    wrong = text("wrong").replace('"range_filter"', '"range_fliter"').replace('"window": 5', '"window": 0')
    fill(page, wrong)
    explain(page)
    problem = page.get_by_role("alert").filter(has_text="The dataflow is not valid")
    line = next(number for number, each in enumerate(wrong.splitlines(), 1) if "range_fliter" in each)
    first = problem.get_by_role("listitem").filter(has_text="range_fliter").first
    expect(first).to_contain_text(f"Line {line}")
    expect(first).to_contain_text("/tasks/1/type")
    expect(first).to_contain_text("did you mean 'range_filter'?")
    expect(first.locator("mark")).to_have_text('"range_fliter"')
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()


def test_a_submission_whose_answer_is_lost_is_sent_again_as_the_same(
    console_service: ConsoleService, page_for: PageFor
) -> None:
    """An attempt has one idempotency key, so the dataflow exists once; the next attempt has another."""
    page = page_for(console_service.keys["ann"], "#/submit")
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
    fill(page, text("sent twice"))
    explain(page)
    submit(page)
    expect(page.get_by_role("alert").filter(has_text="The service cannot be reached").first).to_be_visible()
    submit(page)
    expect(page.get_by_role("heading", name="Submitted")).to_be_visible()
    assert 1 == named(console_service, "sent twice")
    fill(page, text("sent later"))
    explain(page)
    submit(page)
    expect(page.get_by_role("link", name="sent later")).to_be_visible()
    assert (3, 2, keys[0]) == (len(keys), len(set(keys)), keys[1])


def test_an_operator_chooses_a_tenant_and_a_file(
    console_service: ConsoleService, page_for: PageFor, tmp_path: Path
) -> None:
    """The file is read into the page, and the start is the chosen one."""
    page = page_for(console_service.keys["operator"], "#/submit")
    file = tmp_path / "dataflow.json"
    file.write_text(text("from a file"))
    page.get_by_label("From a file").set_input_files(file)
    expect(page.get_by_label("Document")).to_have_value(text("from a file"))
    page.get_by_label("Tenant").fill("nobody")
    explain(page)
    expect(page.get_by_role("alert").filter(has_text="Not found")).to_be_visible()
    page.get_by_label("Tenant").fill("ann")
    page.get_by_label("Start").select_option("earliest")
    explain(page)
    expect(page.get_by_text("No running task can be reused.")).to_be_visible()
    submit(page)
    expect(page.get_by_role("link", name="from a file")).to_be_visible()
    ann = console_service.service.administration.caller(console_service.keys["ann"])
    (made,) = console_service.service.dataflows.page(ann, Paging(), name="from a file").items
    assert "earliest" == made.start
