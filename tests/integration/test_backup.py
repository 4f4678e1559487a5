"""Dead letters over a real broker, and real jobs that are backed up while they run and go on elsewhere."""

import itertools
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState, SubmitAnswer
from braid_client.client import Client
from bridge import topics
from manager.backup import back_up, restore
from manager.store.database import sqlite_url
from tests.integration.hosting import QUICK, counted, numbers
from tests.integration.serving import Served, counting, passing, street

pytestmark = [pytest.mark.full, pytest.mark.spark]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A service whose pace is so quick that no two tasks fit into one job."""
    made = Served(tmp_path / "one", pace=QUICK)
    made.root.parent.mkdir()
    try:
        made.start()
        yield made
    finally:
        made.close()


def dead_letter(instance: int, batch: int) -> bytes:
    content = {
        "instance": instance,
        "port": "in",
        "reason": "no number",
        "batch": batch,
        "count": 1,
        "events": [{"n": "x"}],
    }
    return json.dumps(content).encode()


def shown(client: Client) -> list[tuple[Any, ...]]:
    return [(each.instance, each.dataflows, each.events) for each in client.dead_letters()]


def heard(served: Served, answer: SubmitAnswer) -> list[Any]:
    """What came for the dataflow's only sink since the test listens, with its number and epoch."""
    return [
        (each["epoch"], number, event)
        for each in served.heard(answer.outputs[0].topic)
        for number, event in enumerate(each["events"], each["first"])
    ]


def newest(served: Served, answer: SubmitAnswer) -> tuple[int, dict[int, Any]]:
    """The highest epoch in which something came for the dataflow's only sink, and what did by its number, each once."""
    every = heard(served, answer)
    highest = max((epoch for epoch, _, _ in every), default=0)
    found: dict[int, Any] = {}
    for epoch, number, event in every:
        assert epoch < highest or found.setdefault(number, event) == event, f"number {number} is two events"
    return highest, found


@contextmanager
def sending(served: Served) -> Iterator[None]:
    """Events from 100 on, one after the other for as long as this lasts."""
    ends = threading.Event()

    def send() -> None:
        for number in itertools.takewhile(lambda _: not ends.wait(0.005), itertools.count(100)):
            served.publish("city/lane", numbers(number, number + 1))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def gone_on(served: Served, counts: SubmitAnswer, passes: SubmitAnswer, epochs: Mapping[str, int]) -> int:
    """See that two dataflows go on where the same events had come, in higher epochs; how many those were."""
    after = numbers(1_000, 1_004)
    # Nothing is heard before it listens.
    assert served.line is not None
    served.publish("city/lane", after)
    served.until(lambda: after[-1] in newest(served, passes)[1].values(), "what is let through to go on")
    epoch, passed = newest(served, passes)
    assert epoch > epochs[passes.id]
    came = max(passed) + 1 - len(after)
    events = [*numbers(0, 5), *numbers(100, 95 + came), *after]
    assert {number: events[number] for number in passed} == passed
    served.until(lambda: len(events) - 1 in newest(served, counts)[1], "the counts to go on")
    epoch, found = newest(served, counts)
    assert epoch > epochs[counts.id]
    expected = counted(events)
    assert {number: expected[number] for number in found} == found
    assert {*range(came, len(events))} <= found.keys() & passed.keys()
    return came


@pytest.mark.slow
@pytest.mark.parametrize("with_spools", [True, False])
def test_what_ran_goes_on_elsewhere(served: Served, tmp_path: Path, *, with_spools: bool) -> None:
    """Backed up while it runs in many jobs, with and without its spools: outputs, dead letters and tenants go on.

    With its spools it is backed up while events come. Then every output is that of the same events: those that had come
    by one moment, and those that come after; no job has lost or doubled one on the way to the next.
    """
    with served.admit("ann") as ann:
        ann.register_source(street("lane"))
        dataflow, beside = ann.submit(counting("ann:lane")), ann.submit(passing("ann:lane", 1_000_000))
        with served.client() as operator:
            assert len(list(operator.jobs())) > 3
        for each in (dataflow, beside):
            served.until_state(ann, each.id, DataflowState.RUNNING)
        served.publish("city/lane", numbers(0, 5))
        assert counted(numbers(0, 5)) == served.until_delivered(dataflow, "out", 5)
        assert numbers(0, 5) == served.until_delivered(beside, "out", 5)
        instance = next(each.instance for each in dataflow.started if each.type == "count")
        served.line.publish(topics.dead(instance), dead_letter(instance, 1))
        served.until(lambda: len(shown(ann)) == 1, "a dead letter")
        served.kill()
        for batch in (1, 2):
            served.line.publish(topics.dead(instance), dead_letter(instance, batch))
        served.start()
        served.until(lambda: len(shown(ann)) == 2, "the one that came meanwhile")
        letters = shown(ann)
        assert [(instance, (dataflow.id,), ({"n": "x"},))] * 2 == letters
        key = ann._http.headers["Authorization"].removeprefix("Bearer ")
    archive, root = tmp_path / "backup.tar", tmp_path / "other" / "root"
    with sending(served) if with_spools else nullcontext():
        if with_spools:
            served.until_delivered(dataflow, "out", 50)
        back_up(served.root, sqlite_url(served.root / "braid.db"), archive, with_spools=with_spools, with_key=True)
    served.close()
    epochs = {each.id: newest(served, each)[0] for each in (dataflow, beside)}
    root.parent.mkdir()
    restore(archive, root, sqlite_url(root / "braid.db"))
    other = Served(root.parent, pace=QUICK)
    try:
        other.start()
        with other.client(key) as ann:
            for each in (dataflow, beside):
                other.until_state(ann, each.id, DataflowState.RUNNING)
            assert letters == shown(ann)
            came = gone_on(other, dataflow, beside, epochs)
            assert came >= 50 if with_spools else came == 5
    finally:
        other.close()
