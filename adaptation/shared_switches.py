"""Decisions of several dataflows that share running tasks, put together.

Each is decided by itself, so no tenant's guards or policy change what another gets. What they have in common is one
switch: sharers that want the same alternate of a task go together, and those that differ part. What runs for several
is counted once.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from adaptation.decision import ChoiceDecision, Ground, StandingChoice, decide
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSwitch:
    """One switch of a running task, for all dataflows that want it."""

    alternate: str
    tasks: Mapping[str, str]
    """The id of the task in each of the dataflows."""
    is_fork: bool
    """Whether others that share the task go on as they are, or elsewhere."""
    is_join: bool
    """Whether it becomes one with what runs for another dataflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDecisions:
    """What several dataflows decide; made by `decide_together`."""

    decisions: Mapping[str, ChoiceDecision]
    """By dataflow."""
    switches: tuple[SharedSwitch, ...]
    cores: float
    """What all need together, where a shared task counts once."""


def decide_together(sharers: Sequence[Sharer]) -> SharedDecisions:
    """The decisions of dataflows that may share tasks."""
    decisions = {each.dataflow: decide(each.ground, each.standing) for each in sharers}
    identities = _Identities()
    before = {each.dataflow: identities.of(each, each.standing.choice) for each in sharers}
    after = {each.dataflow: identities.of(each, decisions[each.dataflow].choice) for each in sharers}
    costs: dict[int, float] = {}
    for each in sharers:
        for task, cost in _costs(each, decisions[each.dataflow].choice):
            identity = after[each.dataflow][task]
            costs[identity] = max(cost, costs.get(identity, 0.0))
    return SharedDecisions(
        decisions=decisions,
        switches=tuple(_switches(sharers, decisions, before, after)),
        cores=sum(costs.values()),
    )


class _Identities:
    """Numbers for what tasks compute: equal if they run as one."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, sharer: Sharer, choice: Selection) -> dict[str, int]:
        """The number of each task."""
        found: list[int] = []
        tasks = sharer.ground.flow.tasks
        for task in tasks:
            alternate = choice.alternates[task.id] if task.is_dynamic else ONLY
            parents = tuple(sorted((found[each.parent], is_open(each, choice.opened)) for each in task.feeds))
            key = (sharer.running.get(task.id, (sharer.dataflow, task.id)), alternate, parents)
            found.append(self._known.setdefault(key, len(self._known)))
        return {task.id: number for task, number in zip(tasks, found, strict=True)}


Numbers = Mapping[str, Mapping[str, int]]


def _costs(sharer: Sharer, choice: Selection) -> Iterator[tuple[str, float]]:
    flow = sharer.ground.flow
    chosen = flow.chosen(choice.alternates)
    for task, rate, alternate in zip(flow.tasks, flow.entering(chosen, choice.opened), chosen, strict=True):
        yield task.id, rate * alternate.cost


def _switches(
    sharers: Sequence[Sharer], decisions: Mapping[str, ChoiceDecision], before: Numbers, after: Numbers
) -> Iterator[SharedSwitch]:
    together: dict[tuple[int, int, str], dict[str, str]] = defaultdict(dict)
    leaves: dict[int, set[int]] = defaultdict(set)
    arrives: dict[int, set[int]] = defaultdict(set)
    for each in sharers:
        for task, name in decisions[each.dataflow].choice.alternates.items():
            one, other = before[each.dataflow][task], after[each.dataflow][task]
            leaves[one].add(other)
            arrives[other].add(one)
            if name != each.standing.choice.alternates[task]:
                together[one, other, name][each.dataflow] = task
    for (one, other, name), tasks in together.items():
        yield SharedSwitch(alternate=name, tasks=tasks, is_fork=len(leaves[one]) > 1, is_join=len(arrives[other]) > 1)
