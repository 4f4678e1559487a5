"""Jobs with several shards, on real Spark."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from dags import Kind
from engine.plan import Plan, Slot
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
