"""Fallbacks, with real Spark and a real broker: a module that fails makes way for the next best by itself."""

from collections.abc import Iterator

import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.reconfigurations import ReconfigurationState
from braid_client.answers.tenants import PublishingForm
from braid_client.requests import set_publishing
from tests.integration.hosting import numbers
from tests.integration.serving import Served, serving, street

pytestmark = [pytest.mark.spark, pytest.mark.full]

BREAKS = "def process(event):\n    raise KeyError('nowhere')\n"
HOLDS = "def process(event):\n    return {'twice': event['n'] * 2}\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose operator lets it take fallbacks."""
    with serving(Served(tmp_path_factory.mktemp("served"), settings={"BRAID_REPLAN_FAILED": "true"})) as made:
        yield made


def test_a_module_that_fails_makes_way_for_the_next_best(served: Served) -> None:
    """The cheapest module raises at every event; the next one takes its place while the dataflow runs, and stays."""
    with served.admit("ann") as ann, served.client() as operator:
        operator.ask(set_publishing("ann", PublishingForm(code=True)))
        for name, source, cost in (("breaks", BREAKS, 0.1), ("holds", HOLDS, 0.2)):
            code = {"source": source, "input": {"n": "integer"}, "output": {"fields": {"twice": "integer"}}}
            ann.publish_module({"name": name, "version": 1, "shape": "filter", "cost": cost, "code": code})
        ann.register_source(street("main"))
        pipeline = {
            "version": 1,
            "name": "doubled",
            "goals": [{"fields": {"twice": "integer"}}],
            "prefer": ["cost"],
            "tasks": [
                {"id": "in", "type": "source", "config": {"source": "ann:main"}},
                {"id": "doubles", "point": {"shape": "filter"}},
                {"id": "out", "type": "output"},
            ],
            "streams": [{"from": "in", "to": "doubles"}, {"from": "doubles", "to": "out"}],
        }
        plan = ann.explain(pipeline).plan
        assert plan is not None
        assert [("breaks@1", [("doubles", "holds@1")])] == [
            (each.module, [(place.id, place.module) for place in each.places]) for each in plan.fallbacks
        ]
        flow = ann.submit(pipeline)
        served.until_state(ann, flow.id, DataflowState.RUNNING)
        _ = served.line
        sent = 0

        def gives_up() -> bool:
            nonlocal sent
            served.publish("city/main", numbers(sent, sent + 5))
            sent += 5
            return bool(ann.dataflow(flow.id).given_up)

        served.until(gives_up, "the module to be given up")
        (given_up,) = ann.dataflow(flow.id).given_up
        assert ("breaks@1", "doubles holds holds@1") == (given_up.module, given_up.outcome)
        assert "KeyError: 'nowhere'" in given_up.reason
        number = given_up.reconfiguration
        assert number is not None
        served.until(
            lambda: ann.reconfiguration(flow.id, number).state is not ReconfigurationState.SWITCHING, "the switch"
        )
        served.publish("city/main", numbers(sent, sent + 5))
        served.until(lambda: any(each["n"] == sent + 4 for each in served.delivered(flow, "out")), "the last event")
        doubled = [(each["n"], each["twice"]) for each in served.delivered(flow, "out")]
        assert [(n, 2 * n) for n in range(doubled[0][0], sent + 5)] == doubled
        served.until_state(ann, flow.id, DataflowState.RUNNING)
        assert 1 == len(list(ann.reconfigurations(flow.id)))
        assert 1 == len(ann.dataflow(flow.id).given_up)
