"""Sink levels: what part of its events each sink gets, so that the mean is reached at a low price.

Whole cores make some levels cheap: just where a task makes do with a core less. So some sinks get all of their events
and others few, if that costs less than the same for all. What lies above several sinks serves the highest of them.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise

from provisioning.dataflow_figures import DataflowFigures

_SHARED = -1
_STEPS = 4
"""The cores less of a task that are considered."""
_LEVELS = 24
"""The levels of a sink that are considered."""
_ROUNDING = 1e-9

Price = Callable[[int, float], float]
"""Of a task, the price of the cores for so many reference cores."""


def sink_levels(  # noqa: PLR0913  all that a level follows from
    dataflow: DataflowFigures, needs: Sequence[float], price: Price, grain: float, *, highest: float, mean: float
) -> list[float]:
    """The level of each task, with none above the highest one, and with so high a mean over sinks and tenants."""
    regions = _regions(dataflow)
    total = sum(dataflow.tasks[at].tenants for at in dataflow.sinks)
    spare = (highest - mean) * total
    chosen = dict.fromkeys(regions, highest)
    moves: list[tuple[float, float, int, float]] = []
    for sink, tasks in regions.items():
        curve = _curve(tasks, needs, price, grain, highest)
        weight = dataflow.tasks[sink].tenants
        for (above, dear), (level, cheap) in pairwise(curve):
            loss = weight * (above - level)
            moves.append(((cheap - dear) / loss, loss, sink, level))
    closed: set[int] = set()
    for _, loss, sink, level in sorted(moves, key=lambda move: (move[0], -move[3])):
        if sink in closed:
            continue
        if loss > spare + _ROUNDING:
            closed.add(sink)
            continue
        spare -= loss
        chosen[sink] = level
    found = [highest] * len(dataflow.tasks)
    for sink, tasks in regions.items():
        for task in tasks:
            found[task] = chosen[sink]
    return found


def _regions(dataflow: DataflowFigures) -> dict[int, list[int]]:
    """For each sink the tasks that work for it alone."""
    label = [_SHARED] * len(dataflow.tasks)
    regions: defaultdict[int, list[int]] = defaultdict(list)
    for at in reversed(range(len(dataflow.tasks))):
        below = {label[child] for child in dataflow.children[at]}
        label[at] = at if not below else below.pop() if len(below) == 1 else _SHARED
        if label[at] != _SHARED:
            regions[label[at]].append(at)
    return regions


def _curve(
    tasks: Sequence[int], needs: Sequence[float], price: Price, grain: float, highest: float
) -> list[tuple[float, float]]:
    """Levels of a region and their prices, from the highest one down; convex, so that what saves most comes first."""
    levels = {0.0}
    for task in tasks:
        if needs[task] > 0:
            whole = int(needs[task] * highest / grain - _ROUNDING)
            levels |= {cores * grain / needs[task] for cores in range(max(1, whole - _STEPS + 1), whole + 1)}
    ordered = sorted(level for level in levels if level < highest - _ROUNDING)
    if len(ordered) > _LEVELS:
        ordered = [ordered[round(at * (len(ordered) - 1) / (_LEVELS - 1))] for at in range(_LEVELS)]
    hull: list[tuple[float, float]] = []
    for level in (highest, *reversed(ordered)):
        point = level, sum(price(task, needs[task] * level) for task in tasks)
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-2], point):
            hull.pop()
        hull.append(point)
    return [point for at, point in enumerate(hull) if not at or point[1] < hull[at - 1][1] - _ROUNDING]


def _slope(one: tuple[float, float], other: tuple[float, float]) -> float:
    """What is saved on the way down, by level."""
    return (one[1] - other[1]) / (one[0] - other[0])
