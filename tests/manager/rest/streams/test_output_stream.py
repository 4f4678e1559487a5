"""What leaves at outputs, as lines over a real socket."""

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from engine.delivery.publisher import RUNS
from manager.answers.dataflows import OutputEvent
from manager.kernel.live_events import LiveEvents
from manager.outputs.readers import OutputWatcher
from manager.rest import examples, streams
from tests.manager.memory_outputs import connecting, output
from tests.manager.rest.fake_service import FakeService
from tests.twins.memory_broker import MemoryBroker

TOPIC = "braid/1/out/ann/d-0/averages"
PATH = "/v1/dataflows/d-0/outputs"


@pytest.fixture
def broker(service: FakeService, ann: httpx.Client) -> MemoryBroker:
    """Where a dataflow of ann's has its output."""
    made = MemoryBroker()
    service.outputs = OutputWatcher(connecting(made))
    service.outputs.start()
    ann.post("/v1/dataflows", json=examples.DOCUMENT).raise_for_status()
    return made


@contextmanager
def listened(client: httpx.Client) -> Iterator[Iterator[OutputEvent]]:
    with client.stream("GET", PATH) as answer:
        assert (200, "application/x-ndjson") == (answer.status_code, answer.headers["Content-Type"])
        lines = answer.iter_lines()
        # It says when it listens.
        assert not next(lines)
        yield (OutputEvent.model_validate(json.loads(line)) for line in lines if line)


def test_its_owner_and_operators_hear_all_of_it(
    ann: httpx.Client, bob: httpx.Client, operator: httpx.Client, broker: MemoryBroker
) -> None:
    """Every event that leaves from when the stream begins; to anybody else there is no such dataflow."""
    with listened(ann) as own, listened(operator) as whole:
        for first in range(0, 500, 2):
            broker.publish(TOPIC, output(first, first, "\ud800", epoch=RUNS))
        for heard in (own, whole):
            found = [*itertools.islice(heard, 500)]
            assert [*range(500)] == [each.number for each in found]
            assert [0, "\ud800"] == [each.event for each in found[:2]]
    assert 404 == bob.get(PATH).status_code


def test_a_slow_reader_fills_no_memory(ann: httpx.Client, broker: MemoryBroker) -> None:
    """However much leaves while nobody reads, little of it waits; what is shown and what is counted is all of it."""
    many = 400
    with listened(ann) as heard:
        # Far more than sockets hold.
        for first in range(many):
            broker.publish(TOPIC, output(first, "x" * 100_000, epoch=RUNS))
        broker.publish(TOPIC, output(many, "last", epoch=RUNS))
        shown = missed = 0
        for event in heard:
            shown, missed = shown + (not event.missed), missed + event.missed
            if event.event == "last":
                break
    assert many + 1 == shown + missed
    assert missed > 0


def test_it_ends_with_the_manager_with_the_lead_and_with_the_key(  # noqa: PLR0913, PLR0917 - all of them end it
    ann: httpx.Client,
    operator: httpx.Client,
    service: FakeService,
    events: LiveEvents,
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A listener does not hold up the end, and hears no more than its key allows."""
    assert service.outputs is not None
    with listened(operator) as heard:
        service.outputs.stop()
        assert [] == list(heard)
    service.outputs.start()
    with listened(operator) as heard:
        events.close()
        assert [] == list(heard)
    monkeypatch.setattr(streams, "QUIET", 0.0)
    with listened(ann) as heard:
        service.known_keys.clear()
        service.hashes.clear()
        broker.publish(TOPIC, output(1, 1, epoch=RUNS))
        assert len(list(heard)) <= 1
