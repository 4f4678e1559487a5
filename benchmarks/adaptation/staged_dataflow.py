"""The thesis' synthetic dataflow of figure 5.2: ten stages of three tasks, with one to three alternates each."""

import random
from dataclasses import replace

from benchmarks.adaptation.linear_road import M1
from provisioning.algorithms import greedy
from provisioning.figures import AlternateFigures, DataflowFigures, ProfitGoal, TaskFigures

WIDTH = 3
COST = 0.04
"""Core-seconds of a typical alternate for an event."""


def staged_dataflow(stages: int, seed: int = 1, name: str = "") -> DataflowFigures:
    """So many stages of three tasks; each takes from its neighbour in the stage before."""
    draws = random.Random(seed)
    tasks: list[TaskFigures] = []
    for stage in range(stages):
        for lane in range(WIDTH):
            inputs = (f"{name}{stage - 1}.{lane}",) if stage else ()
            alternates = drawn_alternates(draws, COST * draws.uniform(0.5, 1.5), 1.0)
            tasks.append(TaskFigures(name=f"{name}{stage}.{lane}", alternates=alternates, inputs=inputs))
    return DataflowFigures(tasks=tuple(tasks))


def staged_rates(dataflow: DataflowFigures, rate: float) -> dict[str, float]:
    """An equal part of a rate at each source."""
    sources = [task.name for task in dataflow.tasks if not task.inputs]
    return {name: rate / len(sources) for name in sources}


def staged_goal(dataflow: DataflowFigures, rate: float) -> ProfitGoal:
    """Break-even at one and a half times what the best alternates cost when nothing varies, and at half of that."""
    tasks = tuple(
        replace(task, alternates=(task.alternates[at],))
        for task, at in zip(dataflow.tasks, dataflow.best(), strict=True)
    )
    plain = ProfitGoal(best_cost=1.0, least_cost=0.5)
    rates = staged_rates(dataflow, rate)
    price = greedy.deployed(DataflowFigures(tasks=tasks), rates, M1, plain, central=True).price()
    return ProfitGoal(best_cost=1.5 * price * plain.hours, least_cost=0.75 * price * plain.hours)


def drawn_alternates(draws: random.Random, cost: float, selectivity: float) -> tuple[AlternateFigures, ...]:
    """One to three alternates, each worth less than the one before and cheaper; the first costs so much."""
    made = [AlternateFigures(cost=cost, selectivity=selectivity)]
    for _ in range(draws.choice((0, 0, 1, 2))):
        worth, cost = made[-1].value * draws.uniform(0.6, 0.9), cost * draws.uniform(0.4, 0.8)
        given = selectivity * draws.choice((1.0, 1.0, 0.9))
        made.append(AlternateFigures(value=worth, cost=cost, selectivity=given))
    return tuple(made)
