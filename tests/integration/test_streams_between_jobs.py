"""Streams between jobs over MQTT: forwarding, cuts, and moves of a task with its state to another job."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bridge import topics
from engine.plan import Delivery, Forward, StateImport
from engine.records.store import RecordStore
from tests.engine.records.unpacked import unpacked_value
from tests.integration.hosting import HOST, Hosting, bridged, counted, delivery, job, numbers, raw, slot

pytestmark = pytest.mark.spark


class Chain:
    """One job counts raw events, a second delivers what the first forwards."""

    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting
        self.source, self.count, self.sink = (hosting.fresh() for _ in range(3))
        self.topic = f"street-{self.source}"
        self.raw = raw(self.topic, self.source)
        self.delivery: Delivery = delivery(self.sink)
        self.counting = slot(self.count, "count", self.source, by=["k"])
        self.upper = job(f"upper{self.source}", self.counting, reads=(self.raw,))
        self.forwarding = replace(self.upper, forwards=(Forward(instance=self.count),))
        self.lower = job(f"lower{self.source}", slot(self.sink, "output", self.count), reads=(bridged(self.count),))

    def run(self) -> "Chain":
        # The consumer first, then the producer.
        self.hosting.run(self.lower)
        self.hosting.run(self.forwarding)
        return self

    def closed(self) -> bool:
        """Whether the stream has ended, and its consumer has all of it."""
        return f"{self.count}:out" not in self.hosting.status(self.upper.job)["unconfirmed"]


def test_a_stream_is_forwarded_from_its_opening_to_its_end(hosting: Hosting) -> None:
    """Events that leave while the stream is forwarded arrive once and in order; earlier and later ones do not."""
    chain = Chain(hosting)
    hosting.run(chain.upper)
    hosting.publish(chain.topic, numbers(0, 10))
    hosting.until(lambda: hosting.taken(chain.upper.job, chain.count) == 10, "ten are counted")
    chain.run()
    hosting.publish(chain.topic, numbers(10, 25))
    assert counted(numbers(0, 25))[10:] == hosting.until_delivered(chain.delivery, 15)
    hosting.run(chain.upper)
    hosting.publish(chain.topic, numbers(25, 30))
    hosting.until(lambda: hosting.taken(chain.upper.job, chain.count) == 30, "five more are counted")
    hosting.until(chain.closed, "the consumer has the end")
    # A second opening of the same stream is distinct from the first.
    hosting.run(chain.forwarding)
    hosting.publish(chain.topic, numbers(30, 40))
    expected = counted(numbers(0, 40))
    assert expected[10:25] + expected[30:40] == hosting.until_delivered(chain.delivery, 25)


def test_a_plan_that_stops_forwarding_and_forwards_again_at_once_loses_nothing(hosting: Hosting) -> None:
    """Openings and ends that follow each other closely do not mix up the events between them."""
    chain = Chain(hosting).run()
    hosting.publish(chain.topic, numbers(0, 10))
    hosting.until_delivered(chain.delivery, 10)
    for _ in range(4):
        hosting.send(chain.upper)
        hosting.send(chain.forwarding)
    hosting.run(chain.forwarding)
    hosting.publish(chain.topic, numbers(10, 20))
    assert counted(numbers(0, 20)) == hosting.until_delivered(chain.delivery, 20)


def test_a_raw_stream_can_be_forwarded(hosting: Hosting) -> None:
    """A stream that enters a job may leave it unchanged, under the instance of its source."""
    chain = Chain(hosting)
    hosting.run(job(chain.lower.job, slot(chain.sink, "output", chain.source), reads=(bridged(chain.source),)))
    hosting.run(replace(chain.upper, forwards=(Forward(instance=chain.source),)))
    hosting.publish(chain.topic, numbers(0, 10))
    assert numbers(0, 10) == hosting.until_delivered(chain.delivery, 10)


def test_a_task_moves_with_its_state_to_another_job(hosting: Hosting) -> None:
    """A third job that reads it sees one stream: no number is lost, doubled, or counted from a fresh state."""
    chain = Chain(hosting)
    beside, sink = hosting.fresh(), hosting.fresh()
    neighbour = (slot(beside, "count", chain.source, by=["k"]), slot(sink, "output", beside))
    old = job(chain.upper.job, chain.counting, *neighbour, reads=(chain.raw,), forwards=chain.forwarding.forwards)
    hosting.run(chain.lower)
    hosting.run(old)
    hosting.publish(chain.topic, numbers(0, 30))
    hosting.until_delivered(chain.delivery, 30)
    hosting.publish(chain.topic, numbers(30, 60))

    cut = f"move {chain.count}"
    left = hosting.send(replace(job(old.job, *neighbour, reads=(chain.raw,)), at_cut=cut))
    hosting.cut(cut, chain.raw.stream)
    hosting.publish(chain.topic, numbers(60, 90))
    hosting.until(lambda: hosting.in_effect(left), "the old job runs without it")
    hosting.until(chain.closed, "the third job has all that the old one sent")
    [kept] = [each for each in hosting.status(old.job)["cuts"] if each["name"] == cut]
    assert chain.count in kept["instances"]

    hosting.run(
        replace(
            job(
                f"new{chain.count}",
                chain.counting,
                reads=(replace(chain.raw, start=kept["positions"][chain.raw.stream]),),
                forwards=(Forward(instance=chain.count, epoch=2),),
            ),
            imports=(StateImport(instance=chain.count, job=old.job, cut=cut),),
        )
    )
    hosting.publish(chain.topic, numbers(90, 120))
    assert counted(numbers(0, 120)) == hosting.until_delivered(chain.delivery, 120)
    assert counted(numbers(0, 120)) == hosting.until_delivered(delivery(sink), 120)
    hosting.release(cut)
    hosting.until(lambda: hosting.status(old.job)["cuts"] == [], "the cut is released")
    hosting.publish(chain.topic, numbers(120, 130))
    assert counted(numbers(0, 130)) == hosting.until_delivered(chain.delivery, 130)


def test_a_task_moves_away_from_what_feeds_it(hosting: Hosting) -> None:
    """The new job begins with the events that the old one forwards from the cut on, and misses none."""
    chain = Chain(hosting)
    second = slot(hosting.fresh(), "count", chain.count, by=["k"])
    sink = slot(chain.sink, "output", second.instance)
    hosting.run(job(chain.upper.job, chain.counting, second, sink, reads=(chain.raw,)))
    hosting.publish(chain.topic, numbers(0, 30))
    hosting.until_delivered(chain.delivery, 30)
    cut = f"apart {chain.count}"
    left = hosting.send(replace(chain.forwarding, at_cut=cut))
    hosting.publish(chain.topic, numbers(30, 45))
    hosting.until_delivered(chain.delivery, 45)
    hosting.cut(cut, chain.raw.stream)
    hosting.publish(chain.topic, numbers(45, 60))
    hosting.until(lambda: hosting.in_effect(left), "the old job forwards")
    hosting.until(lambda: hosting.taken(chain.upper.job, chain.count) == 60, "it has counted all")
    imports = tuple(StateImport(instance=each.instance, job=chain.upper.job, cut=cut) for each in (second, sink))
    taken = job(f"apart{chain.count}", second, sink, reads=(bridged(chain.count),))
    hosting.run(replace(taken, imports=imports, deliveries=(replace(chain.delivery, epoch=2),)))
    hosting.publish(chain.topic, numbers(60, 70))
    assert counted(numbers(0, 70)) == hosting.until_delivered(chain.delivery, 70)


def test_a_cut_is_aligned_in_one_part_while_others_run_on(hosting: Hosting) -> None:
    """Only the part that the marked stream feeds is cut; its state at the cut stays until the cut is released."""
    one, two = Chain(hosting), Chain(hosting)
    both = job(
        one.upper.job,
        one.counting,
        slot(one.sink, "output", one.count),
        two.counting,
        slot(two.sink, "output", two.count),
        reads=(one.raw, two.raw),
    )
    hosting.run(both)
    for chain in (one, two):
        hosting.publish(chain.topic, numbers(0, 9))
        hosting.until_delivered(chain.delivery, 9)
    cut = f"one {one.count}"
    hosting.cut(cut, one.raw.stream)
    [kept] = hosting.until(lambda: hosting.status(both.job)["cuts"], "the part is cut")
    assert sorted([one.source, one.count, one.sink]) == kept["instances"]
    # The marker has its own position.
    assert {one.raw.stream: 10} == kept["positions"]
    for n in range(3):
        for chain in (one, two):
            hosting.publish(chain.topic, numbers(9 + 3 * n, 12 + 3 * n))
            hosting.until_delivered(chain.delivery, 12 + 3 * n)
    store = RecordStore(hosting.folder(both.job).records)
    assert {"k0": 3, "k1": 3, "k2": 3} == counts(store.state_at(kept["batch"], (one.count,)), one.count)
    assert {"k0": 6, "k1": 6, "k2": 6} == counts(store.state(store.batches().stop).kept, one.count)
    hosting.release(cut)
    hosting.until(lambda: hosting.status(both.job)["cuts"] == [], "the cut is released")


def test_a_part_with_two_streams_waits_for_the_marker_in_both(hosting: Hosting) -> None:
    """Events behind the first marker wait for the second; another part runs on meanwhile, and nothing is lost."""
    one, two, three = Chain(hosting), Chain(hosting), Chain(hosting)
    joined = slot(one.count, "count", one.source, two.source, by=["k"])
    plan = job(
        one.upper.job,
        joined,
        slot(one.sink, "output", one.count),
        three.counting,
        slot(three.sink, "output", three.count),
        reads=(one.raw, two.raw, three.raw),
    )
    hosting.run(plan)
    hosting.publish(one.topic, numbers(0, 6))
    hosting.until_delivered(one.delivery, 6)
    cut = f"two {one.count}"
    hosting.cut(cut, one.raw.stream)
    hosting.until(lambda: hosting.status(plan.job)["positions"][one.raw.stream] == 7, "the marker is read")
    hosting.publish(one.topic, numbers(6, 9))
    hosting.publish(three.topic, numbers(0, 9))
    hosting.until_delivered(three.delivery, 9)
    hosting.publish(two.topic, numbers(0, 3))
    hosting.until_delivered(one.delivery, 9)
    assert 7 == hosting.status(plan.job)["positions"][one.raw.stream]
    hosting.cut(cut, two.raw.stream)
    [kept] = hosting.until(lambda: hosting.status(plan.job)["cuts"], "the part is cut")
    assert {one.raw.stream: 7, two.raw.stream: 4} == kept["positions"]
    hosting.until_delivered(one.delivery, 12)
    store = RecordStore(hosting.folder(plan.job).records)
    assert {"k0": 3, "k1": 3, "k2": 3} == counts(store.state_at(kept["batch"], (one.count,)), one.count)


def test_a_cut_reaches_jobs_below(hosting: Hosting) -> None:
    """The marker follows the events over the bridge, so that the job below is cut at the same place."""
    chain = Chain(hosting)
    below = slot(hosting.fresh(), "count", chain.count, by=["k"])
    lower = job(chain.lower.job, below, slot(chain.sink, "output", below.instance), reads=(bridged(chain.count),))
    hosting.run(lower)
    hosting.run(chain.forwarding)
    hosting.publish(chain.topic, numbers(0, 9))
    hosting.until_delivered(chain.delivery, 9)
    hosting.publish(chain.topic, numbers(9, 12))
    cut = f"below {chain.count}"
    hosting.until(lambda: hosting.taken(chain.upper.job, chain.count) == 12, "all are counted above")
    hosting.cut(cut, chain.raw.stream)
    # The request comes over another connection than the events.
    hosting.until(lambda: hosting.status(chain.upper.job)["cuts"], "the job above is cut")
    hosting.publish(chain.topic, numbers(12, 18))
    hosting.until_delivered(chain.delivery, 18)
    counted_at_cut = {}
    for name, instance in ((chain.upper.job, chain.count), (lower.job, below.instance)):
        [kept] = hosting.until(lambda name=name: hosting.status(name)["cuts"], "the job is cut")  # type: ignore[misc]
        store = RecordStore(hosting.folder(name).records)
        counted_at_cut[name] = counts(store.state_at(kept["batch"], (instance,)), instance)
    expected = {"k0": 4, "k1": 4, "k2": 4}
    assert {chain.upper.job: expected, lower.job: expected} == counted_at_cut


def test_a_plan_takes_effect_exactly_at_a_cut(hosting: Hosting) -> None:
    """Up to the marker the old plan runs, behind it the new one."""
    chain = Chain(hosting)
    both = job(chain.upper.job, chain.counting, slot(chain.sink, "output", chain.count), reads=(chain.raw,))
    hosting.run(both)
    late, sink = hosting.fresh(), hosting.fresh()
    cut = f"graft {late}"
    grafted = hosting.send(
        replace(
            job(
                both.job,
                *both.slots,
                slot(late, "count", chain.source, by=["k"]),
                slot(sink, "output", late),
                reads=(chain.raw,),
            ),
            at_cut=cut,
        )
    )
    hosting.publish(chain.topic, numbers(0, 9))
    hosting.until_delivered(chain.delivery, 9)
    assert not hosting.in_effect(grafted)
    hosting.cut(cut, chain.raw.stream)
    hosting.until(lambda: hosting.in_effect(grafted), "the plan takes effect")
    hosting.publish(chain.topic, numbers(9, 18))
    assert counted(numbers(0, 18)) == hosting.until_delivered(chain.delivery, 18)
    assert counted(numbers(9, 18)) == hosting.until_delivered(delivery(sink), 9)
    # It is past now, so no plan can take effect there any more.
    hosting.send(replace(both, at_cut=cut))
    [why] = hosting.until(lambda: hosting.refusals(both.job), "a plan at a cut that is past is refused")
    assert f"at the cut {cut!r}, which is past" in why


def test_a_state_that_no_job_keeps_cannot_be_imported(hosting: Hosting) -> None:
    """A plan that imports from a cut that was never taken is refused, and its job does not start."""
    chain = Chain(hosting)
    hosting.run(chain.upper)
    plan = replace(
        job(f"new{chain.count}", chain.counting, reads=(chain.raw,)),
        imports=(StateImport(instance=chain.count, job=chain.upper.job, cut="never"),),
    )
    hosting.send(plan)
    [why] = hosting.until(lambda: hosting.refusals(plan.job), "the plan is refused")
    assert "keeps no state of instance" in why
    assert plan.job not in hosting.host_status()["jobs"]


def test_a_request_for_a_cut_in_an_unknown_stream_is_refused(hosting: Hosting) -> None:
    """The host reports that it does not supply the stream, so that nobody waits for a cut that never comes."""
    hosting.cut("nowhere", "raw/nowhere")
    refusals = hosting.until(lambda: hosting.heard(topics.host(HOST, "refused")), "the request is refused")
    assert "'raw/nowhere', which is no raw stream that this host supplies" in refusals[-1]["why"]


def counts(state: Mapping[int, Mapping[int, Mapping[bytes, bytes | None]]], instance: int) -> dict[str, object]:
    """The state of the task `count` by `k`."""
    found = {}
    for group, items in state[instance].items():
        for key, value in items.items():
            # The last group holds the numbers of ports.
            if group < 128 and value is not None:
                found[unpacked_value(key)[0]] = unpacked_value(value)
    return found
