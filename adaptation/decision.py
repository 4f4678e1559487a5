"""The decision which alternates run: pure, from what guards permit, what flows, what stands, and what is asked.

- What is no longer permitted is changed at once; the rest stays if it still fits.
- If less than the target, less the tolerance, would be worked off, the best choice that fits is taken at once.
- A better choice is taken if it fits with the tolerance as margin, has done so for a while, and nothing that it changes
  was changed recently. So under a constant load it changes at most twice.

The best choice has the most value of those that fit in some cores; then the least need, then the fewest changes. If
none fits, it is the cheapest one. Where cores have a price and the policy says what value is worth, value counts less
what the cores for it cost. What a budget pays for is a bound on cores.

The search is exact where there are few choices, and where no alternate changes what tasks below get, but for costs
rounded up to an eight-thousandth of the most that choices can differ by. Otherwise it climbs from the cheapest choice,
which is exact too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from operator import le
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from adaptation.documents import DynamicDocument, Policy, RuleForm, Selection, placed_guards, placed_values
from adaptation.flow import FlowAlternate, FlowGraph, FlowTask, is_open
from adaptation.guard_states import GuardStates
from adaptation.guards import Guard, ValueGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What may be chosen at present; made by `permission`."""

    alternates: Mapping[str, frozenset[str]]
    """The alternates that each dynamic task may have; at least one."""
    opened: Mapping[str, bool]
    """Whether each guarded stream is open."""
    rules: Mapping[str, str]
    """The name of the rule that fixes a task or stream, by its id or name."""
    unguarded: frozenset[str]
    """Tasks of which no alternate is allowed, so that the one that runs stays."""


def guards_of(dynamic: DynamicDocument, policy: Policy) -> Iterator[Guard]:
    """Every guard of a document under a policy."""
    yield from (guard for _, guard in placed_guards(dynamic))
    yield from (rule.guard for rule in policy.rules)


def value_guards_of(dynamic: DynamicDocument) -> Iterator[ValueGuard]:
    """Every value guard of a document."""
    return (value for _, value in placed_values(dynamic))


def permission(dynamic: DynamicDocument, policy: Policy, states: GuardStates, standing: Selection) -> Permission:
    """What may be chosen, given the states of guards and what stands. Of two rules the earlier one wins."""
    fixed: dict[str, RuleForm] = {}
    for rule in policy.rules:
        if states.is_active(rule.guard):
            fixed = dict.fromkeys(rule.choose, rule) | fixed
    alternates, unguarded = {}, set()
    for task in dynamic.tasks.values():
        allowed = frozenset(name for name, alternate in task.alternates.items() if states.is_active(alternate.when))
        if task.id in fixed:
            allowed = frozenset({str(fixed[task.id].choose[task.id])})
        elif not allowed:
            unguarded.add(task.id)
        alternates[task.id] = allowed or frozenset({standing.alternates[task.id]})
    return Permission(
        alternates=alternates,
        opened={
            name: bool(fixed[name].choose[name]) if name in fixed else states.is_active(stream.when)
            for name, stream in dynamic.streams.items()
        },
        rules={key: rule.name for key, rule in fixed.items()},
        unguarded=frozenset(unguarded),
    )


HOURS_A_DAY = 24.0
_MOST_WORK = 60_000
"""The most work, as choices times tasks, for which every choice is tried."""
_STEPS = 8_192
_NEARLY = 1e-9


class ChoiceSpace(NamedTuple):
    """What may be chosen: alternates by task, with streams open or not."""

    flow: FlowGraph
    alternates: Mapping[str, Sequence[str]]
    opened: Mapping[str, bool]
    present: Mapping[str, str]
    """The alternates that run."""
    core_value: float = 0.0
    """The value that a core must bring: what it costs by what value is worth."""

    def merit(self, alternates: Mapping[str, str]) -> float:
        """The value of some alternates, less what their cores cost."""
        value = self.flow.value(alternates)
        return value - self.core_value * self.flow.need(self.selection(alternates)) if self.core_value else value

    def selection(self, alternates: Mapping[str, str]) -> Selection:
        """The selection of some alternates."""
        return Selection(alternates=alternates, opened=self.opened)


