"""The best choice: the most value of those that fit in some cores; then the least need, then the fewest changes.

If none fits, it is the cheapest one. The search is exact where there are few choices, and where no alternate changes
what tasks below get, but for costs rounded up to an eight-thousandth of the most that choices can differ by.
Otherwise it climbs from the cheapest choice, which is exact too.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from operator import le
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from adaptation.documents.dynamic_document import Selection
from adaptation.flow import FlowAlternate, FlowGraph, FlowTask, is_open

_MOST_WORK = 60_000
"""Of trying everything: choices times tasks."""
_STEPS = 8_192
_NEARLY = 1e-9


class ChoiceSpace(NamedTuple):
    """What may be chosen: alternates by task, with streams open or not."""

    flow: FlowGraph
    alternates: Mapping[str, Sequence[str]]
    opened: Mapping[str, bool]
    present: Mapping[str, str]
    """The alternates that run."""

    def selection(self, alternates: Mapping[str, str]) -> Selection:
        """The selection of some alternates."""
        return Selection(alternates=alternates, opened=self.opened)


def best_choice(space: ChoiceSpace, cores: float) -> Selection:
    """The best choice that fits in some cores, or the cheapest one."""
    count = prod(len(each) for each in space.alternates.values())
    if count * len(space.flow.tasks) <= _MOST_WORK:
        return space.selection(_of_all(space, cores))
    cheapest = _cheapest(space)
    if space.flow.need(space.selection(cheapest)) > cores:
        return space.selection(cheapest)
    return space.selection(_divided(space, cores) if _is_divisible(space) else _climbed(space, cheapest, cores))


def _of_all(space: ChoiceSpace, cores: float) -> dict[str, str]:
    """By trying everything."""
    names = list(space.alternates)
    every = (dict(zip(names, each, strict=True)) for each in product(*space.alternates.values()))
    return max(every, key=lambda each: _merit(space, each, cores))


def _merit(space: ChoiceSpace, alternates: Mapping[str, str], cores: float) -> tuple[bool, float, float, int]:
    need = space.flow.need(space.selection(alternates))
    value = round(space.flow.value(alternates) / _NEARLY)
    same = sum(space.present.get(task) == name for task, name in alternates.items())
    fits = need <= cores
    # Needs that differ by their last digits only are equal.
    rounded = -float(f"{need:.9g}")
    return (True, value, rounded, same) if fits else (False, rounded, value, same)


def _cheapest(space: ChoiceSpace) -> dict[str, str]:
    """From the end on: what an event costs below a task does not depend on how many there are."""
    found: dict[str, str] = {}
    below = [0.0] * len(space.flow.tasks)
    for at in reversed(range(len(space.flow.tasks))):
        task = space.flow.tasks[at]
        names = space.alternates[task.id] if task.is_dynamic else tuple(task.alternates)
        costs = {name: _unit_cost(task.alternates[name], below[at]) for name in names}
        least = min(costs.values())
        fitting = [name for name, cost in costs.items() if cost <= least * (1 + _NEARLY)]
        # Of equal ones, the better one, and then what runs.
        name = max(fitting, key=lambda each: (task.alternates[each].value, each == space.present.get(task.id)))
        if task.is_dynamic:
            found[task.id] = name
        for edge in task.feeds:
            if is_open(edge, space.opened):
                below[edge.parent] += costs[name]
    return found


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
    """By dividing the cores among the tasks: a table of the most value for each number of steps."""
    flow = space.flow
    start = {task: names[0] for task, names in space.alternates.items()}
    rates = flow.entering(flow.chosen(start), space.opened)
    tasks = [flow.tasks[at] for at in flow.dynamic]
    extras, fixed = [], flow.need(space.selection(start))
    for at, task in zip(flow.dynamic, tasks, strict=True):
        costs = [rates[at] * task.alternates[name].cost for name in space.alternates[task.id]]
        fixed += min(costs) - costs[0]
        extras.append([each - min(costs) for each in costs])
    widest = sum(max(each) for each in extras)
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
    left = int(np.argmax(table >= table.max() - _NEARLY))
    found: dict[str, str] = {}
    for task, costs, pick in reversed(list(zip(tasks, extras, picks, strict=True))):
        number = int(pick[left])
        found[task.id] = space.alternates[task.id][number]
        left -= int(np.ceil(costs[number] / step - _NEARLY))
    return found


def _climbed(space: ChoiceSpace, start: Mapping[str, str], cores: float) -> dict[str, str]:
    """By the change that gains most value for its cost, as long as one fits."""
    found, flow = dict(start), space.flow
    left = cores - flow.need(space.selection(found))
    worthwhile = {task.id: _undominated(task, space.alternates[task.id]) for task in flow.tasks if task.is_dynamic}
    while True:
        chosen = flow.chosen(found)
        rates, below = flow.entering(chosen, space.opened), _below(space, chosen)
        best: tuple[float, float, str, str] | None = None
        for at in flow.dynamic:
            task, now = flow.tasks[at], chosen[at]
            for name in worthwhile[task.id]:
                other = task.alternates[name]
                gain = other.value - now.value
                cost = rates[at] * (_unit_cost(other, below[at]) - _unit_cost(now, below[at]))
                if gain > _NEARLY and cost <= left - _NEARLY * abs(left):
                    merit = gain / max(cost, _NEARLY)
                    best = max(best or (0.0, 0.0, "", ""), (merit, -cost, task.id, name))
        if best is None:
            return found
        left += best[1]
        found[best[2]] = best[3]


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
