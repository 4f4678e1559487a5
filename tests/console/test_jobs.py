"""The page of all jobs and the page of one, with live figures; and its sections on images and machines."""

import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from braid_client.answers.jobs import ImageForm
from braid_client.answers.machines import MachineClassForm, SupplyKind
from manager.machines.admission import Admission
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, MachineStatus, Measured, StreamMeasured
from merge import JobId
from ring.fleet import HostReport, MachineSeen
from tests.console.conftest import ConsoleService, PageFor
from tests.console.contents import answer_with, job
from tests.manager.machines.carriages import commit, turn
from tests.manager.managers import OPERATOR

pytestmark = [pytest.mark.full, pytest.mark.chromium]

NOW = datetime.now(UTC)
HOSTILE = "<img src=x onerror=alert(1)> no field temperature"


def seen_now(**said: Any) -> JobSeen:
    """The latest status of the town's job: batches of 80 ms, 120 events waiting, one failed task."""
    now = time.monotonic()
    measured = tuple(
        Measured(
            at=now - ago,
            age=0.0,
            batch=batch,
            instances={1: InstanceMeasured(cpu_ns=2_500_000_000, taken=taken, emitted=taken)},
            streams={"city:street": StreamMeasured(entered=taken, lag_events=120, lag_seconds=1.5)},
            left=taken,
            batch_seconds={"p50": 0.08, "p99": 0.2},
            latency_seconds={"p50": 0.4, "p99": 0.9},
        )
        for ago, batch, taken in ((10.0, 6, 0), (0.0, 7, 1_000))
    )
    status = {"job": "1", "host": "main", "state": "running", "batch": 7, "restarts": 2}
    return JobSeen(**{**status, "failed": {2: HOSTILE}, "measured": measured, "seen": NOW, **said})


@pytest.fixture
def version(console_service: ConsoleService) -> int:
    """The version of the plan of the town's job."""
    with console_service.tools.committer.looking() as state:
        return state.plans[JobId(1)].version


@pytest.fixture
def tasks(console_service: ConsoleService) -> str:
    """How many tasks of the town's job are active, apart from its sources."""
    with console_service.tools.committer.looking() as state:
        return str(sum(bool(state.running.tasks[each].inputs) for each in state.jobs.jobs[JobId(1)].active))


@pytest.fixture
def town(console_service: ConsoleService, version: int) -> ConsoleService:
    """The town, with a status of its host and job."""
    console_service.seen.jobs["1"] = seen_now(version=version, in_effect=version)
    host = HostSeen(
        host="main",
        alive=True,
        jobs=("1",),
        spools={"city:street": "its disk is full", "x": "ready"},
        cores=8.0,
        seen=NOW,
    )
    console_service.seen.every_host = (host,)
    return console_service


@pytest.fixture
def page(town: ConsoleService, page_for: PageFor) -> Page:
    """The page of the town's job."""
    return page_for(town.keys["operator"], "#/jobs/1")


def test_jobs_and_hosts_are_listed_with_their_status(town: ConsoleService, tasks: str, page_for: PageFor) -> None:
    """Problems come first; each job has a link to its page and sparklines."""
    page = page_for(town.keys["operator"], "#/jobs")
    jobs = page.get_by_role("region", name="1 job;")
    expect(jobs.get_by_role("row", name="job 1")).to_contain_text("running")
    expect(jobs).to_contain_text(f"{tasks}, 3 paused")
    expect(jobs).to_contain_text("1 s")
    expect(jobs).to_contain_text("80 ms")
    expect(jobs.get_by_role("img", name="samples").first).to_be_visible()
    expect(page.get_by_role("region", name="1 host")).to_contain_text("alive")
    expect(page.get_by_text("The spool of city:street on host main: its disk is full.")).to_be_visible()
    jobs.get_by_role("link", name="job 1").click()
    expect(page.get_by_role("heading", name="Job 1")).to_be_visible()


def test_a_job_has_a_page_with_its_plan_and_its_figures(page: Page, version: int, tasks: str) -> None:
    """Its plan as a drawing, its tasks with their failures, its figures with their units."""
    expect(page.locator(".facts").first).to_contain_text(f"version {version}, in effect")
    expect(page.locator(".facts").first).to_contain_text(f"{tasks} active, 3 paused")
    expect(page.locator(".facts").first).to_contain_text("a batch every 1 s")
    figures = page.locator(".cards .card")
    expect(figures.filter(has_text="Batch, median")).to_contain_text("80 ms")
    expect(figures.filter(has_text="Batch, 99th percentile")).to_contain_text("200 ms")
    expect(figures.filter(has_text="Events waiting")).to_contain_text("120")
    expect(figures.filter(has_text="Longest wait")).to_contain_text("1.5 s")
    expect(figures.filter(has_text="Latency, median")).to_contain_text("400 ms")
    expect(page.locator(".canvas-summary")).to_contain_text(" in 1 job, of ")
    table = page.get_by_role("region", name=re.compile(r"\d+ tasks"))
    # Those that failed stand first.
    expect(table.get_by_role("row").nth(1)).to_contain_text(HOSTILE)
    table.get_by_role("button", name="city:street #1", exact=True).click()
    details = page.locator(".graph-details")
    expect(details).to_contain_text("2.5 s")
    expect(details.get_by_role("button", name="plausible #2")).to_be_visible()
    expect(page.get_by_role("region", name="Among the latest 200 operations")).to_contain_text("submit")