def best_choice(space: ChoiceSpace, cores: float) -> Selection:
    """The best choice that fits in some cores, or the cheapest one."""
    count = prod(len(names) for names in space.alternates.values())
    if count * len(space.flow.tasks) <= _MOST_WORK:
        names = list(space.alternates)
        every = (dict(zip(names, chosen, strict=True)) for chosen in product(*space.alternates.values()))
        return space.selection(max(every, key=lambda alternates: _merit(space, alternates, cores)))
    cheapest = _cheapest(space)
    if space.flow.need(space.selection(cheapest)) > cores:
        return space.selection(cheapest)
    return space.selection(_divided(space, cores) if _is_divisible(space) else _climbed(space, cheapest, cores))


def _merit(space: ChoiceSpace, alternates: Mapping[str, str], cores: float) -> tuple[bool, float, float, int]:
    need = space.flow.need(space.selection(alternates))
    value = round(space.merit(alternates) / _NEARLY)
    same = sum(space.present.get(task) == name for task, name in alternates.items())
    fits = need <= cores
    # Needs that differ by their last digits only are equal.
    rounded = -float(f"{need:.9g}")
    return (True, value, rounded, same) if fits else (False, rounded, value, same)


def _cheapest(space: ChoiceSpace) -> dict[str, str]:
    """The cheapest choice, found from the last task up: an event's cost below a task depends on no rates."""
    chosen: dict[str, str] = {}
    below = [0.0] * len(space.flow.tasks)
    for at in reversed(range(len(space.flow.tasks))):
        task = space.flow.tasks[at]
        names = space.alternates[task.id] if task.is_dynamic else tuple(task.alternates)
        costs = {name: _unit_cost(task.alternates[name], below[at]) for name in names}
        least = min(costs.values())
        fitting = [name for name, cost in costs.items() if cost <= least * (1 + _NEARLY)]
        # Of equal ones, the better one, and then what runs.
        name = max(fitting, key=lambda name: (task.alternates[name].value, name == space.present.get(task.id)))
        if task.is_dynamic:
            chosen[task.id] = name
        for edge in task.feeds:
            if is_open(edge, space.opened):
                below[edge.parent] += costs[name]
    return chosen


def _unit_cost(alternate: FlowAlternate, below: float) -> float:
    return alternate.cost + alternate.selectivity * below


def _is_divisible(space: ChoiceSpace) -> bool:
    """Whether the needs of tasks add up: no alternate changes what others get."""
    return all(
        len({task.alternates[name].selectivity for name in space.alternates[task.id]}) == 1
        for task in space.flow.tasks
        if task.is_dynamic
    )


def _divided(space: ChoiceSpace, cores: float) -> dict[str, str]:
    """The best choice, found by dividing the cores among the tasks: a table has the most value for each part."""
    flow = space.flow
    start = {task: names[0] for task, names in space.alternates.items()}
    rates = flow.entering(flow.chosen(start), space.opened)
    tasks = [flow.tasks[at] for at in flow.dynamic]
    extras, fixed = [], flow.need(space.selection(start))
    for at, task in zip(flow.dynamic, tasks, strict=True):
        costs = [rates[at] * task.alternates[name].cost for name in space.alternates[task.id]]
        fixed += min(costs) - costs[0]
        extras.append([cost - min(costs) for cost in costs])
    widest = sum(max(extra) for extra in extras)
    step = widest / _STEPS if widest > 0 else 1.0
    room = min(_STEPS + len(tasks), int((cores - fixed) / step))
    table: npt.NDArray[np.float64] = np.zeros(room + 1)
    picks = []
    for task, costs in zip(tasks, extras, strict=True):
        values = [task.alternates[name].value for name in space.alternates[task.id]]
        best, pick = np.full(room + 1, -np.inf), np.zeros(room + 1, np.int16)
        for number, (cost, value) in enumerate(zip(costs, values, strict=True)):
            taken = int(np.ceil(cost / step - _NEARLY))
            if taken > room:
                continue
            other = np.full(room + 1, -np.inf)
            other[taken:] = table[: room + 1 - taken] + value
            better = other > best
            best[better], pick[better] = other[better], number
        table = best
        picks.append(pick)
    # The table has sums of values, and the merit a mean.
    table = table - space.core_value * len(tasks) * step * np.arange(room + 1)
    left = int(np.argmax(table >= table.max() - _NEARLY))
    chosen: dict[str, str] = {}
    for task, costs, pick in reversed(list(zip(tasks, extras, picks, strict=True))):
        number = int(pick[left])
        chosen[task.id] = space.alternates[task.id][number]
        left -= int(np.ceil(costs[number] / step - _NEARLY))
    return chosen


