"""Quotas of states, with real Spark and a real broker: a tenant's states stop growing, and nobody else's do."""

import json
from collections.abc import Iterator
from itertools import count

import pytest

from manager.answers import DataflowState, Quota, SubmitAnswer
from manager.client.client import Client
from tests.integration.serving import Served, street

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND = 120.0
KEYS = 2_000
"""New keys of one message: about as many MB as a thousandth of them."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service."""
    made = Served(tmp_path_factory.mktemp("served"))
    try:
        made.start()
        yield made
    finally:
        made.close()


def counting(tenant: Client, name: str) -> SubmitAnswer:
    """A dataflow that counts the events of each key."""
    return tenant.submit(
        {
            "version": 1,
            "name": name,
            "tasks": [
                {"id": "in", "type": "source", "config": {"source": f"{name}:{name}"}},
                {"id": "counts", "type": "count", "config": {"by": ["k"]}},
                {"id": "out", "type": "output"},
            ],
            "streams": [{"from": "in", "to": "counts"}, {"from": "counts", "to": "out"}],
        }
    )


def test_states_of_a_tenant_grow_up_to_its_quota(served: Served) -> None:
    """Then new keys are dead letters with the reason, and known ones go on; with more quota all goes on."""
    with served.admit("ann") as ann, served.admit("eve") as eve, served.client() as operator:
        quota = Quota(state_mb=1)
        # It listens from here on, long before the first output.
        line = served.line
        operator.set_quota("eve", quota)
        flows = {}
        for tenant, name in ((ann, "ann"), (eve, "eve")):
            tenant.register_source(street(name))
            flows[name] = counting(tenant, name)
        for tenant, name in ((ann, "ann"), (eve, "eve")):
            served.until_state(tenant, flows[name].id, DataflowState.RUNNING)
        assert 1 == len(list(operator.jobs()))
        sent = count()

        def counted(name: str, key: int) -> int:
            """How often an event of a key came out."""
            return sum(each["k"] == f"{key:0500d}" for each in served.delivered(flows[name], "out"))

        def is_bounded() -> bool:
            number = next(sent)
            served.until(lambda: counted("ann", 0) == number, "the message before", bound=BOUND)
            # The first key again and again, for a task that can take nothing is failed.
            keys = [f"{n:0500d}" for n in (0, *range(number * KEYS + 1, (number + 1) * KEYS))]
            for name in flows:
                line.publish(f"city/{name}", json.dumps([{"n": number, "k": key} for key in keys]).encode())
            return any("the quota `state_mb`" in letter.reason for letter in eve.dead_letters())

        served.until(is_bounded, "dead letters for the quota", bound=BOUND)
        uses = {each.name: each.uses.state_mb for each in operator.tenants()}
        assert 1 <= (uses["eve"] or 0) <= (uses["ann"] or 0)
        number = next(sent)
        served.until(lambda: counted("eve", 0) == number, "a known key of each message", bound=BOUND)
        last = number * KEYS - 1
        served.until(lambda: counted("ann", last) == 1, "the last key of the other tenant", bound=BOUND)
        assert counted("eve", last) == 0
        operator.set_quota("eve", quota.model_copy(update={"state_mb": 1_000}))

        def goes_on() -> bool:
            served.publish("city/eve", [{"n": n, "k": f"{key:0500d}"} for n, key in enumerate((0, last))])
            return counted("eve", last) > 0

        served.until(goes_on, "new keys to be counted again", bound=BOUND)
        assert not list(ann.dead_letters())
