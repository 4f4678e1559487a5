"""The pages of sources: the list, one source, and the form that adds one."""

import json
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from bridge.broker import start_broker
from bridge.connectors.connector_run import LinkState
from bridge.transport.mqtt_client import MqttClient
from dags import Kind
from engine.host.spools import Received
from manager.observations.reports import HostSeen
from manager.outputs import readers
from manager.outputs.readers import OutputWatcher
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.managers import caller

pytestmark = pytest.mark.chromium
SINCE = 1_767_225_600.0
HOSTILE = "<img src=x onerror=alert(1)>"
EVENTS = ({"machine": "a", "celsius": 71.5}, {"machine": "b", "celsius": 80})


def receives(console_service: ConsoleService, received: Received | None) -> None:
    """Have a host report so much of every source."""
    streams = [f"source/{number}" for number in range(1, 30)]
    sources = {} if received is None else dict.fromkeys(streams, received)
    north = HostSeen(host="north", alive=True, sources=sources, seen=datetime.now(UTC))
    console_service.seen.every_host = (north,)


@pytest.fixture
def unheard(console_service: ConsoleService) -> Iterator[None]:
    """Nothing is heard of sources before and after the test."""
    receives(console_service, None)
    yield
    receives(console_service, None)


@pytest.fixture
def broker(tmp_path: Path, console_service: ConsoleService, monkeypatch: pytest.MonkeyPatch) -> Iterator["Speaker"]:
    """A real broker, to which the service listens until two messages have come."""
    monkeypatch.setattr(readers, "MOST_SAMPLED_MESSAGES", len(EVENTS))
    with start_broker(tmp_path / "broker", {"braid": "secret"}, kind="embedded") as started:
        speaker = Speaker(started.address("braid"))
        outputs = OutputWatcher(speaker.connect)
        outputs.start()
        console_service.equip(outputs=outputs)
        yield speaker
        outputs.stop()
        speaker.line.stop()
        console_service.equip()


class Speaker:
    """Publishes on a broker once somebody has subscribed there."""

    def __init__(self, address: Any) -> None:
        self._address = address
        self._subscribed = threading.Event()
        self.line = MqttClient(address, "speaker", lasting=False)
        self.line.begin()

    def connect(self, client_id: str, **callbacks: Any) -> MqttClient:
        """Connect a client, and note when it has subscribed."""
        client = MqttClient(self._address, client_id, lasting=False, **callbacks)
        subscribe = client.subscribe

        def noted(topics: Iterable[str], *, timeout: float = 30.0) -> None:
            subscribe(topics, timeout=timeout)
            self._subscribed.set()

        client.subscribe = noted  # type: ignore[method-assign]
        client.begin()
        return client

    def publish(self, topic: str) -> None:
        assert self._subscribed.wait(30)
        for event in EVENTS:
            self.line.publish(topic, json.dumps(event).encode())


def fields_of(page: Page) -> dict[str, str]:
    """The fields in the table of a form, with their types."""
    rows = page.locator("table.fields tbody tr")
    return {
        row.get_by_label("Field").input_value(): row.get_by_label("Type").input_value()
        for row in (rows.nth(at) for at in range(rows.count()))
    }


def test_a_source_is_added_from_what_comes_over_mqtt(
    console_service: ConsoleService, page_for: PageFor, broker: Speaker
) -> None:
    """It is listened to, the proposed fields are corrected, and its page has the lines to send; others see nothing."""
    page = page_for(console_service.keys["ann"], "#/sources")
    page.get_by_role("link", name="Add a source").click()
    page.get_by_label("MQTT, at Braid's broker").check()
    page.get_by_label("Name", exact=True).fill("ovens")
    expect(page.get_by_label("topic", exact=True)).to_have_value("ann/ovens")
    page.get_by_role("button", name="Listen for 10 seconds").click()
    broker.publish("ann/ovens")
    expect(page.get_by_text("Read 2 events in 2 messages that came.")).to_be_visible()
    assert {"celsius": "float", "machine": "string"} == fields_of(page)
    page.get_by_role("button", name="Add a field").click()
    page.keyboard.type("at")
    page.get_by_label("Type").last.select_option("timestamp")
    page.get_by_role("button", name="Add the source").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("ann:ovens")
    made = console_service.service.sources.get(caller("ann"), "ovens")
    assert {"at": Kind.TIMESTAMP, "celsius": Kind.FLOAT, "machine": Kind.STRING} == made.fields
    expect(page.get_by_text("No dataflow reads it yet")).to_be_visible()
    expect(page.get_by_label("Lines for Command line")).to_contain_text("--topic ann/ovens")
    page.get_by_text("Python", exact=True).click()
    expect(page.get_by_label("Lines for Python")).to_contain_text('client.username_pw_set("tenant-ann", "PASSWORD")')
    expect(page.get_by_label("Lines for Command line")).to_be_hidden()
    page.get_by_role("link", name="Compose a dataflow that reads it").click()
    expect(page.locator("[data-task=source]")).to_be_visible()
    stranger = page_for(console_service.keys["bob"], "#/sources/ann%3Aovens")
    expect(stranger.get_by_role("alert").filter(has_text="there is no source 'ann:ovens'")).to_be_visible()