def _climbed(space: ChoiceSpace, start: Mapping[str, str], cores: float) -> dict[str, str]:
    """A good choice, reached by the change that gains most value for its cost, as long as one fits."""
    choice, flow = dict(start), space.flow
    left = cores - flow.need(space.selection(choice))
    worthwhile = {task.id: _undominated(task, space.alternates[task.id]) for task in flow.tasks if task.is_dynamic}
    while True:
        chosen = flow.chosen(choice)
        rates, below = flow.entering(chosen, space.opened), _below(space, chosen)
        best: tuple[float, float, str, str] | None = None
        for at in flow.dynamic:
            task, now = flow.tasks[at], chosen[at]
            for name in worthwhile[task.id]:
                other = task.alternates[name]
                gain = other.value - now.value
                cost = rates[at] * (_unit_cost(other, below[at]) - _unit_cost(now, below[at]))
                gain -= max(0.0, space.core_value * len(flow.dynamic) * cost)
                if gain > _NEARLY and cost <= left - _NEARLY * abs(left):
                    merit = gain / max(cost, _NEARLY)
                    best = max(best or (0.0, 0.0, "", ""), (merit, -cost, task.id, name))
        if best is None:
            return choice
        left += best[1]
        choice[best[2]] = best[3]


def _undominated(task: FlowTask, names: Sequence[str]) -> list[str]:
    """The alternates of a task than which no other is at least as good in everything, and better in something."""
    known = {name: (-task.alternates[name].value, *task.alternates[name][:2]) for name in names}
    return [
        name
        for name, one in known.items()
        if not any(other != one and all(map(le, other, one)) for other in known.values())
    ]


def _below(space: ChoiceSpace, chosen: Sequence[FlowAlternate]) -> list[float]:
    """What an event that leaves a task costs below it."""
    below = [0.0] * len(chosen)
    for at in reversed(range(len(chosen))):
        for edge in space.flow.tasks[at].feeds:
            if is_open(edge, space.opened):
                below[edge.parent] += _unit_cost(chosen[at], below[at])
    return below


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a better choice waits."""

    steady_s: float = 15.0
    """How long it must have been there."""
    cool_down_s: float = 60.0
    """How long what it changes must have stood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingChoice:
    """What stands, and since when."""

    choice: Selection
    since: Mapping[str, float] = field(default_factory=dict)
    """When each task or stream was changed, by its id or name."""
    better_since: float | None = None
    """Since when there has been a better choice, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a decision rests on."""

    flow: FlowGraph
    permission: Permission
    policy: Policy
    cores: float
    """Those that are there for the dataflow."""
    now: float
    price: float = 0.0
    """What an hour of a core costs it, in money; less where others use what it runs."""
    allowance: float | None = None
    """The money an hour that its tenant has left for it."""
    planned: Mapping[str, str] | None = None
    """The alternates that it has in the plan of the whole service, if there is one."""
    patience: Patience = field(default_factory=Patience)

    @property
    def limit(self) -> float:
        """The cores that it may use."""
        bounds = (self.cores, self.policy.cores, self.affordable)
        return min(bound for bound in bounds if bound is not None)

    @property
    def affordable(self) -> float | None:
        """The cores at which all that comes in is worked off for the money that there is; None if nothing bounds it."""
        budget = None if self.policy.budget is None else self.policy.budget / HOURS_A_DAY
        money = [bound for bound in (budget, self.allowance) if bound is not None]
        return min(money) / self.price * self.target if money and self.price > 0 else None

    @property
    def core_value(self) -> float:
        """The value that a core must bring; 0 if nobody said what value is worth."""
        return self.price / max(self.policy.worth, _NEARLY) if self.policy.worth is not None else 0.0

    @property
    def limit_text(self) -> str:
        """The cores that it may use, and whether money is what bounds them."""
        return f"{self.limit:.3g}{' that its budget pays for' if self.limit == self.affordable else ''}"

    @property
    def target(self) -> float:
        """The share that must be worked off: all, if there is a bound on latency, since a backlog would grow."""
        return self.policy.throughput if self.policy.latency is None else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceDecision:
    """What shall run from now on; made by `decide`."""

    choice: Selection
    reasons: tuple[str, ...]
    """Why each change is made; empty if nothing changes."""
    omega: float
    """The share that is expected to be worked off."""
    value: float
    cores: float
    """The cores that it needs to work off everything."""
    standing: StandingChoice
    """What the next decision is given."""


