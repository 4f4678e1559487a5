"""Random dataflows of jobs on real Spark, under reconfigurations that follow each other at once: always consistent."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState, Stop
from braid_client.answers.reconfigurations import ReconfigurationForm, ReconfigurationState
from braid_client.client import Client
from braid_client.errors import NotDone
from tests.integration.hosting import QUICK
from tests.integration.random_dags import (
    COUNTED,
    KEYS,
    MarkedDag,
    drawn_dag,
    history,
    marked_source,
    unmarked,
    version,
)
from tests.integration.serving import Served, serving
from tests.integration.test_reconfigurations import until_over
from tests.serialisability import violation

pytestmark = pytest.mark.spark
PARTS = ("", "", "manager", "engine.machines.process", "pyspark.daemon", "java", "/broker/")
"""What is killed in some round; empty for nothing."""


@pytest.fixture(scope="module")
def bridged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose pace is so quick that every task has a job of its own."""
    with serving(Served(tmp_path_factory.mktemp("drawn"), pace=QUICK)) as made:
        yield made


@pytest.mark.full
def test_drawn_reconfigurations_are_consistent(bridged: Served) -> None:
    """Some serial order of events and reconfigurations explains what each event met; nothing is lost or doubled."""
    _hold(bridged, 0, PARTS[:1])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 102))
def test_drawn_reconfigurations_and_kills_are_consistent(bridged: Served, seed: int) -> None:
    """The same, whatever dies in whichever phase."""
    _hold(bridged, seed, PARTS)


def _hold(served: Served, seed: int, parts: tuple[str, ...]) -> None:
    draw = random.Random(seed)
    dag = drawn_dag(draw)
    applied: dict[str, list[str]] = {}
    with served.admit(f"ann-{seed}") as ann:
        _ = served.line
        ann.register_source(marked_source(f"drawn-{seed}"))
        flow = ann.submit(dag.document(f"drawn-{seed}"))
        served.until_state(ann, flow.id, DataflowState.RUNNING)
        sent = 0

        def send() -> None:
            nonlocal sent
            many = draw.randint(20, 200)
            served.publish(f"city/drawn-{seed}", unmarked(sent, sent + many))
            sent += many

        begun: list[tuple[str, str, list[str]]] = []
        for name in [f"R{at}" for at in range(draw.randint(2, 4))]:
            send()
            part = draw.choice(parts)
            if part == "/broker/":
                # What a broker has not saved it forgets.
                served.until_delivered(flow, dag.outputs[0], sent * dag.ways(dag.outputs[0]))
                served.await_save()
            tasks = draw.sample(dag.marks, draw.randint(1, len(dag.marks)))
            begun.append((name, _begun(served, ann, flow.id, name, tasks), tasks))
            _kill(served, part)
            if part or draw.random() < 0.5:
                until_over(served, ann, flow, begun[-1][1])
        send()
        for name, number, tasks in begun:
            if until_over(served, ann, flow, number)["state"] != ReconfigurationState.ABANDONED:
                for each in tasks:
                    applied.setdefault(each, []).append(name)
        send()
        outputs = {each: served.until_delivered(flow, each, sent * dag.ways(each)) for each in dag.outputs}
        for each, events in outputs.items():
            assert dict.fromkeys(range(sent), dag.ways(each)) == Counter(event["n"] for event in events)
        assert violation(history(dag, applied, outputs)) is None
        _hold_counts(served.until_delivered(flow, "tally", sent * dag.ways(COUNTED)), sent, dag)
        ann.remove(flow.id, Stop.NOW)


def _begun(served: Served, client: Client, flow: str, name: str, tasks: list[str]) -> str:
    """Begin a reconfiguration once the one before lets it; its number."""
    form = ReconfigurationForm(tasks={each: {"config": version(each, name)} for each in tasks})

    def begun() -> str | None:
        with suppress(NotDone):
            return client.reconfigure(flow, form).id
        return None

    return served.until(begun, f"{name} to begin")


def _kill(served: Served, part: str) -> None:
    served.look()
    if part == "manager":
        served.kill()
        served.start()
    # Spark has no worker after a while without events.
    elif part and (process := served.now_below_keeper(part)) is not None:
        process.kill()


def _hold_counts(counts: list[dict[str, Any]], sent: int, dag: MarkedDag) -> None:
    """The count of each key goes on from one to the last, whatever changed above it."""
    for at, key in enumerate(KEYS):
        many = len(range(at, sent, len(KEYS))) * dag.ways(COUNTED)
        assert list(range(1, many + 1)) == [each["count"] for each in counts if each["k"] == key]