def test_errors_are_shown_at_the_fields_that_they_name(console_service: ConsoleService, page_for: PageFor) -> None:
    """Those of the name, of a topic, of a format and of fields, for tenants and operators alike."""
    page = page_for(console_service.keys["ann"], "#/sources/new")
    page.get_by_label("Name", exact=True).fill("a b")
    page.get_by_label("topic", exact=True).fill("braid/x")
    add = page.get_by_role("button", name="Add the source")
    add.click()
    name = page.locator(".field", has=page.get_by_label("Name", exact=True))
    expect(name.locator(".wrong")).to_contain_text("characters that are not allowed here")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.get_by_label("Name", exact=True).fill("fine")
    add.click()
    topic = page.locator(".field", has=page.get_by_label("topic", exact=True))
    expect(topic.locator(".wrong")).to_contain_text("braid")
    expect(name.locator(".wrong")).to_be_hidden()
    page.get_by_role("button", name="Listen for 10 seconds").click()
    expect(topic.locator(".wrong")).to_contain_text("braid")
    page.get_by_label("Format").select_option("csv")
    page.get_by_label("separator").fill(";;")
    add.click()
    expect(page.locator(".field", has=page.get_by_label("separator")).locator(".wrong")).to_be_visible()
    page.get_by_label("Another MQTT broker").check()
    page.get_by_label("url").fill("http://x")
    page.get_by_label("topic", exact=True).fill("plant/heat")
    add.click()
    expect(page.locator(".wrong").filter(has_text="the URL is not that of a broker")).to_be_visible()
    page.get_by_role("button", name="Add a field").click()
    add.click()
    expect(page.get_by_text("A field needs a name.")).to_be_visible()


def test_a_source_is_added_from_pasted_events(console_service: ConsoleService, page_for: PageFor) -> None:
    """With a webhook, which is made on its page, shown with the rule of its signature, and removed."""
    page = page_for(console_service.keys["operator"], "#/sources/new")
    page.get_by_label("Owner", exact=True).select_option("bob")
    page.get_by_label("HTTP or a webhook").check()
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_label("Events", exact=True).fill('{"id": 7, "total": 120.5}\n{"id": 8, "total": null}')
    page.get_by_role("button", name="Propose fields").click()
    expect(page.get_by_text("every number is whole; if others may come, it is a float")).to_be_visible()
    assert {"id": "integer", "total": "float"} == fields_of(page)
    page.get_by_role("button", name="Add the source").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("bob:orders")
    lines = page.get_by_label("Lines for HTTP")
    expect(lines).to_contain_text(f"{console_service.url}/v1/sources/bob:orders/events")
    webhook = page.get_by_role("region", name="Webhook", exact=True)
    webhook.get_by_label("How the service signs").select_option("hex")
    webhook.get_by_role("button", name="Make a webhook").click()
    expect(webhook.locator(".wrong").filter(has_text="names no header")).to_be_visible()
    webhook.get_by_label("Header with the signature").fill("X-Signature")
    webhook.get_by_role("button", name="Make a webhook").click()
    expect(webhook.get_by_label("URL of the webhook")).to_contain_text("/v1/hooks/")
    expect(webhook).to_contain_text("header X-Signature, the hexadecimal HMAC-SHA256 of the body.")
    expect(webhook.get_by_role("region", name="Secret")).to_have_text(re.compile("^[0-9a-f]{64}$"))
    webhook.get_by_role("button", name="Remove the webhook…").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(webhook.get_by_role("button", name="Make a webhook")).to_be_visible()
    page.get_by_role("button", name="Remove the source…").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sources")
    expect(page.get_by_text("bob:orders")).to_have_count(0)


