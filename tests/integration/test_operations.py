"""Operations on a running job over MQTT: each is nothing but the job's next plan."""

from dataclasses import replace

import pytest

from bridge import Lease, topics
from engine.plan import Plan, Rated, Slot, SlotState, Subscribed
from tests.integration.hosting import (
    HOST,
    QUICK,
    Hosting,
    counted,
    deliveries,
    delivery,
    numbers,
    raw,
    slot,
)

pytestmark = pytest.mark.spark


class Counting:
    """A job that counts raw events by key, under unique names."""

    def __init__(self, hosting: Hosting, **more: object) -> None:
        self.hosting = hosting
        self.source, self.count, self.sink = (hosting.fresh() for _ in range(3))
        self.topic = f"street-{self.source}"
        self.stream = f"raw/{self.topic}"
        self.delivery = delivery(self.sink)
        self.slots = (slot(self.count, "count", self.source, by=["k"]), slot(self.sink, "output", self.count))
        plan = Plan(
            job=f"j{self.source}",
            host=HOST,
            version=0,
            slots=self.slots,
            ingress=(raw(self.topic, self.source),),
            deliveries=(self.delivery,),
            pace=QUICK,
        )
        self.plan = replace(plan, **more)  # type: ignore[arg-type]  # tests change any field
        self.job = self.plan.job

    def with_slots(self, *more: Slot, leave: tuple[Slot, ...] | None = None) -> Plan:
        slots = (*(self.slots if leave is None else leave), *more)
        return replace(self.plan, slots=slots, deliveries=deliveries(slots))


def paused(what: Slot) -> Slot:
    return replace(what, state=SlotState.PAUSED)


def test_a_job_starts_and_delivers(hosting: Hosting) -> None:
    """A plan that comes over its topic runs; its outputs come numbered from 0, with the sink's name and an epoch."""
    job = Counting(hosting)
    hosting.run(job.plan)
    hosting.publish(job.topic, numbers(0, 20))
    assert counted(numbers(0, 20)) == hosting.until_delivered(job.delivery, 20)
    output = hosting.heard(topics.output("ann", "d", job.delivery.sink))[0]
    assert {job.delivery.sink} == {output["stream"]}
    assert output["epoch"] > 0


def test_a_grafted_task_joins_what_runs(hosting: Hosting) -> None:
    """Tasks that a plan adds begin with the next events; tasks that ran keep their state and their numbers."""
    job = Counting(hosting)
    hosting.run(job.plan)
    hosting.publish(job.topic, numbers(0, 12))
    hosting.until_delivered(job.delivery, 12)
    late, sink = hosting.fresh(), hosting.fresh()
    hosting.run(job.with_slots(slot(late, "count", job.count, by=["k"]), slot(sink, "output", late)))
    hosting.publish(job.topic, numbers(12, 21))
    assert counted(numbers(0, 21)) == hosting.until_delivered(job.delivery, 21)
    assert counted(numbers(12, 21)) == hosting.until_delivered(delivery(sink), 9)


def test_no_event_reaches_a_paused_task(hosting: Hosting) -> None:
    """A paused task takes nothing and keeps its state, and its neighbours miss nothing."""
    job = Counting(hosting)
    beside, sink = hosting.fresh(), hosting.fresh()
    neighbour = (slot(beside, "count", job.source, by=["k"]), slot(sink, "output", beside))
    hosting.run(job.with_slots(*neighbour))
    hosting.publish(job.topic, numbers(0, 9))
    hosting.until_delivered(job.delivery, 9)
    hosting.until_delivered(delivery(sink), 9)
    hosting.run(job.with_slots(*neighbour, leave=tuple(map(paused, job.slots))))
    hosting.publish(job.topic, numbers(9, 21))
    assert counted(numbers(0, 21)) == hosting.until_delivered(delivery(sink), 21)
    hosting.until(lambda: hosting.taken(job.job, beside) == 21, "the neighbour has taken all")
    assert [9, 9] == [hosting.taken(job.job, each) for each in (job.count, job.sink)]
    assert 9 == hosting.count(job.delivery)
    assert job.count in hosting.state(job.job)


def test_a_paused_task_that_is_needed_again_is_a_new_instance(hosting: Hosting) -> None:
    """The new instance begins with a fresh state and with number 0; the old one's state is gone."""
    job = Counting(hosting)
    hosting.run(job.plan)
    hosting.publish(job.topic, numbers(0, 9))
    hosting.until_delivered(job.delivery, 9)
    hosting.run(job.with_slots(leave=tuple(map(paused, job.slots))))
    again, sink = hosting.fresh(), hosting.fresh()
    hosting.run(job.with_slots(slot(again, "count", job.source, by=["k"]), slot(sink, "output", again), leave=()))
    hosting.publish(job.topic, numbers(9, 15))
    assert counted(numbers(9, 15)) == hosting.until_delivered(delivery(sink), 6)
    assert job.count not in hosting.state(job.job)
    assert again in hosting.state(job.job)


