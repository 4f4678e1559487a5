"""The figures of a whole service, of which alternates and machines are decided together; pure.

Each dataflow that adapts counts with its own tasks, the alternates that are permitted and that its money pays for, and
its worth. A task that several use costs each an equal part, so no policy chooses for another dataflow. All else that
runs is one task, which needs the cores that it takes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from adaptation.decision import Ground, best_choice, choice_space
from adaptation.documents import Selection
from adaptation.flow import ONLY, FlowTask, is_open
from adaptation.shared_switches import Sharer
from provisioning.figures import SMALLEST, Active, AlternateFigures, DataflowFigures, ProfitGoal, TaskFigures

_OTHERS = "(others)"
_UNPRICED = 1e-3
"""What value is reckoned to be worth an hour where nobody says so: no machine is rented for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvidedDataflow:
    """A dataflow that adapts, as a service provides for it; made by who knows what runs."""

    sharer: Sharer
    users: Mapping[str, int]
    """How many dataflows use each task; one, if it is not named."""

    @property
    def cores(self) -> float:
        """Those that fall to it with what stands."""
        ground, choice = self.sharer.ground, self.sharer.standing.choice
        return ground.flow.need(choice) * ground.flow.part_of_need(choice, self.users)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFigures:
    """All that runs, in figures; made by `service_figures`."""

    dataflow: DataflowFigures
    rates: Mapping[str, float]
    active: Active
    """What stands."""
    goal: ProfitGoal
    choices: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Of each task the dataflow, the task's id there, and the names of its alternates."""

    def selections(self, active: Active) -> Mapping[str, Mapping[str, str]]:
        """For each dataflow the alternates of its tasks, by their ids."""
        chosen: dict[str, dict[str, str]] = {}
        for (dataflow, task, names), at in zip(self.choices, active, strict=True):
            if names != (ONLY,):
                chosen.setdefault(dataflow, {})[task] = names[at]
        return chosen


def service_figures(provided: Iterable[ProvidedDataflow], others: float) -> ServiceFigures:
    """The figures of dataflows that adapt, beside the cores that all else needs."""
    tasks = [TaskFigures(name=_OTHERS, alternates=(AlternateFigures(cost=1.0),))]
    choices: list[tuple[str, str, tuple[str, ...]]] = [("", _OTHERS, (ONLY,))]
    rates, active, worth = {_OTHERS: others}, [0], 0.0
    # What has no policy is to be worked off, all of it.
    targets, tolerances = [1.0] if others > 0 else [], [0.05, 0.05]
    for one in provided:
        dataflow, ground, kept = one.sharer.dataflow, one.sharer.ground, one.sharer.standing.choice
        targets.append(ground.target)
        tolerances.append(ground.policy.tolerance)
        names = _affordable(ground, kept)
        own = _UNPRICED if ground.policy.worth is None else ground.policy.worth
        worth += own * bool(names)
        for task in ground.flow.tasks:
            offered = tuple(names.get(task.id, (ONLY,)))
            inputs = {
                ground.flow.tasks[feed.parent].id for feed in task.feeds if is_open(feed, ground.permission.opened)
            }
            tasks.append(
                TaskFigures(
                    name=f"{dataflow}/{task.id}",
                    alternates=tuple(_alternate(task, name, one.users.get(task.id, 1)) for name in offered),
                    inputs=tuple(sorted(f"{dataflow}/{parent}" for parent in inputs)),
                    weight=max(SMALLEST, own / max(1, len(names))),
                )
            )
            choices.append((dataflow, task.id, offered))
            present = kept.alternates.get(task.id, ONLY)
            active.append(offered.index(present) if present in offered else 0)
            if task.rate:
                rates[f"{dataflow}/{task.id}"] = task.rate
    figures = DataflowFigures(tasks=tuple(tasks))
    omega = max(targets, default=1.0)
    goal = ProfitGoal.of_worth(figures, max(worth, _UNPRICED), omega=omega, tolerance=min(*tolerances, omega / 2))
    return ServiceFigures(dataflow=figures, rates=rates, active=tuple(active), goal=goal, choices=tuple(choices))


def _affordable(ground: Ground, kept: Selection) -> Mapping[str, Sequence[str]]:
    """The alternates that are permitted, but for those better than what the policy's cores and money suffice for."""
    space = choice_space(ground, kept)
    bounds = [bound for bound in (ground.policy.cores, ground.affordable) if bound is not None]
    if not bounds or not space.alternates:
        return space.alternates
    best = best_choice(space._replace(core_value=0.0), min(bounds) / ground.target)
    values = {
        task.id: {name: alternate.value for name, alternate in task.alternates.items()} for task in ground.flow.tasks
    }
    return {
        task: [name for name in names if values[task][name] <= values[task][best.alternates[task]]]
        for task, names in space.alternates.items()
    }


def _alternate(task: FlowTask, name: str, users: int) -> AlternateFigures:
    alternate = task.alternates[name]
    return AlternateFigures(
        cost=alternate.cost / users,
        value=min(1.0, max(SMALLEST, alternate.value)),
        selectivity=alternate.selectivity,
    )