def decide(ground: Ground, standing: StandingChoice) -> ChoiceDecision:
    """The choice from now on."""
    kept = replace(standing.choice, opened=ground.permission.opened)
    forced = [task for task, name in kept.alternates.items() if name not in ground.permission.alternates[task]]
    if forced:
        # The rest stays, if it can.
        fixed = {task: frozenset({name}) for task, name in kept.alternates.items() if task not in forced}
        best = best_choice(choice_space(ground, kept, fixed), ground.limit / ground.target)
        if _is_overloaded(ground, best):
            best = best_choice(choice_space(ground, kept), ground.limit / ground.target)
        return _decision(ground, standing, best, "")
    if _is_overloaded(ground, kept):
        best = best_choice(choice_space(ground, kept), ground.limit / ground.target)
        if ground.flow.need(best) < ground.flow.need(kept) * (1 - _NEARLY):
            why = f"it needs {ground.flow.need(kept):.3g} cores of {ground.limit_text}, so less than the target is done"
            return _decision(ground, standing, best, why)
        return _decision(ground, standing, kept, "")
    return _improved(ground, standing, kept)


def expected_omega(need: float, cores: float) -> float:
    """The share that is worked off by some cores.

    >>> expected_omega(2.0, 1.0), expected_omega(0.5, 1.0)
    (0.5, 1.0)
    """
    return 1.0 if need <= cores else cores / need


def least_cost(ground: Ground, kept: Selection) -> float:
    """What the cheapest choice that is permitted costs an hour."""
    return ground.price * ground.flow.need(best_choice(choice_space(ground, kept), 0.0))


def _improved(ground: Ground, standing: StandingChoice, kept: Selection) -> ChoiceDecision:
    """A better choice than what fits, if it has been there for a while."""
    planned = _planned(ground, kept)
    best = planned or best_choice(choice_space(ground, kept), ground.limit / (ground.target + ground.policy.tolerance))
    is_better = best.alternates != kept.alternates if planned else _is_better(ground, best, kept)
    if _is_overloaded(ground, best) or not is_better:
        return _decision(ground, standing, kept, "")
    since = ground.now if standing.better_since is None else standing.better_since
    patience = ground.patience
    changed = [task for task, name in best.alternates.items() if kept.alternates[task] != name]
    newest = max((standing.since[task] for task in changed if task in standing.since), default=None)
    is_cool = newest is None or ground.now - newest >= patience.cool_down_s
    if ground.now - since < patience.steady_s or not is_cool:
        return _decision(ground, replace(standing, better_since=since), kept, "", is_waiting=True)
    why = f"it fits in {ground.limit_text} cores with {ground.flow.need(best):.3g}, and is {_gain(ground, best, kept)}"
    return _decision(ground, standing, best, f"{why}, by the plan of all machines" if planned else why)