def test_a_reconfigured_task_keeps_its_state(hosting: Hosting) -> None:
    """Another config for the same instance changes its behaviour, and not its state."""
    job = Counting(hosting)
    window = slot(job.count, "block_window_average", job.source, field="n", by=[], window=10)
    hosting.run(job.with_slots(window, job.slots[1], leave=()))
    hosting.publish(job.topic, numbers(0, 4))
    hosting.until(lambda: hosting.taken(job.job, job.count) == 4, "four events taken")
    shorter = slot(job.count, "block_window_average", job.source, field="n", by=[], window=6)
    hosting.run(job.with_slots(shorter, job.slots[1], leave=()))
    hosting.publish(job.topic, numbers(4, 6))
    assert [{"n": 2.5}] == hosting.until_delivered(job.delivery, 1)


def test_a_plan_takes_effect_exactly_at_its_position(hosting: Hosting) -> None:
    """Up to the position the old plan runs, from there on the new one."""
    job = Counting(hosting)
    hosting.run(job.plan)
    late, sink = hosting.fresh(), hosting.fresh()
    grafted = job.with_slots(slot(late, "count", job.source, by=["k"]), slot(sink, "output", late))
    sent = hosting.send(replace(grafted, at={job.stream: 10}))
    hosting.until(lambda: hosting.status(job.job)["version"] == sent.version, "the plan is logged")
    hosting.publish(job.topic, numbers(0, 7))
    hosting.until_delivered(job.delivery, 7)
    assert not hosting.in_effect(sent)
    hosting.publish(job.topic, numbers(7, 20))
    assert counted(numbers(0, 20)) == hosting.until_delivered(job.delivery, 20)
    assert counted(numbers(10, 20)) == hosting.until_delivered(delivery(sink), 10)


def test_a_stopped_job_goes_on_when_it_is_started_again(hosting: Hosting) -> None:
    """A stopped job releases its lease and leaves its spools; started again it has its state and numbers."""
    job = Counting(hosting)
    sent = hosting.run(job.plan)
    hosting.publish(job.topic, numbers(0, 9))
    hosting.until_delivered(job.delivery, 9)
    hosting.stop_job(job.job)
    consumers = hosting.spool(job.stream) / "consumers"
    hosting.until(lambda: not list(consumers.glob("*.position")), "the spool has no consumer")
    hosting.until(lambda: job.stream not in hosting.host_status()["spools"], "nobody supplies the spool")
    hosting.publish_plan(sent)
    hosting.until(lambda: hosting.status(job.job)["state"] == "running", "the job runs again")
    hosting.publish(job.topic, numbers(9, 21))
    assert counted(numbers(0, 21)) == hosting.until_delivered(job.delivery, 21)


def test_a_job_that_was_stopped_reads_no_position_twice_and_passes_over_gone_ones(hosting: Hosting) -> None:
    """Events that were removed from the spool meanwhile are passed over; the job goes on behind them."""
    job, other = Counting(hosting), Counting(hosting)
    shared = replace(other.plan, ingress=(replace(job.plan.ingress[0], instance=other.source),))
    sent = hosting.run(job.plan)
    hosting.run(shared)
    hosting.publish(job.topic, numbers(0, 9))
    hosting.until_delivered(job.delivery, 9)
    hosting.stop_job(job.job)
    hosting.publish(job.topic, numbers(9, 18))
    hosting.until_delivered(other.delivery, 18)
    for first in range(18, 48, 3):
        # Each batch releases older files.
        hosting.publish(job.topic, numbers(first, first + 3))
        hosting.until_delivered(other.delivery, first + 3)
    log = hosting.spool(job.stream) / "log"
    hosting.until(
        lambda: min(int(path.name[:20]) for path in log.glob("0*")) > 9, "positions the job had not read gone"
    )
    hosting.publish_plan(sent)
    hosting.until(lambda: hosting.status(job.job)["state"] == "running", "the job runs again")
    hosting.until(lambda: hosting.status(job.job)["positions"][job.stream] >= 48, "it has read all there is")
    hosting.publish(job.topic, numbers(48, 51))
    hosting.until_delivered(other.delivery, 51)
    hosting.until(lambda: hosting.status(job.job)["positions"][job.stream] == 51, "it reads on")
    # Its numbers and its counts go on as if the gone events had never been; all others were taken once.
    there = hosting.folder(job.job).gone()[job.stream]
    assert 9 < there <= 48
    assert counted([*numbers(0, 9), *numbers(there, 51)]) == hosting.until_delivered(job.delivery, 9 + 51 - there)


def test_a_job_that_gets_a_plan_while_it_ends_runs_again(hosting: Hosting) -> None:
    """A plan that comes before the job has ended is run once it has."""
    job = Counting(hosting)
    hosting.run(job.plan)
    hosting.publish(job.topic, numbers(0, 9))
    hosting.until_delivered(job.delivery, 9)
    hosting.stop_jobs()
    hosting.run(job.plan)
    hosting.publish(job.topic, numbers(9, 15))
    assert counted(numbers(0, 15)) == hosting.until_delivered(job.delivery, 15)


