"""Cutting over: all of a running DAG goes from several jobs to one that was warmed, or stays where it was after all."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from engine.plan import Forward, Plan, StateImport
from tests.integration.hosting import Hosting, bridged, counted, delivery, job, numbers, raw, slot

pytestmark = [pytest.mark.slow, pytest.mark.spark]


class Town:
    """A running DAG over two jobs: the upper counts raw events, the lower counts what that forwards, and delivers.

    In the upper job runs another running DAG, which stays.
    """

    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting
        self.source, self.count, self.second, self.sink = (hosting.fresh() for _ in range(4))
        other, beside, self.stays = (hosting.fresh() for _ in range(3))
        self.topic, self.other = f"over-{self.source}", f"over-{other}"
        self.raw = raw(self.topic, self.source)
        self.first = slot(self.count, "count", self.source, by=["k"])
        self.rest = (slot(self.second, "count", self.count, by=["k"]), slot(self.sink, "output", self.second))
        neighbour = (slot(beside, "count", other, by=["k"]), slot(self.stays, "output", beside))
        forwards = (Forward(instance=self.count),)
        self.kept = job(f"upper{self.source}", *neighbour, reads=(raw(self.other, other),))
        self.upper = job(self.kept.job, self.first, *neighbour, reads=(self.raw, *self.kept.ingress), forwards=forwards)
        self.lower = job(f"lower{self.source}", *self.rest, reads=(bridged(self.count),))
        self.warmed = job(f"new{self.source}")
        self.published = 0

    def run(self) -> "Town":
        """Run the old jobs, and warm the new one."""
        for each in (self.lower, self.upper, self.warmed):
            self.hosting.run(each)
        return self

    def publish(self, many: int = 10) -> None:
        """Publish more for both running DAGs."""
        for topic in (self.topic, self.other):
            self.hosting.publish(topic, numbers(self.published, self.published + many))
        self.published += many

    def hold(self) -> None:
        """See that both tenants have what they should: nothing lost, doubled, or counted from a fresh state."""
        expected = counted(numbers(0, self.published))
        assert counted(expected) == self.hosting.until_delivered(delivery(self.sink), self.published)
        assert expected == self.hosting.until_delivered(delivery(self.stays), self.published)

    def let_go(self, cut: str) -> None:
        """Have the old jobs let go at a cut, and wait until they know."""
        for each in (self.kept, job(self.lower.job)):
            sent = self.hosting.send(replace(each, at_cut=cut))
            self.hosting.until(lambda sent=sent: self.knows(sent), "the old job knows")  # type: ignore[misc]

    def knows(self, plan: Plan) -> bool:
        return bool(self.hosting.status(plan.job).get("version") == plan.version)

    def kept_at(self, cut: str) -> Mapping[int, tuple[str, Mapping[str, int]]]:
        """For each instance the job that keeps its state at a cut, and the positions of its streams there."""
        return {
            instance: (each.job, entry["positions"])
            for each in (self.upper, self.lower)
            for entry in self.hosting.status(each.job)["cuts"]
            if entry["name"] == cut
            for instance in entry["instances"]
        }

    def is_cut(self, cut: str) -> bool:
        return {self.count, self.second, self.sink} <= self.kept_at(cut).keys()

    def has_left(self, cut: str) -> bool:
        """Whether all that the old jobs sent before a cut is where it has to be."""
        statuses = [self.hosting.status(each.job) for each in (self.upper, self.lower)]
        return all(
            not each["unconfirmed"] and each["published"] > kept["batch"]
            for each in statuses
            for kept in each["cuts"]
            if kept["name"] == cut
        )

    def take_over(self, cut: str) -> Plan:
        """The plan by which the new job takes over."""
        kept = self.kept_at(cut)
        slots = (self.first, *self.rest)
        _, positions = kept[self.count]
        reads = (replace(self.raw, start=positions[self.raw.stream]),)
        plan = job(self.warmed.job, *slots, reads=reads)
        return replace(
            plan,
            imports=tuple(StateImport(instance=each.instance, job=kept[each.instance][0], cut=cut) for each in slots),
            deliveries=tuple(replace(each, epoch=9) for each in plan.deliveries),
        )

    def come_back(self, cut: str, epoch: int) -> None:
        """Have the old jobs go on as before, however far each has come, and let the cut go."""
        sent = [
            self.hosting.send(
                replace(
                    each,
                    imports=tuple(StateImport(instance=one.instance, job=each.job, cut=cut) for one in moved),
                    forwards=tuple(replace(one, epoch=epoch) for one in each.forwards),
                    deliveries=tuple(
                        replace(one, epoch=epoch) if one.instance == self.sink else one for one in each.deliveries
                    ),
                )
            )
            for each, moved in ((self.upper, (self.first,)), (self.lower, self.rest))
        ]
        self.hosting.until(lambda: all(map(self.hosting.in_effect, sent)), "the old jobs go on")
        self.hosting.release(cut)


def test_a_running_dag_stays_where_it_was_and_goes_another_time(hosting: Hosting) -> None:
    """Whatever has become of the cut when the old jobs get everything back, nothing is lost, doubled, or fresh."""
    town = Town(hosting).run()
    town.publish()
    town.hold()

    def wait(condition: Callable[[], Any]) -> None:
        hosting.until(condition, "the old jobs are so far")

    for epoch, stage in enumerate(("unwished", "wished", "reached", "left"), 2):
        cut = f"{stage} {town.source}"
        town.let_go(cut)
        town.publish()
        if stage != "unwished":
            hosting.cut(cut, town.raw.stream)
            town.publish()
        if stage in {"reached", "left"}:
            wait(lambda cut=cut: town.is_cut(cut))  # type: ignore[misc]
        if stage == "left":
            wait(lambda cut=cut: town.has_left(cut))  # type: ignore[misc]
            town.publish()
        town.come_back(cut, epoch)
        town.publish()
        town.hold()

    cut = f"over {town.source}"
    town.let_go(cut)
    town.publish()
    hosting.cut(cut, town.raw.stream)
    town.publish()
    wait(lambda: town.is_cut(cut))
    hosting.run(town.take_over(cut))
    wait(lambda: town.has_left(cut))
    hosting.release(cut)
    hosting.stop_job(town.lower.job)
    town.publish()
    town.hold()
    wait(lambda: not hosting.status(town.upper.job)["cuts"])
    assert [[], [], []] == [hosting.refusals(each.job) for each in (town.upper, town.lower, town.warmed)]