def _planned(ground: Ground, kept: Selection) -> Selection | None:
    """What the plan of the whole service has, as long as it is permitted and fits in the cores that are there."""
    if ground.planned is None or ground.planned.keys() != kept.alternates.keys():
        return None
    if any(name not in ground.permission.alternates[task] for task, name in ground.planned.items()):
        return None
    planned = replace(kept, alternates=dict(ground.planned))
    return None if _is_overloaded(ground, planned) else planned


def _gain(ground: Ground, choice: Selection, kept: Selection) -> str:
    before, after = ground.flow.value(kept.alternates), ground.flow.value(choice.alternates)
    cost = ground.price * (ground.flow.need(choice) - ground.flow.need(kept))
    value = f"of value {after:.3g} rather than {before:.3g}"
    if after - before < -_NEARLY:
        return f"{value}, which is worth less than the {-cost:.3g} an hour that it saves"
    if after - before > _NEARLY:
        return f"{value}{f', for {cost:.3g} an hour more' if ground.core_value and cost > 0 else ''}"
    return "as good for less"


def _is_better(ground: Ground, choice: Selection, kept: Selection) -> bool:
    """Whether it has more merit by more than measurements may err, or as much for clearly less."""
    space = choice_space(ground, kept)
    gain = space.merit(choice.alternates) - space.merit(kept.alternates)
    margin = max(ground.policy.tolerance, _NEARLY)
    gain -= margin * ground.core_value * abs(ground.flow.need(choice) - ground.flow.need(kept))
    saves = ground.flow.need(choice) < ground.flow.need(kept) * (1 - margin)
    fits = ground.flow.need(choice) * (ground.target + ground.policy.tolerance) <= ground.limit
    return fits and (gain > _NEARLY or (abs(gain) <= _NEARLY and saves))


def _is_overloaded(ground: Ground, choice: Selection) -> bool:
    """Whether less than the target is worked off, beyond the tolerance."""
    return ground.flow.need(choice) * max(ground.target - ground.policy.tolerance, 0.0) > ground.limit


def choice_space(ground: Ground, kept: Selection, fixed: Mapping[str, frozenset[str]] | None = None) -> ChoiceSpace:
    """What may be chosen, with some tasks perhaps fixed."""
    permitted = {**ground.permission.alternates, **(fixed or {})}
    return ChoiceSpace(
        flow=ground.flow,
        alternates={task: sorted(names) for task, names in permitted.items()},
        opened=ground.permission.opened,
        present=kept.alternates,
        core_value=ground.core_value,
    )


def _decision(
    ground: Ground, standing: StandingChoice, choice: Selection, why: str, *, is_waiting: bool = False
) -> ChoiceDecision:
    before = standing.choice
    changed = {task for task, name in choice.alternates.items() if before.alternates[task] != name}
    changed |= {stream for stream, is_open in choice.opened.items() if before.opened[stream] != is_open}
    need = ground.flow.need(choice)
    return ChoiceDecision(
        choice=choice,
        reasons=tuple(_reasons(ground, before, choice, why)),
        omega=expected_omega(need, ground.limit),
        value=ground.flow.value(choice.alternates),
        cores=need,
        standing=StandingChoice(
            choice=choice,
            since={**standing.since, **dict.fromkeys(changed, ground.now)},
            better_since=standing.better_since if is_waiting else None,
        ),
    )


def _reasons(ground: Ground, before: Selection, after: Selection, why: str) -> Iterator[str]:
    allowed, rules = ground.permission.alternates, ground.permission.rules
    for task, name in after.alternates.items():
        was = before.alternates[task]
        if was == name:
            continue
        reason = why or "the others need its cores"
        if was not in allowed[task]:
            reason = f"the rule {rules[task]!r} is active" if task in rules else f"the guard of {was!r} is not active"
        yield f"{task}: {was!r} becomes {name!r}, since {reason}"
    for stream, opened in after.opened.items():
        if before.opened[stream] != opened:
            by_guard = f"its guard is {'active' if opened else 'not active'}"
            reason = f"the rule {rules[stream]!r} is active" if stream in rules else by_guard
            yield f"{stream}: {'opens' if opened else 'closes'}, since {reason}"