def test_the_page_of_a_job_is_live(page: Page, town: ConsoleService, version: int) -> None:
    """New figures and states appear, and the focus stays."""
    expect(page.get_by_text("No events yet.")).to_be_visible()
    button = page.get_by_role("button", name="average #3")
    button.focus()
    town.seen.jobs["1"] = seen_now(version=version, in_effect=version, restarts=3, trouble="its JVM died")
    expect(page.locator(".problem")).to_contain_text("its JVM died")
    expect(button).to_be_focused()
    for number in ("2", "1"):
        town.events.add("job", {"job": number, "state": "died", "trouble": f"{number} died", "failed": {}})
    events = page.get_by_role("region", name="Newest first")
    expect(events).to_contain_text("1 died")
    expect(events.locator("tbody tr")).to_have_count(1)


def test_an_unknown_job_is_reported(town: ConsoleService, page_for: PageFor) -> None:
    """With its name."""
    page = page_for(town.keys["operator"], "#/jobs/999")
    expect(page.get_by_role("alert").filter(has_text="999")).to_be_visible()


def test_streams_from_and_to_other_jobs_are_listed(page: Page) -> None:
    """Incoming and outgoing ones, with links to the other jobs."""
    answer_with(
        page,
        {
            "/v1/streams": [
                {"instance": 1, "port": "out", "producer": "1", "consumers": ["2", "3"]},
                {"instance": 8, "port": "odd", "producer": "4", "consumers": ["1"]},
                {"instance": 9, "port": "out", "producer": "4", "consumers": ["2"]},
            ]
        },
    )
    streams = page.get_by_role("region", name="2 streams")
    expect(streams.locator("tbody tr")).to_have_text(["#1 outoutthis jobjob 2, job 3", "#8 oddinjob 4this job"])
    expect(streams.get_by_role("link", name="job 3")).to_have_attribute("href", "#/jobs/3")


def test_a_job_with_a_problem_is_named_above_all_jobs(town: ConsoleService, page_for: PageFor) -> None:
    """All jobs are listed, even if they take several requests."""
    page = page_for(town.keys["operator"])
    jobs = [job(str(number)) for number in range(1, 602)]
    jobs[550]["trouble"] = "its plan was refused"
    answer_with(page, {"/v1/jobs": jobs})
    page.goto("/#/jobs")
    expect(page.get_by_text("Job 551: its plan was refused")).to_be_visible()
    expect(page.get_by_role("region", name="601 jobs").locator("tbody tr")).to_have_count(601)


def test_images_are_listed_with_their_hosts(console_service: ConsoleService, page_for: PageFor) -> None:
    """A host of an image that is not registered is a problem, seen at once."""
    console_service.service.images.put(OPERATOR, "cuda", ImageForm(tags=frozenset({"gpu"}), cores=8.0, most=4))
    console_service.seen.every_host = tuple(
        HostSeen(host=name, alive=True, image=image, seen=datetime.now(UTC))
        for name, image in (("north", "cuda"), ("south", "nothing"))
    )
    page = page_for(console_service.keys["operator"], "#/jobs")
    images = page.get_by_role("region", name="2 images")
    expect(images.get_by_role("row", name="cuda")).to_contain_text("north")
    expect(page.get_by_text("Host south: its image 'nothing' is not registered")).to_be_visible()


def test_classes_and_rented_machines_are_listed(console_service: ConsoleService, page_for: PageFor) -> None:
    """With prices, what was measured or declared, how machines are started, and why each was."""
    form = MachineClassForm(
        cores=2, price=0.25, tags=frozenset({"spare"}), most=3, supply=SupplyKind.COMMAND, command="rent"
    )
    console_service.service.machine_classes.put(OPERATOR, "small", form)
    carriages = console_service.tools.carriages
    carriages.add("added-2", carriages.fleet().classes["small"], "jobs take <b>much</b>")
    page = page_for(console_service.keys["operator"], "#/jobs")
    small = page.get_by_role("region", name="Classes: 3").get_by_role("row", name="small")
    for shown in ("0.25", "60 s (declared)", "spare", "3", "rent", "added-2"):
        expect(small).to_contain_text(shown)
    rented = page.get_by_role("region", name="Latest rented machines").get_by_role("row", name="added-2")
    expect(rented).to_contain_text("jobs take <b>much</b>")
    carriages.forget("added-2", ending=(), who="operator")
    console_service.service.machine_classes.remove(OPERATOR, "small")


