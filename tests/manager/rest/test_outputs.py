"""The live sample of an output, and all of it as lines, over a real socket."""

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from braid_client.answers.dataflows import OutputEvent, SampleAnswer
from engine.delivery.publisher import RUNS
from manager.kernel.live_events import LiveEvents
from manager.outputs.readers import MOST_LOOKS_OF_ONE, OutputWatcher
from manager.rest import examples, streams
from tests.manager.memory_outputs import connecting, output
from tests.manager.rest.conftest import Asking
from tests.manager.rest.fake_service import FakeService
from tests.twins.memory_broker import MemoryBroker

BOUND = 30.0
TOPIC = "braid/1/out/ann/d-0/averages"
PATH = "/v1/dataflows/d-0/outputs/averages/events"
_MOST_LINES = 500


@pytest.fixture
def broker(service: FakeService, ann: httpx.Client) -> MemoryBroker:
    """Where a dataflow of ann's has its output."""
    made = MemoryBroker()
    service.outputs = OutputWatcher(connecting(made))
    service.outputs.start()
    ann.post("/v1/dataflows", json=examples.DOCUMENT).raise_for_status()
    return made


@contextmanager
def _watched(client: httpx.Client) -> Iterator[Iterator[SampleAnswer]]:
    with client.stream("GET", PATH) as answer:
        assert (200, "text/event-stream; charset=utf-8") == (answer.status_code, answer.headers["Content-Type"])
        yield _samples(answer)


def _samples(answer: httpx.Response) -> Iterator[SampleAnswer]:
    kind = ""
    for _, line in zip(range(_MOST_LINES), answer.iter_lines(), strict=False):
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            assert "sample" == kind
            yield SampleAnswer.model_validate_json(value)


def test_its_owner_and_operators_see_what_leaves(
    ann: httpx.Client, bob: httpx.Client, operator: httpx.Client, broker: MemoryBroker
) -> None:
    """What leaves while they look, and nothing from before; to anybody else there is no such dataflow."""
    broker.publish(TOPIC, output(1, "before"))
    with _watched(ann) as own, _watched(operator) as whole:
        broker.publish(TOPIC, output(2, {"t": 21.5}))
        assert [({"t": 21.5},)] * 2 == [next(own).events, next(whole).events]
        broker.publish(TOPIC, output(3, "later"))
        assert [("later",)] * 2 == [next(own).events, next(whole).events]
    assert 404 == bob.get(PATH).status_code


def test_a_busy_output_is_sampled(ann: httpx.Client, broker: MemoryBroker) -> None:
    """However much leaves, few samples are sent, and they and what they count are all of it."""
    with _watched(ann) as samples:
        broker.publish(TOPIC, output(1, 1))
        received = [next(samples)]
        for number in range(2, 1_001):
            broker.publish(TOPIC, output(number, number))
        while received[-1].first < 1_000:
            received.append(next(samples))
        assert 1_000 == sum(len(each.events) + each.others for each in received)
        assert len(received) < 100


def test_nobody_is_listened_to_for_those_who_left(
    ann: httpx.Client, service: FakeService, broker: MemoryBroker
) -> None:
    """As soon as somebody is gone the broker is asked for nothing more, and others may look."""
    assert service.outputs is not None
    for _ in range(MOST_LOOKS_OF_ONE + 1):
        with _watched(ann) as samples:
            broker.publish(TOPIC, output(1, 1))
            next(samples)
        deadline = time.monotonic() + BOUND
        while service.outputs.looks and time.monotonic() < deadline:
            # What leaves is how the server finds that nobody reads.
            broker.publish(TOPIC, output(1, 1))
            time.sleep(0.001)
        assert 0 == service.outputs.looks


def test_too_many_looks_are_refused(ask: Asking, service: FakeService, broker: MemoryBroker) -> None:
    """One tenant has its bound, and the answer says when to ask again."""
    with _watched(ask(service.ann)) as samples:
        broker.publish(TOPIC, output(1, 1))
        next(samples)
        assert service.outputs is not None
        service.outputs._most = 1
        refused = ask(service.ann).get(PATH)
        assert (429, "10") == (refused.status_code, refused.headers["Retry-After"])


def test_a_stream_ends_with_the_manager_with_the_lead_and_with_the_key(  # noqa: PLR0913, PLR0917 - all of them end it
    ann: httpx.Client,
    operator: httpx.Client,
    service: FakeService,
    events: LiveEvents,
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look does not hold up the end, and shows no more than its key allows."""
    assert service.outputs is not None
    with _watched(operator) as samples:
        service.outputs.stop()
        assert [] == list(samples)
    service.outputs.start()
    with _watched(operator) as samples:
        events.close()
        assert [] == list(samples)
    monkeypatch.setattr(streams, "QUIET", 0.0)
    with _watched(ann) as samples:
        service.known_keys.clear()
        service.hashes.clear()
        broker.publish(TOPIC, output(1, 1))
        assert len(list(samples)) <= 1


OUTPUTS = "/v1/dataflows/d-0/outputs"


@contextmanager
def listened(client: httpx.Client) -> Iterator[Iterator[OutputEvent]]:
    with client.stream("GET", OUTPUTS) as answer:
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
    assert 404 == bob.get(OUTPUTS).status_code


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
