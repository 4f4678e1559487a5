"""Tasks that come and go between others, with real Spark and a real broker: events and states go on."""

from collections.abc import Iterator
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState, SubmitAnswer
from braid_client.answers.pipelines import ReplanAnswer, ReplanForm, ReplanKind
from braid_client.answers.reconfigurations import ReconfigurationForm, TaskPresence
from braid_client.client import Client
from braid_client.errors import Refused
from dags.vocabulary import Criterion
from tests.integration.hosting import QUICK, numbers
from tests.integration.serving import Served, street
from tests.integration.test_reconfigurations import KEYS, until_switched, version

pytestmark = pytest.mark.spark
MANY = 120
"""Events in each part of a test; as many of each key."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that packs dataflows into one job."""
    yield from _served(tmp_path_factory, "packed", pace=0.5)


@pytest.fixture(scope="module")
def bridged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose pace is so quick that every task has a job of its own."""
    yield from _served(tmp_path_factory, "bridged", pace=QUICK)


def _served(factory: pytest.TempPathFactory, name: str, pace: float) -> Iterator[Served]:
    made = Served(factory.mktemp(name), pace=pace)
    try:
        made.start()
        yield made
    finally:
        made.close()


def pipeline(source: str, *goals: dict[str, Any]) -> dict[str, Any]:
    """A pipeline with a gap that marks may fill; a count and an output are below it."""
    return {
        "version": 1,
        "name": "gap",
        "goals": list(goals),
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            {"id": "marks", "gap": {"most": 2}},
            {"id": "out", "type": "output"},
            {"id": "count", "type": "count", "config": {"by": ["k"]}},
            {"id": "tally", "type": "output"},
        ],
        "streams": [
            {"from": "in", "to": "marks"},
            {"from": "marks", "to": "out"},
            {"from": "marks", "to": "count"},
            {"from": "count", "to": "tally"},
        ],
    }


def counting(source: str) -> dict[str, Any]:
    """A document that counts as the pipeline does while its gap holds nothing."""
    whole = pipeline(source)
    return {
        "version": 1,
        "name": "counts",
        "tasks": [each for each in whole["tasks"] if each["id"] not in {"marks", "out"}],
        "streams": [{"from": "in", "to": "count"}, {"from": "count", "to": "tally"}],
    }


def test_a_gap_holds_nothing_then_a_chain_then_nothing(served: Served) -> None:
    """Planned anew over REST, each time as one reconfiguration: counts below go on, and nothing is lost or doubled."""
    with served.admit("gina") as gina, served.admit("hugo") as hugo:
        _ = served.line
        gina.register_source(street("gap", visibility="public"))
        for name in ("left", "right"):
            mark = {"type": "annotate", "config": version(name, "there")}
            gina.publish_module({"name": name, "version": 1, "shape": "one-to-one", "installed": mark})
        flow, other = gina.submit(pipeline("gina:gap")), hugo.submit(counting("gina:gap"))
        served.until_state(gina, flow.id, DataflowState.RUNNING)
        served.until_state(hugo, other.id, DataflowState.RUNNING)
        sent = _sent(served, "gap", 0)
        served.until_delivered(flow, "out", sent)
        goals = [{"at": "marks", "fields": {name: "string"}} for name in ("left", "right")]
        # The count is copied with its state at first, because hugo shares it, and then stays what it is.
        instances = set()
        for wanted in (goals[:1], goals, goals[1:], [], goals, []):
            answer = _planned(served, gina, flow, pipeline("gina:gap", *wanted))
            assert len(wanted) == len([place for place in answer.plan.places if place.module])
            instances.add(next(task.instance for task in gina.dataflow(flow.id).tasks if task.id == "count"))
            sent = _sent(served, "gap", sent)
            events = served.until_delivered(flow, "out", sent)
            names = {name for goal in wanted for name in goal["fields"]}
            assert names == {name for name in ("left", "right") if name in events[-1]}
        assert 1 == len(instances)
        assert list(range(sent)) == [each["n"] for each in served.until_delivered(flow, "out", sent)]
        _hold_counts(served.until_delivered(flow, "tally", sent), sent)
        _hold_counts(served.until_delivered(other, "tally", sent), sent)


def _planned(served: Served, client: Client, flow: SubmitAnswer, wanted: dict[str, Any]) -> ReplanAnswer:
    """Plan a pipeline anew, with as little in its places as does, while events come."""
    form = ReplanForm(pipeline=wanted, prefer=(Criterion.NO_OPS,))
    preview = client.replan(flow.id, form, dry_run=True)
    assert (ReplanKind.RECONFIGURATION, "") == (preview.how, preview.why)
    answer = client.replan(flow.id, form)
    assert answer.reconfiguration is not None
    until_switched(served, client, flow, answer.reconfiguration.id)
    return answer


def row(source: str, name: str, *chain: str) -> dict[str, Any]:
    """A document whose tasks mark events with their versions, one after the other."""
    return {
        "version": 1,
        "name": "row",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            *({"id": each, "type": "annotate", "config": version(each, name)} for each in chain),
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": above, "to": to} for above, to in zip(["in", *chain], [*chain, "out"], strict=True)],
    }


@pytest.mark.slow
def test_tasks_come_and_go_between_jobs(bridged: Served) -> None:
    """On a stream that crosses jobs they run with what they feed; every event meets all tasks of one document."""
    chains = {
        "v0": ("first", "second"),
        "v1": ("first", "third", "second", "fourth"),
        "v2": ("first", "second"),
    }
    with bridged.admit("gina-row") as gina:
        _ = bridged.line
        gina.register_source(street("row"))
        flow = gina.submit(row("row", "v0", *chains["v0"]))
        bridged.until_state(gina, flow.id, DataflowState.RUNNING)
        before = {task.id: task.instance for task in gina.dataflow(flow.id).tasks}
        sent = _sent(bridged, "row", 0)
        bridged.until_delivered(flow, "out", 1)
        for name in ("v1", "v2"):
            answer = gina.reconfigure(flow.id, ReconfigurationForm(document=row("row", name, *chains[name])))
            assert answer.scope is not None
            assert {TaskPresence.STAYS} < {each.presence for each in answer.scope.tasks}
            sent = _sent(bridged, "row", sent)
            until_switched(bridged, gina, flow, answer.id)
            sent = _sent(bridged, "row", sent)
        assert before == {task.id: task.instance for task in gina.dataflow(flow.id).tasks}
        with pytest.raises(Refused, match="another job would begin or cease to read what 'first' emits"):
            gina.reconfigure(flow.id, ReconfigurationForm(document=row("row", "v3", "first")))
        events = bridged.until_delivered(flow, "out", sent)
        assert list(range(sent)) == [each["n"] for each in events]
        for event in events:
            marks = {task: mark for task, mark in event.items() if task not in {"n", "k"}}
            assert dict.fromkeys(chains[event["first"]], event["first"]) == marks
        assert sorted(each["first"] for each in events) == [each["first"] for each in events]
        assert set(chains) == {each["first"] for each in events}


def _sent(served: Served, source: str, sent: int) -> int:
    """Send more events; how many there are then."""
    served.publish(f"city/{source}", numbers(sent, sent + MANY))
    return sent + MANY


def _hold_counts(counts: list[dict[str, Any]], sent: int) -> None:
    """The count of each key goes on from one to the last."""
    for key in KEYS:
        assert list(range(1, sent // len(KEYS) + 1)) == [each["count"] for each in counts if each["k"] == key]
