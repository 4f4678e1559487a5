"""Quotas of states, with real Spark and a real broker: a tenant's states stop growing, and nobody else's do."""

import json
from collections.abc import Iterator
from itertools import count

import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.tenants import Quota
from tests.integration.serving import Served, counting, serving, street

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND = 120.0
KEYS = 2_000
"""New keys of one message, which let a state grow by one MB."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service."""
    with serving(Served(tmp_path_factory.mktemp("served"))) as made:
        yield made


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
            flows[name] = tenant.submit(counting(f"{name}:{name}"))
        for tenant, name in ((ann, "ann"), (eve, "eve")):
            served.until_state(tenant, flows[name].id, DataflowState.RUNNING)
        assert 1 == len(list(operator.jobs()))
        sent = count()

        def counted(name: str, key: int) -> int:
            """How often an event of a key came out."""
            return sum(each["k"] == f"{key:0500d}" for each in served.delivered(flows[name], "out"))

        def is_bounded() -> bool:
            number = next(sent)
            # Each in a batch of its own: of very many events beyond a bound the known keys among them go too.
            served.until(lambda: all(counted(name, 0) == number for name in flows), "the message before", bound=BOUND)
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
            served.publish("city/eve", [{"n": 0, "k": f"{key:0500d}"} for key in (0, last)])
            return counted("eve", last) > 0

        served.until(goes_on, "new keys to be counted again", bound=BOUND)
        assert not list(ann.dead_letters())