def test_a_job_whose_plan_names_another_host_ends_here(hosting: Hosting) -> None:
    """It releases its lease, so that the other host can run it; when it returns it goes on."""
    job = Counting(hosting)
    hosting.run(job.plan)
    hosting.publish(job.topic, numbers(0, 9))
    hosting.until_delivered(job.delivery, 9)
    hosting.send(replace(job.plan, host="elsewhere"))
    hosting.until(lambda: hosting.status(job.job)["state"] == "stopped", "the job ended")
    Lease(hosting.folder(job.job).path).release()
    hosting.run(job.plan)
    hosting.publish(job.topic, numbers(9, 15))
    assert counted(numbers(0, 15)) == hosting.until_delivered(job.delivery, 15)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda plan: replace(plan, term=1), "the plan is of term 1, and job"),
        (lambda plan: replace(plan, at={plan.ingress[0].stream: 3}), "is at 9 already; choose a later position"),
        (
            lambda plan: replace(plan, slots=(*plan.slots, Slot(instance=9_001, type="no_such", inputs=()))),
            "has no implementation of the task type 'no_such'; install it there",
        ),
        (
            lambda plan: replace(plan, slots=(*plan.slots, slot(9_001, "output", 9_002))),
            "instance 9001 reads from 9002, which neither runs here nor enters",
        ),
        (
            lambda plan: replace(plan, ingress=(*plan.ingress, raw("elsewhere", 9_001, start=7))),
            "is to read 'raw/elsewhere' from 7, and its spool has 0 to 0",
        ),
        (
            lambda plan: replace(plan, ingress=(replace(plan.ingress[0], supply=Rated(per_second=-1.0)),)),
            "per_second",
        ),
        (
            lambda plan: replace(plan, ingress=(replace(plan.ingress[0], supply=Subscribed(topic="+/street")),)),
            "'+/street'",
        ),
        (lambda plan: replace(plan, job="another"), "is for job 'another'"),
    ],
    ids=["term", "position", "type", "parent", "start", "rate", "wildcard", "job"],
)
def test_a_refused_plan_changes_nothing(hosting: Hosting, change: object, why: str) -> None:
    """A plan that cannot be run is refused with the reason, and the job runs on as before."""
    assert callable(change)
    job = Counting(hosting, term=2)
    running = hosting.run(job.plan)
    hosting.publish(job.topic, numbers(0, 9))
    hosting.until_delivered(job.delivery, 9)
    wrong = replace(change(running), version=running.version + 1)
    hosting.publish_plan(wrong, to=job.job)
    [refusal] = hosting.until(lambda: hosting.refusals(job.job), "the plan is refused")
    assert why in refusal
    assert "raw/elsewhere" not in hosting.host_status()["spools"]
    hosting.publish(job.topic, numbers(9, 15))
    assert counted(numbers(0, 15)) == hosting.until_delivered(job.delivery, 15)
    assert [running.version, running.version] == [hosting.status(job.job)[each] for each in ("version", "in_effect")]


def test_a_message_that_is_no_plan_is_refused(hosting: Hosting) -> None:
    """Broken JSON is refused with the reason, and a good plan after it starts the job."""
    job = Counting(hosting)
    hosting.client.publish(topics.job(job.job, "plan"), b'{"job": ', retain=True)
    [refusal] = hosting.until(lambda: hosting.refusals(job.job), "the plan is refused")
    assert refusal.startswith("the plan cannot be read: ")
    hosting.run(job.plan)
    hosting.publish(job.topic, numbers(0, 3))
    hosting.until_delivered(job.delivery, 3)


def test_a_job_whose_first_plan_was_refused_can_start(hosting: Hosting) -> None:
    """A refusal leaves nothing behind that keeps the job from starting."""
    job = Counting(hosting)
    hosting.send(job.with_slots(Slot(instance=9_001, type="no_such", inputs=())))
    hosting.until(lambda: hosting.refusals(job.job), "the plan is refused")
    hosting.run(job.plan)
    hosting.publish(job.topic, numbers(0, 3))
    hosting.until_delivered(job.delivery, 3)


def test_events_that_no_task_can_take_are_published(hosting: Hosting) -> None:
    """Raw events of the wrong kind are published as unread, events that a task cannot take as dead letters."""
    job = Counting(hosting)
    mean = hosting.fresh()
    # Events have no such field, so it can take none.
    wrong = slot(mean, "range_filter", job.source, field="missing", min=0, max=1)
    hosting.run(job.with_slots(wrong))
    hosting.publish(job.topic, [{"n": "many", "k": "x"}, *numbers(0, 6)])
    hosting.client.publish(job.topic, b"{")
    assert counted(numbers(0, 6)) == hosting.until_delivered(job.delivery, 6)
    hosting.until(lambda: len(hosting.heard(topics.unread(job.topic))) == 2, "two are unread")
    assert ['{"n": "many", "k": "x"}', "{"] == [each["event"] for each in hosting.heard(topics.unread(job.topic))]
    hosting.until(lambda: sum(each["count"] for each in hosting.heard(topics.dead(mean))) == 6, "six dead letters")
    assert {mean} == {message["instance"] for message in hosting.heard(topics.dead(mean))}
