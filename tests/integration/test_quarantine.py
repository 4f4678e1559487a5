"""Quarantine, with real Spark and a real broker: a greedy tenant gets workers of its own; others lose nothing."""

from collections.abc import Iterator
from itertools import count

import psutil
import pytest

from braid_client.answers.dataflows import DataflowState
from tests.integration.hosting import numbers
from tests.integration.serving import Served, serving, street

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND = 180.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service."""
    with serving(Served(tmp_path_factory.mktemp("served"))) as made:
        yield made


def workers(served: Served) -> set[str]:
    """The names of workers that the host has."""
    found = set()
    for process in psutil.Process(served.keeper_pid).children(recursive=True):
        try:
            found.add(process.environ().get("BRAID_WORKERS", ""))
        except psutil.NoSuchProcess:
            continue
    return found - {""}


def test_a_tenant_stopped_twice_shares_no_worker(served: Served) -> None:
    """Its tasks leave the job that they shared; the other dataflow has each event once, in order, and goes on."""
    with served.admit("ann") as ann, served.admit("eve") as eve, served.client() as operator:
        ann.register_source(street("quiet", visibility="public"))
        quiet = ann.submit(
            {
                "version": 1,
                "name": "quiet",
                "tasks": [
                    {"id": "in", "type": "source", "config": {"source": "ann:quiet"}},
                    {"id": "low", "type": "range_filter", "config": {"field": "n", "min": 0, "max": 1_000_000}},
                    {"id": "out", "type": "output"},
                ],
                "streams": [{"from": "in", "to": "low"}, {"from": "low", "to": "out"}],
            }
        )
        greedy = eve.submit(
            {
                "version": 1,
                "name": "greedy",
                "tasks": [
                    {"id": "in", "type": "source", "config": {"source": "ann:quiet"}},
                    {"id": "pi", "type": "pi_viete", "config": {"iterations": 10_000}},
                    {"id": "out", "type": "output"},
                ],
                "streams": [{"from": "in", "to": "pi"}, {"from": "pi", "to": "out"}],
            }
        )
        for tenant, flow in ((ann, quiet), (eve, greedy)):
            served.until_state(tenant, flow.id, DataflowState.RUNNING)
        assert 1 == len(list(operator.jobs()))
        sent = count(step=20)

        def quarantined() -> bool:
            # As many as keep her task busy for longer than a batch; others that read the stream fall behind.
            served.publish("city/quiet", numbers(number := next(sent), number + 20))
            return [each.name for each in operator.tenants() if each.quarantined_until is not None] == ["eve"]

        served.until(quarantined, "the greedy tenant to be in quarantine", bound=BOUND)

        def separated() -> bool:
            served.publish("city/quiet", numbers(number := next(sent), number + 20))
            return {"", "eve"} == {each.workers for each in operator.jobs()}

        served.until(separated, "the tasks to have jobs of their own", bound=BOUND)
        served.until(lambda: workers(served) == {"eve"}, "the workers of these")
        last = next(sent)
        served.publish("city/quiet", numbers(last, last + 1))
        served.until(lambda: any(each["n"] == last for each in served.delivered(quiet, "out")), "the last event")
        assert list(range(last + 1)) == [each["n"] for each in served.delivered(quiet, "out")]
        served.until_state(ann, quiet.id, DataflowState.RUNNING)
