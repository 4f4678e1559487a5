"""Random plan swaps while a numbered source runs: nothing is lost or doubled, whatever joins, pauses or goes."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from engine.plan import Delivery, Forward, Ingress, Plan, Rated, Slot, SlotState
from tests.integration.hosting import HOST, QUICK, Hosting, bridged, deliveries, delivery, slot

pytestmark = pytest.mark.spark

RATE = 300.0
SWAPS = 25


@dataclass
class Branch:
    """A count of all events, and an output of the numbers that it counts with them."""

    count: int
    counted: int
    sink: int
    state: SlotState = SlotState.ACTIVE
    forwarded: bool = False

    def slots(self, source: int) -> tuple[Slot, ...]:
        made = (
            slot(self.count, "count", source),
            slot(self.counted, "output", self.count),
            slot(self.sink, "output", source),
        )
        return tuple(replace(each, state=self.state) for each in made)


@dataclass
class Load:
    """The job under load, and a second one that reads what the first forwards."""

    hosting: Hosting
    drawn: random.Random
    source: int = 0
    branches: list[Branch] = field(default_factory=list)
    gone: list[Branch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = self.hosting.fresh()
        # The first stays as it is all the time: it sees what there is to see.
        self.branches.append(self.fresh())
        self.below = self.hosting.fresh()
        self.shared = self.branches[0].count

    def fresh(self) -> Branch:
        return Branch(self.hosting.fresh(), self.hosting.fresh(), self.hosting.fresh())

    @property
    def upper(self) -> Plan:
        slots = tuple(each for branch in self.branches for each in branch.slots(self.source))
        forwards = tuple(Forward(instance=branch.count) for branch in self.branches if branch.forwarded)
        supply = Rated(per_second=RATE)
        return Plan(
            job=f"load{self.source}",
            host=HOST,
            version=0,
            slots=slots,
            ingress=(Ingress(stream=f"rate/{self.source}", instance=self.source, supply=supply),),
            forwards=forwards,
            deliveries=deliveries(slots),
            pace=QUICK,
        )

    @property
    def lower(self) -> Plan:
        slots = (slot(self.below, "output", self.shared),)
        return Plan(
            job=f"below{self.source}",
            host=HOST,
            version=0,
            slots=slots,
            ingress=(bridged(self.shared),),
            deliveries=deliveries(slots),
            pace=QUICK,
        )

    def swap(self) -> None:
        """Change something at random."""
        others = self.branches[1:]
        match self.drawn.choice(["graft", "graft", "pause", "resume", "replace", "remove", "forward", "forward"]):
            case "pause" if others:
                self.drawn.choice(others).state = SlotState.PAUSED
            case "resume" if others:
                self.drawn.choice(others).state = SlotState.ACTIVE
            case "replace" if others:
                self.gone.append(self.branches.pop(self.drawn.randrange(1, len(self.branches))))
                self.branches.append(self.fresh())
            case "remove" if others:
                self.gone.append(self.branches.pop(self.drawn.randrange(1, len(self.branches))))
            case "forward":
                self.branches[0].forwarded = not self.branches[0].forwarded
            case _:
                self.branches.append(self.fresh())


def column(hosting: Hosting, what: Delivery, name: str, many: int) -> list[int]:
    """One field of all that came for a delivery, in order and without a hole in its numbers."""
    hosting.until(lambda: hosting.count(what) >= many, f"{many} events for {what}, {hosting.count(what)} came")
    found: Sequence[Mapping[str, Any]] = hosting.delivered(what)
    return [event[name] for event in found]


def periods(plans: Sequence[Plan], is_on: Callable[[Plan], bool]) -> list[int]:
    """The numbers of the events for which something is on: a plan holds from its position up to that of the next."""
    begins = [next(iter(plan.at.values()), 0) for plan in plans]
    return [
        number
        for plan, (first, end) in zip(plans, pairwise(begins), strict=False)
        if is_on(plan)
        for number in range(first, end)
    ]


def runs(plan: Plan, instance: int) -> bool:
    return instance in {each.instance for each in plan.active}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_random_swaps_lose_and_double_nothing(hosting: Hosting, seed: int) -> None:
    """Every instance takes each event between its start and its end once, and none while it is paused."""
    load = Load(hosting, random.Random(seed))
    hosting.run(load.lower)
    plans = [hosting.run(load.upper)]
    [stream] = load.upper.streams
    # Well ahead of the first, and so of all: plans wait in the log until their positions come.
    positions = [1_000 + 40 * n + load.drawn.randint(0, 39) for n in range(SWAPS)]
    for position in positions:
        load.swap()
        plans.append(hosting.send(replace(load.upper, at={stream: position})))
    load.branches = [replace(each, state=SlotState.PAUSED, forwarded=False) for each in load.branches]
    last = hosting.send(replace(load.upper, at={stream: 1_000 + 40 * SWAPS}))
    plans.append(last)
    hosting.until(lambda: hosting.in_effect(last), "the last plan in effect")
    assert [] == hosting.refusals(last.job)
    # Each was logged, though the first ones may be forgotten by now.
    logged = hosting.folder(last.job).entries(1)
    assert SWAPS + 2 == logged[-1].number
    assert plans[-len(logged) :] == [entry.plan for entry in logged]
    for branch in (*load.branches, *load.gone):
        expected = periods(plans, lambda plan, each=branch.sink: runs(plan, each))  # type: ignore[misc]
        assert expected == column(hosting, delivery(branch.sink), "number", len(expected))
        counts = column(hosting, delivery(branch.counted), "count", len(expected))
        assert list(range(1, len(expected) + 1)) == counts
    # What the first branch counts, by the job below; a count is one more than its event's number.
    forwarded = periods(plans, lambda plan: bool(plan.forwards))
    assert [number + 1 for number in forwarded] == column(hosting, delivery(load.below), "count", len(forwarded))
