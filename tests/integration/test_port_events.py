"""Looks at the ports of running tasks, in a service with real Spark where every task is a job of its own."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.trials import SeenEvents, TaskEvents
from braid_client.client import Client
from braid_client.errors import Refused
from tests.integration.hosting import QUICK, numbers
from tests.integration.serving import Served, counting, passing, serving, street

pytestmark = pytest.mark.spark


def events(port: SeenEvents) -> list[Any]:
    return [json.loads(event) for event in port.newest]


def test_who_looks_at_a_task_sees_what_enters_and_leaves_it(tmp_path: Path) -> None:
    """So do all whose dataflow it is part of, even if a bridge feeds it; nobody else does."""
    with serving(Served(tmp_path, pace=QUICK)) as served, served.admit("ann") as ann, served.admit("bob") as bob:
        ann.register_source(street(visibility="public"))
        first, second = ann.submit(counting("ann:street")), bob.submit(passing("ann:street", 1_000))
        for client, dataflow in ((ann, first), (bob, second)):
            served.until_state(client, dataflow.id, DataflowState.RUNNING)
        assert {"in", "low"} == {task.id for task in second.reused}
        looks = [(ann, first.id, task) for task in ("in", "low", "count", "out")] + [(bob, second.id, "low")]
        assert [True] * len(looks) == [client.task_events(*at).waits for client, *at in looks]
        sent = 0

        def seen(client: Client, dataflow: str, task: str) -> TaskEvents | None:
            """What there is once every port has an event: those before the host knows of the look are not seen."""
            nonlocal sent
            sent += 1
            served.publish("city/street", numbers(sent, sent + 1))
            answer = client.task_events(dataflow, task)
            ports = {**answer.inputs, **answer.outputs}.values()
            return answer if all(port.newest for port in ports) else None

        source, low, count, out, shared = (served.until(partial(seen, *at), f"events of {at[1:]}") for at in looks)
        assert [["out"], []] == [list(source.outputs), list(source.inputs)]
        assert [("range_filter", ["in"], ["out"]), ("range_filter", ["in"], ["out"])] == [
            (task.type, list(task.inputs), list(task.outputs)) for task in (low, shared)
        ]
        assert events(low.inputs["in"])[-1] in numbers(0, sent + 1)
        assert events(low.inputs["in"]) == events(low.outputs["out"])
        assert set(events(count.outputs["out"])[-1]) == {"k", "count"}
        assert ([], ["in"]) == (list(out.outputs), list(out.inputs))
        assert len(shared.inputs["in"].newest) == len(shared.inputs["in"].seen) <= shared.inputs["in"].count
        for unknown in ((first.id, "low"), (second.id, "nothing")):
            with pytest.raises(Refused) as refused:
                bob.task_events(*unknown)
            assert 404 == refused.value.status
