"""Jobs with several shards, on real Spark."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from dags import Kind
from engine.plan import Delivery, Plan, Slot
from engine.records.job_folder import job_folder
from engine.records.store import RecordStore
from tests.integration.hosting import Hosting, deliveries, job, raw, slot

pytestmark = pytest.mark.spark

FIELDS = {"k": Kind.STRING, "n": Kind.INTEGER}


def counting(hosting: Hosting, topic: str) -> tuple[Plan, Slot]:
    """A plan that counts events by key, and its output."""
    source, count, output = hosting.fresh(), hosting.fresh(), hosting.fresh()
    slots = (slot(count, "count", source, by=["k"]), slot(output, "output", count))
    return job(f"shards{source}", *slots, reads=(raw(topic, source, FIELDS),)), slots[1]


def events(first: int, end: int, keys: int = 10) -> list[dict[str, Any]]:
    return [{"k": f"key {n % keys}", "n": n} for n in range(first, end)]


def counts(delivered: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """The counts of each key, in the order of delivery."""
    found: dict[str, list[int]] = defaultdict(list)
    for each in delivered:
        found[each["k"]].append(each["count"])
    return found


SLOW_TASKS, SLOW, QUICK, KEYS = 2, 60, 400, 8
"""Tasks of the slow dataflow, the events of both, and their keys."""


def expected(many: int, keys: int = 10) -> dict[str, list[int]]:
    return {f"key {k}": list(range(1, len(range(k, many, keys)) + 1)) for k in range(keys)}


def test_a_job_grows_and_shrinks_while_it_counts(hosting: Hosting) -> None:
    """From one shard to four and back, each count comes once and in order for its key, whatever the shards.

    The host reports how many events each key group had, over the batches that were divided.
    """
    topic = f"grows-{hosting.fresh()}"
    plan, output = counting(hosting, topic)
    plan = hosting.run(plan)
    (delivery,) = deliveries((output,))
    sent = 0
    for shards in (1, 2, 4, 1, 3):
        hosting.run(replace(plan, shards=shards))
        hosting.publish(topic, events(sent, sent + 50))
        sent += 50
        hosting.until_delivered(delivery, sent)
    assert expected(sent) == counts(hosting.delivered(delivery))
    hosting.until(lambda: sum(hosting.grouped(plan.job).values()) == 150, "the events of all key groups")
    assert 1 < len(hosting.grouped(plan.job)) <= 10


def test_slow_tasks_of_one_tenant_hold_up_no_other_in_several_shards(hosting: Hosting) -> None:
    """Nothing is known of them when their events come: these wait, in all shards at one place, and others' do not.

    Each event is taken once all the same, and counted in the order of its key.
    """
    slow, quick = f"slow-{hosting.fresh()}", f"quick-{hosting.fresh()}"
    source, count, output, other, other_count, other_output = (hosting.fresh() for _ in range(6))
    slots = (
        *(slot(hosting.fresh(), "pi_viete", source, iterations=10_000 - at) for at in range(SLOW_TASKS)),
        slot(count, "count", source, by=["k"]),
        slot(output, "output", count),
        slot(other_count, "count", other, by=["k"]),
        slot(other_output, "output", other_count),
    )
    plan = job(f"early{source}", *slots, reads=(raw(slow, source, FIELDS), raw(quick, other, FIELDS)))
    eve = Delivery(instance=output, tenant="eve", dataflow="d", sink="out")
    ann = Delivery(instance=other_output, tenant="ann", dataflow="d", sink="out")
    plan = hosting.run(replace(plan, deliveries=(eve, ann), shards=3))
    hosting.publish(slow, events(0, SLOW, KEYS))
    hosting.publish(quick, events(0, QUICK, KEYS))
    hosting.until_delivered(ann, QUICK)
    assert hosting.count(eve) < SLOW
    hosting.until_delivered(eve, SLOW)
    for delivery, many in ((eve, SLOW), (ann, QUICK)):
        assert expected(many, KEYS) == counts(hosting.delivered(delivery))
    store = RecordStore(job_folder(hosting.root, plan.job).records)
    headers = [store.file(batch).header for batch in store.batches()]
    assert any(header.waiting and len(header.shards) == 3 for header in headers)
