"""The console of those who may only look: what changes something is not there, and nothing that is there is refused."""

from collections.abc import Iterator, Mapping, Sequence

import pytest
from playwright.sync_api import Locator, Page, Response, expect

from braid_client.answers.tenants import KeyForm
from tests.console.composing import ready
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.managers import OPERATOR

pytestmark = [pytest.mark.full, pytest.mark.chromium]
NOTICE = "Your access is read-only"
CHANGING: Mapping[str, Mapping[str, Sequence[str]]] = {
    "ann": {
        "#/sources": ["Add a source"],
        "#/sources/new": ["Add the source"],
        "#/compose": ["Submit"],
        "#/compose/{running}": ["Change while it runs…", "Replace"],
        "#/access": ["Make a key", "Make new credentials…", "Remove warehouse", "Set the secret"],
        "#/dataflows/{edited}?tab=dead-letters": ["Remove…", "Replay all dead letters", "Delete all dead letters"],
        "#/dataflows/{alone}?tab=changes": ["Undo reconfiguration {changed}"],
        "#/dataflows/{adaptive}?tab=adaptation": ["Replace the policy"],
        "#/": [],
        "#/audit": [],
    },
    "city": {
        "#/sources/city:street": [
            "Show the newest events",
            "Change fields…",
            "New secret…",
            "Save",
            "Remove the source…",
        ],
        "#/sources/city:hookless": ["Make new credentials…", "Make a webhook"],
    },
    "poor": {"#/dataflows/{poors}?tab=places": ["Preview the plan", "Apply"]},
}
"""The addresses that a tenant opens, each with what changes something there, or runs something."""
PRESS = """() => {
  const pressed = (window.pressed ??= new Set());
  const name = (node) => node.getAttribute("aria-label") ?? node.textContent;
  const all = "main button:not(.palette-item), main summary, main [data-task], dialog button.first";
  const fresh = [...document.querySelectorAll(all)].filter((node) =>
    node.checkVisibility() && !node.disabled && !pressed.has(name(node)));
  for (const node of fresh) {
    pressed.add(name(node));
    node.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
  }
  return fresh.length;
}"""
"""Presses what can be pressed and was not yet; tells how much that was."""


@pytest.fixture(scope="module")
def readers(console_service: ConsoleService) -> dict[str, str]:
    """A read-only key of each tenant."""
    make_key = console_service.service.administration.make_key
    return {tenant: make_key(OPERATOR, KeyForm(tenant=tenant, read_only=True)).key for tenant in CHANGING}


def at_each(page: Page, console_service: ConsoleService, tenant: str) -> Iterator[list[str]]:
    """Show each address of a tenant, with the names of what changes something there."""
    for at, names in CHANGING[tenant].items():
        page.goto(f"/{at.format(**console_service.places)}")
        expect(page.locator("main h1")).to_be_visible()
        yield [name.format(**console_service.places) for name in names]


@pytest.mark.parametrize("tenant", CHANGING)
def test_what_changes_something_is_for_those_who_may(
    console_service: ConsoleService, page_for: PageFor, readers: dict[str, str], tenant: str
) -> None:
    """A tenant has each button; its reader has none and reads why, and nothing that it can press is refused."""
    own, reading = page_for(console_service.keys[tenant]), page_for(readers[tenant])
    for names in at_each(own, console_service, tenant):
        expect(own.get_by_text(NOTICE)).to_be_hidden()
        for name in names:
            expect(pressable(own, name)).to_be_visible()
    refused: list[str] = []

    def note(answer: Response) -> None:
        if answer.status == 403:
            refused.append(f"{answer.request.method} {answer.url}")

    reading.on("response", note)
    pressed = 0
    for names in at_each(reading, console_service, tenant):
        expect(reading.get_by_text(NOTICE)).to_be_visible()
        reading.wait_for_load_state("networkidle")
        assert [] == [name for name in names if pressable(reading, name).count()]
        while fresh := reading.evaluate(PRESS):
            pressed += fresh
            reading.wait_for_load_state("networkidle")
    assert [] == refused
    assert pressed


def pressable(page: Page, name: str) -> Locator:
    """The button or link of a name."""
    main = page.locator("main")
    return main.get_by_role("button", name=name, exact=True).or_(main.get_by_role("link", name=name, exact=True))


def test_a_reader_composes_to_see_what_would_run(
    console_service: ConsoleService, page_for: PageFor, readers: dict[str, str]
) -> None:
    """The service explains the draft; only the submission is left out."""
    page = page_for(readers["ann"], f"#/compose/{console_service.places['running']}")
    expect(ready(page)).to_be_visible()


def test_settings_can_be_read_and_not_edited(
    console_service: ConsoleService, page_for: PageFor, readers: dict[str, str]
) -> None:
    """The policy, what is chosen by hand, and the goals of a plan; and who may read a source."""
    page = page_for(readers["ann"], f"#/dataflows/{console_service.places['adaptive']}?tab=adaptation")
    expect(page.get_by_label("Policy", exact=True)).not_to_be_editable()
    planned = page_for(readers["poor"], f"#/dataflows/{console_service.places['poors']}?tab=places")
    expect(planned.get_by_label("Goals")).not_to_be_editable()
    source = page_for(readers["city"], "#/sources/city:street")
    expect(source.locator(".facts")).to_contain_text("named: ann, bob, poor")
