"""The section on machines on the page of jobs."""

from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from manager.machines.admission import Admission
from manager.observations.reports import MachineStatus
from ring.fleet import HostReport, MachineSeen
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.machines.carriages import commit, turn

pytestmark = [pytest.mark.full, pytest.mark.chromium]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def page(console_service: ConsoleService, page_for: PageFor) -> Page:
    """The page of jobs, with a machine that carries a host of which another has a copy."""
    carriages = console_service.tools.carriages
    version = carriages.fleet().carriages["north"].version + 1
    commit(carriages, turn("north", "north", version=version, peers=("south",), kept_by=frozenset({"south"})))
    carriages.drain("north", draining=False, who="operator")
    north = MachineSeen(name="north", alive=True, zone=HOSTILE, hosts={"north": HostReport(behind_bytes=12_345)})
    console_service.seen.every_machine = {"north": MachineStatus(seen=north, secret="hush")}  # noqa: S106 - of a test
    console_service.equip(replicas=1)
    return page_for(console_service.keys["operator"], "#/jobs")


def test_machines_are_listed_with_what_they_carry(page: Page) -> None:
    """With zone, copies and lag; machines that are away, and hosts with too few copies, are seen at once."""
    machines = page.get_by_role("region", name="2 machines")
    north = machines.get_by_role("row", name="north", exact=False).filter(has_text="copied to south")
    expect(north).to_contain_text("alive")
    expect(north).to_contain_text(HOSTILE)
    expect(north).to_contain_text("12,345")
    expect(machines.get_by_role("row", name="south away")).to_contain_text("north")
    expect(page.get_by_text("Host north has too few copies.")).to_be_visible()


def test_a_machine_is_drained_and_undrained(page: Page, console_service: ConsoleService) -> None:
    """What keeps a host there is said, and the focus stays on the button."""
    page.get_by_role("button", name="Drain machine north").click()
    expect(page.get_by_role("button", name="Undrain machine north")).to_be_visible()
    assert console_service.tools.carriages.fleet().draining == {"north"}
    expect(page.get_by_text("start another machine with: braid host NAME")).to_be_visible()
    page.get_by_role("button", name="Undrain machine north").click()
    expect(page.get_by_role("button", name="Drain machine north", exact=True)).to_be_visible()
    assert console_service.tools.carriages.fleet().draining == frozenset()


def test_the_section_is_live(page: Page, console_service: ConsoleService) -> None:
    """A machine that comes back is shown as alive without a reload."""
    seen = console_service.seen.every_machine
    expect(page.get_by_role("row", name="south away")).to_be_visible()
    seen["south"] = MachineStatus(seen=replace(seen["north"].seen, name="south", hosts={}))
    expect(page.get_by_role("row", name="south alive")).to_be_visible()
    expect(page.get_by_text("Host north has too few copies.")).to_have_count(0)


def test_a_machine_that_waits_is_admitted(page: Page, console_service: ConsoleService) -> None:
    """It is shown with its key and why it waits, and has a button only until then."""
    seen = console_service.seen.every_machine
    newcomer = replace(seen["north"].seen, name="east", hosts={}, zone="")
    seen["east"] = MachineStatus(seen=newcomer, key="its-key")
    console_service.equip(admission=Admission(asks=True))
    expect(page.get_by_role("row", name="east waits")).to_be_visible()
    expect(page.get_by_text("Machine east, with the key its-key, waits: it is new")).to_be_visible()
    page.get_by_role("button", name="Admit machine east").click()
    expect(page.get_by_role("row", name="east alive")).to_be_visible()
    expect(page.get_by_role("button", name="Admit machine east")).to_have_count(0)
    assert console_service.tools.carriages.fleet().keys == {"east": "its-key"}
    console_service.tools.carriages.forget("east", ending=(), who="operator")
    console_service.equip(admission=Admission())


def test_an_unknown_machine_is_reported(page: Page, console_service: ConsoleService) -> None:
    """A refusal is shown in the section."""
    button = page.get_by_role("button", name="Drain machine north")
    expect(button).to_be_visible()
    page.route("**/v1/machines/north/drain", lambda route: route.fulfill(status=404, json={"title": "Not found"}))
    button.click()
    expect(page.get_by_role("alert").filter(has_text="Not found")).to_be_visible()
    assert console_service.tools.carriages.fleet().draining == frozenset()
