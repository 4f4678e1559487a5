"""Dataflows that adapt, with real Spark and a real broker: they switch while events come, and lose none."""

from collections.abc import Iterator
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState
from tests.integration.hosting import numbers
from tests.integration.serving import Served, serving, street

pytestmark = [pytest.mark.spark, pytest.mark.full]
BURST = 200


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service."""
    with serving(Served(tmp_path_factory.mktemp("served"))) as made:
        yield made


def adapting() -> dict[str, Any]:
    """A dataflow whose work is precise until there is too much of it; it counts its own events as domain events."""
    return {
        "version": 1,
        "name": "adapting",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": "ann:main"}},
            {
                "id": "work",
                "alternates": [
                    {
                        "name": "precise",
                        "type": "pi_viete",
                        "config": {"iterations": 2_000},
                        "value": 1,
                        "cost": 20_000,
                    },
                    {"name": "quick", "type": "pi_viete", "config": {"iterations": 10}, "value": 0.5, "cost": 20},
                ],
            },
            {"id": "out", "type": "output"},
            {"id": "echo", "type": "output"},
        ],
        "streams": [
            {"from": "in", "to": "work"},
            {"from": "work", "to": "out"},
            {
                "from": "in",
                "to": "echo",
                "when": {"activate": {"event": "many", "where": {"field": "n", "above": 1e6}, "within": 60}},
            },
        ],
        "policy": {"events": {"many": {"output": "echo"}}},
    }


def test_it_becomes_cheaper_when_too_much_comes_and_loses_nothing(served: Served) -> None:
    """Every event has left once in the end, by one alternate or the other; chosen by hand it becomes precise again."""
    with served.admit("ann") as ann:
        ann.register_source(street("main"))
        flow = ann.submit(adapting())
        served.until_state(ann, flow.id, DataflowState.RUNNING)
        _ = served.line
        sent = 0

        def chooses(wanted: str) -> bool:
            nonlocal sent
            served.publish("city/main", numbers(sent, sent + BURST))
            sent += BURST
            return ann.adaptation(flow.id).tasks[0].active == wanted

        served.until(lambda: chooses("quick"), "the cheaper alternate")
        served.until_delivered(flow, "out", sent)
        assert sent == len(served.delivered(flow, "out"))
        (task,) = ann.adaptation(flow.id).tasks
        assert not ann.adaptation(flow.id).trouble
        ann.choose(flow.id, {"work": "precise"})
        served.until(lambda: ann.adaptation(flow.id).tasks[0].active == "precise", "the choice by hand")
        served.publish("city/main", numbers(sent, sent + 5))
        served.until_delivered(flow, "out", sent + 5)
        assert sent + 5 == len(served.delivered(flow, "out"))
        assert {"quick", "precise"} == {each.name for each in task.alternates}
        assert [] == served.delivered(flow, "echo")