HOSTILE_ZONE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def machines_page(console_service: ConsoleService, page_for: PageFor) -> Page:
    """The page of jobs, with a machine that carries a host of which another has a copy."""
    carriages = console_service.tools.carriages
    version = carriages.fleet().carriages["north"].version + 1
    commit(carriages, turn("north", "north", version=version, peers=("south",), kept_by=frozenset({"south"})))
    carriages.drain("north", draining=False, who="operator")
    north = MachineSeen(name="north", alive=True, zone=HOSTILE_ZONE, hosts={"north": HostReport(behind_bytes=12_345)})
    console_service.seen.every_machine = {"north": MachineStatus(seen=north, secret="hush")}  # noqa: S106 - of a test
    console_service.equip(replicas=1)
    return page_for(console_service.keys["operator"], "#/jobs")


def test_machines_are_listed_with_what_they_carry(machines_page: Page) -> None:
    """With zone, copies and lag; machines that are away, and hosts with too few copies, are seen at once."""
    machines = machines_page.get_by_role("region", name="3 machines")
    north = machines.get_by_role("row", name="north", exact=False).filter(has_text="copied to south")
    expect(north).to_contain_text("alive")
    expect(north).to_contain_text(HOSTILE_ZONE)
    expect(north).to_contain_text("12,345")
    expect(machines.get_by_role("row", name="south away")).to_contain_text("north")
    expect(machines_page.get_by_text("Host north has too few copies.")).to_be_visible()


def test_a_machine_is_drained_and_undrained(machines_page: Page, console_service: ConsoleService) -> None:
    """What keeps a host there is said, and the focus stays on the button."""
    machines_page.get_by_role("button", name="Drain machine north").click()
    expect(machines_page.get_by_role("button", name="Undrain machine north")).to_be_visible()
    assert console_service.tools.carriages.fleet().draining == {"north"}
    expect(machines_page.get_by_text("start another machine with: braid host NAME")).to_be_visible()
    machines_page.get_by_role("button", name="Undrain machine north").click()
    expect(machines_page.get_by_role("button", name="Drain machine north", exact=True)).to_be_visible()
    assert console_service.tools.carriages.fleet().draining == frozenset()


def test_the_section_is_live(machines_page: Page, console_service: ConsoleService) -> None:
    """A machine that comes back is shown as alive without a reload."""
    seen = console_service.seen.every_machine
    expect(machines_page.get_by_role("row", name="south away")).to_be_visible()
    seen["south"] = MachineStatus(seen=replace(seen["north"].seen, name="south", hosts={}))
    expect(machines_page.get_by_role("row", name="south alive")).to_be_visible()
    expect(machines_page.get_by_text("Host north has too few copies.")).to_have_count(0)


def test_a_machine_that_waits_is_admitted(machines_page: Page, console_service: ConsoleService) -> None:
    """It is shown with its key and why it waits, and has a button only until then."""
    seen = console_service.seen.every_machine
    newcomer = replace(seen["north"].seen, name="east", hosts={}, zone="")
    seen["east"] = MachineStatus(seen=newcomer, key="its-key")
    console_service.equip(admission=Admission(asks=True))
    expect(machines_page.get_by_role("row", name="east waits")).to_be_visible()
    expect(machines_page.get_by_text("Machine east, with the key its-key, waits: it is new")).to_be_visible()
    machines_page.get_by_role("button", name="Admit machine east").click()
    expect(machines_page.get_by_role("row", name="east alive")).to_be_visible()
    expect(machines_page.get_by_role("button", name="Admit machine east")).to_have_count(0)
    assert console_service.tools.carriages.fleet().keys == {"east": "its-key"}
    console_service.tools.carriages.forget("east", ending=(), who="operator")
    console_service.equip(admission=Admission())


def test_an_unknown_machine_is_reported(machines_page: Page, console_service: ConsoleService) -> None:
    """A refusal is shown in the section."""
    button = machines_page.get_by_role("button", name="Drain machine north")
    expect(button).to_be_visible()
    machines_page.route(
        "**/v1/machines/north/drain", lambda route: route.fulfill(status=404, json={"title": "Not found"})
    )
    button.click()
    expect(machines_page.get_by_role("alert").filter(has_text="Not found")).to_be_visible()
    assert console_service.tools.carriages.fleet().draining == frozenset()