@pytest.mark.usefixtures("unheard")
def test_an_owner_sees_what_its_source_rejects(console_service: ConsoleService, page_for: PageFor) -> None:
    """As it comes, with rate, reason and sample, as text; readers see neither counts nor events."""
    page = page_for(console_service.keys["city"], "#/sources")
    source = page.get_by_role("region", name="Sources by name").get_by_role("row").filter(has_text="city:street")
    expect(source).to_contain_text("not receiving yet")
    received = Received(since=SINCE, accepted=1_000).rejecting(HOSTILE, "no JSON", count=5, at=SINCE + 3_600.0)
    receives(console_service, received)
    expect(source).to_contain_text("1,000")
    receives(console_service, replace(received, accepted=1_234))
    expect(source).to_contain_text("1,234")
    expect(source.get_by_role("cell").nth(1)).to_have_text(re.compile("[0-9]"))
    connected = LinkState(since=SINCE).up(SINCE)
    for link, text in (
        (connected, "connected since 1 Jan 2026"),
        (connected.down(HOSTILE, SINCE + 60.0), f"Failed 1 Jan 2026, 00:01:00: {HOSTILE}"),
    ):
        receives(console_service, replace(received, link=link))
        expect(source.get_by_role("cell").nth(0)).to_contain_text(text)
    source.get_by_role("link", name="5 rejected of city:street").click()
    event = page.get_by_role("region", name="The newest rejected events").get_by_role("row").nth(1)
    expect(event).to_contain_text("1 Jan 2026, 01:00:00")
    expect(event).to_contain_text("no JSON")
    expect(event).to_contain_text(HOSTILE)
    reader = page_for(console_service.keys["ann"], "#/sources/city%3Astreet")
    expect(reader.get_by_role("table", name="Fields that events have")).to_contain_text("temperature")
    for hidden in ("1,000", "no JSON", "Send events", "Webhook", "city/street"):
        expect(reader.get_by_text(hidden)).to_have_count(0)
    reader.get_by_role("button", name="Show the newest events").click()
    # A process of its own begins for it.
    expect(reader.get_by_text("No event is kept.")).to_be_visible(timeout=60_000)


def test_fields_and_readers_are_changed(console_service: ConsoleService, page_for: PageFor) -> None:
    """After a preview of what that does to dataflows, and only if it is confirmed."""
    page = page_for(console_service.keys["city"], "#/sources/city%3Aspare")
    page.get_by_role("button", name="Change fields…").click()
    page.get_by_role("row").filter(has=page.locator("input")).last.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Save").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("0 dataflows of those that run keep the fields before.")
    dialog.get_by_role("button", name="Change").click()
    fields = page.get_by_role("region", name="Fields that events have")
    expect(fields.get_by_role("row")).to_have_count(2)
    expect(page.get_by_label("Lines for Command line")).not_to_contain_text("temperature")
    page.get_by_label("All tenants").check()
    page.get_by_role("button", name="Save").click()
    dialog.get_by_role("button", name="Change").click()
    expect(page.locator(".facts").first).to_contain_text("public")
    assert "public" == console_service.service.sources.get(caller("city"), "spare").visibility


def test_new_credentials_are_in_the_lines(console_service: ConsoleService, page_for: PageFor) -> None:
    """Once it is said that the old ones end; the password is shown this once."""
    page = page_for(console_service.keys["bob"], "#/sources/bob%3Aquiet")
    page.get_by_role("button", name="Make new credentials…").click()
    expect(page.get_by_role("dialog")).to_contain_text("The present password of bob, if it has one, ends at once")
    page.get_by_role("button", name="Make new ones").click()
    password = page.get_by_label("Password").inner_text()
    assert len(password) > 40
    expect(page.get_by_label("Lines for Command line")).to_contain_text(password)
    page.reload()
    expect(page.get_by_label("Lines for Command line")).to_contain_text("--pw PASSWORD")
