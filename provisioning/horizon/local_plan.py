"""A plan on a fixed number of cores, which all tasks share: which alternates at which of the predicted intervals.

Dynamic programming over intervals and mixes. First comes the throughput, then value, then less work; and a switch must
be worth its cost, so that a short lull does not make alternates go to and fro.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from provisioning.algorithms.alternate_costs import causes
from provisioning.dataflow_figures import Active, DataflowFigures
from provisioning.figures import LARGEST, refuse, wrong_figure, wrong_rates
from provisioning.horizon.mixes import cores_of, mixes
from provisioning.outlook import Rates

SWITCH_COST = 0.05
"""The value that switching all tasks with a choice costs, once; of one interval's value, which is at most 1."""
_SHORT = 1000.0
_LOAD = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonStep:
    """What is planned for one interval."""

    active: Active
    gamma: float
    """Its value."""
    omega: float
    """Its relative throughput as far as it is known, at most 1."""
    cores: float
    """The reference cores that would serve all its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonPlan:
    """What is planned for all predicted intervals; only the first step is carried out, and then planned anew."""

    steps: tuple[HorizonStep, ...]

    @property
    def now(self) -> HorizonStep:
        """The step for the next interval."""
        return self.steps[0]


def plan(  # noqa: PLR0913  all that a plan considers, by name
    dataflow: DataflowFigures,
    forecast: Sequence[Rates],
    *,
    cores: float,
    omega: float = 0.8,
    running: Active | None = None,
    switch_cost: float = SWITCH_COST,
) -> HorizonPlan:
    """The best alternates for each interval of a forecast, on so many reference cores.

    Pass a union of dataflows to plan for all tenants at once, and only those alternates that are allowed.
    """
    if not forecast:
        raise ValueError("a plan needs the forecast of one interval at least")
    # Predictions below nothing count as nothing.
    wrong = [*wrong_figure("cores", cores), *wrong_figure("omega", omega, most=1.0)]
    wrong += [
        *wrong_figure("switch_cost", switch_cost),
        *(each for rates in forecast for each in wrong_rates(rates, least=-LARGEST)),
    ]
    refuse("this cannot be planned", wrong)
    most = {name: max(max(0.0, rates.get(name, 0.0)) for rates in forecast) for name in forecast[0]}
    options = [mix.active for mix in mixes(dataflow, most, *([running] if running else ()))]
    below = [causes(dataflow, active) for active in options]
    gammas = [dataflow.gamma(active) for active in options]
    steps = [
        [
            _step(active, gamma, cores_of(dataflow, rates, each), cores)
            for active, gamma, each in zip(options, gammas, below, strict=True)
        ]
        for rates in forecast
    ]
    changes = [[switch_cost * _changed(dataflow, one, other) for other in options] for one in options]
    first = [switch_cost * _changed(dataflow, running, active) if running else 0.0 for active in options]
    # The best score of each mix at an interval, and the mix before it.
    scores = [_score(step, omega, cores) - first[at] for at, step in enumerate(steps[0])]
    before: list[list[int]] = []
    for coming in steps[1:]:
        best = [
            max(range(len(options)), key=lambda old, at=at, scores=scores: scores[old] - changes[old][at])  # type: ignore[misc]
            for at in range(len(options))
        ]
        scores = [
            scores[best[at]] - changes[best[at]][at] + _score(step, omega, cores) for at, step in enumerate(coming)
        ]
        before.append(best)
    path = [max(range(len(options)), key=scores.__getitem__)]
    for best in reversed(before):
        path.append(best[path[-1]])
    return HorizonPlan(steps=tuple(step[at] for step, at in zip(steps, reversed(path), strict=True)))


def _step(active: Active, gamma: float, needed: float, cores: float) -> HorizonStep:
    served = min(1.0, cores / needed) if needed > 0 else 1.0
    return HorizonStep(active=active, gamma=gamma, omega=served, cores=needed)


def _score(step: HorizonStep, omega: float, cores: float) -> float:
    short = max(0.0, omega - step.omega)
    return step.gamma - _SHORT * short - _LOAD * step.cores / max(cores, 1e-9)


def _changed(dataflow: DataflowFigures, one: Active, other: Active) -> float:
    """The share of the tasks with a choice that are switched."""
    if not dataflow.dynamic:
        return 0.0
    return sum(one[at] != other[at] for at in dataflow.dynamic) / len(dataflow.dynamic)
