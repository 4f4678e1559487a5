"""Dead letters over a real broker, and real jobs that are backed up while they run and go on elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge import topics
from manager.answers import DataflowState, SubmitAnswer
from manager.backup import back_up, restore
from manager.client.client import Client
from manager.store.database import sqlite_url
from tests.integration.hosting import counted, numbers
from tests.integration.serving import Served, counting, street

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path / "one")
    made.root.parent.mkdir()
    try:
        made.start()
        yield made
    finally:
        made.close()


def dead_letter(instance: int, batch: int) -> bytes:
    told = {
        "instance": instance,
        "port": "in",
        "reason": "no number",
        "batch": batch,
        "count": 1,
        "events": [{"n": "x"}],
    }
    return json.dumps(told).encode()


def shown(client: Client) -> list[tuple[Any, ...]]:
    return [(each.instance, each.dataflows, each.events) for each in client.dead_letters()]


def heard(served: Served, answer: SubmitAnswer) -> list[Any]:
    """What came for the dataflow's only sink since the test listens, with its number and epoch."""
    with served._news:
        told = list(served._heard.get(answer.outputs[0].topic, ()))
    return [
        (each["epoch"], number, event) for each in told for number, event in enumerate(each["events"], each["first"])
    ]


@pytest.mark.parametrize("with_spools", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_what_ran_goes_on_elsewhere(served: Served, tmp_path: Path, *, with_spools: bool) -> None:
    """Backed up while it runs, with and without its spools: counts, dead letters and tenants are there again."""
    with served.admit("ann") as ann:
        ann.register_source(street("lane"))
        dataflow = ann.submit(counting("ann:lane"))
        served.until_state(ann, dataflow.id, DataflowState.RUNNING)
        served.publish("city/lane", numbers(0, 5))
        assert counted(numbers(0, 5)) == served.until_delivered(dataflow, "out", 5)
        instance = dataflow.started[-1].instance
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
    back_up(served.root, sqlite_url(served.root / "braid.db"), archive, with_spools=with_spools, with_key=True)
    served.close()
    epoch = max(each for each, _, _ in heard(served, dataflow))
    root.parent.mkdir()
    restore(archive, root, sqlite_url(root / "braid.db"))
    other = Served(root.parent)
    try:
        other.start()
        with other.client(key) as ann:
            other.until_state(ann, dataflow.id, DataflowState.RUNNING)
            assert letters == shown(ann)
            assert other.line is not None
            other.publish("city/lane", numbers(5, 9))
            expected = counted(numbers(0, 9))[5:]
            other.until(
                lambda: [each for _, number, each in heard(other, dataflow) if number >= 5] == expected,
                f"the counts to go on; {heard(other, dataflow)}",
            )
            assert min(each for each, _, _ in heard(other, dataflow)) > epoch
            second = ann.submit(counting("ann:lane"))
            other.until_state(ann, second.id, DataflowState.RUNNING)
    finally:
        other.close()
