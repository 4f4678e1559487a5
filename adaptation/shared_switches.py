"""Decisions of several dataflows that share running tasks, put together.

Each is decided by itself, so no tenant's guards or policy change what another gets. What they have in common is one
switch: sharers that want the same alternate of a task go together, and those that differ part.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from adaptation.decision import ChoiceDecision, Ground, StandingChoice, decide, least_cost
from adaptation.documents import Selection
from adaptation.flow import ONLY, is_open


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharer:
    """A dynamic dataflow among others; made by who knows what runs."""

    dataflow: str
    ground: Ground
    standing: StandingChoice
    running: Mapping[str, Hashable]
    """What each task runs as, by its id: equal for tasks that are shared, or would be with the same alternates."""

    @property
    def cost(self) -> float:
        """What it costs an hour with what stands."""
        return self.ground.price * self.ground.flow.need(self.standing.choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDecisions:
    """What several dataflows decide; made by `decide_together`."""

    decisions: Mapping[str, ChoiceDecision]
    """By dataflow."""
    switches: tuple[Mapping[str, str], ...]
    """For each switch of a running task its id in each of the dataflows that want it."""


def allowances(sharers: Sequence[Sharer], money: float) -> Mapping[str, float]:
    """What is left of a tenant's money an hour for each of its dataflows, those of most worth first.

    Each may have its cheapest choice, so that those that come first leave that much to the others.
    """
    least = {sharer.dataflow: least_cost(sharer.ground, sharer.standing.choice) for sharer in sharers}
    left, allowed = max(0.0, money - sum(least.values())), {}
    for sharer in sorted(sharers, key=lambda sharer: -(sharer.ground.policy.worth or 0.0)):
        cheapest = least[sharer.dataflow]
        allowed[sharer.dataflow] = cheapest + left
        left -= max(0.0, min(sharer.cost, cheapest + left) - cheapest)
    return allowed


def decide_together(sharers: Sequence[Sharer]) -> SharedDecisions:
    """The decisions of dataflows that may share tasks."""
    decisions = {sharer.dataflow: decide(sharer.ground, sharer.standing) for sharer in sharers}
    identities: dict[Hashable, int] = {}
    switches: defaultdict[Hashable, dict[str, str]] = defaultdict(dict)
    for sharer in sharers:
        now, next_one = sharer.standing.choice, decisions[sharer.dataflow].choice
        before, after = _numbers(sharer, now, identities), _numbers(sharer, next_one, identities)
        for task, name in next_one.alternates.items():
            if name != now.alternates[task]:
                switches[before[task], after[task], name][sharer.dataflow] = task
    return SharedDecisions(decisions=decisions, switches=tuple(switches.values()))


def _numbers(sharer: Sharer, choice: Selection, identities: dict[Hashable, int]) -> dict[str, int]:
    """A number for what each task computes, equal if tasks run as one."""
    numbers: list[int] = []
    tasks = sharer.ground.flow.tasks
    for task in tasks:
        alternate = choice.alternates[task.id] if task.is_dynamic else ONLY
        parents = tuple(sorted((numbers[feed.parent], is_open(feed, choice.opened)) for feed in task.feeds))
        key = (sharer.running.get(task.id, (sharer.dataflow, task.id)), alternate, parents)
        numbers.append(identities.setdefault(key, len(identities)))
    return {task.id: number for task, number in zip(tasks, numbers, strict=True)}
