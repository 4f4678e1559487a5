"""Profit: what value is worth in money, and how much is left of it.

The form is the thesis' with its sign put right: Theta = Gamma - sigma * (cost - C_max) - Gamma_max. So Theta is 0 at
both break-even points that a user names, as the thesis describes it; its "+ 1" would make that 2. Gamma is the mean
over the tasks that have a choice: over all tasks, as the thesis writes it, Theta could not reach its figures.
"""

from dataclasses import dataclass

from provisioning.dataflow_figures import DataflowFigures
from provisioning.figures import SMALLEST, refuse, wrong_figure


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfitGoal:
    """What shall be reached over a period."""

    omega: float = 0.8
    """The least relative throughput."""
    tolerance: float = 0.05
    """How far it may be off that."""
    hours: float = 12.0
    """The period that costs are counted over."""
    best_cost: float
    """What the best alternates may cost over the period before they are not worth it."""
    least_cost: float
    """What the worst alternates may cost."""

    def __post_init__(self) -> None:
        """Refuse goals that no deployment can be judged by."""
        wrong = [
            *wrong_figure("omega", self.omega, least=SMALLEST, most=1.0),
            *wrong_figure("tolerance", self.tolerance),
        ]
        wrong += [
            *wrong_figure("hours", self.hours, least=SMALLEST),
            *wrong_figure("best_cost", self.best_cost),
        ]
        refuse("this is no goal", [*wrong, *wrong_figure("least_cost", self.least_cost)])
        if not (0 < self.omega <= 1 and 0 <= self.tolerance < self.omega and self.hours > 0):
            raise ValueError("a goal needs 0 < omega <= 1, a tolerance below omega, and some hours")
        if not 0 <= self.least_cost < self.best_cost:
            raise ValueError("the best alternates must be worth more money than the worst ones")

    def sigma(self, dataflow: DataflowFigures) -> float:
        """What a unit of money is worth in value; without a choice, as if all value were worth the best cost."""
        spread = dataflow.most_gamma() - dataflow.least_gamma()
        return spread / (self.best_cost - self.least_cost) if spread > 0 else 1.0 / self.best_cost

    def theta(self, dataflow: DataflowFigures, gamma: float, cost: float) -> float:
        """The profit of a mean value and the cost over the period; 0 is break-even."""
        return gamma - self.sigma(dataflow) * (cost - self.best_cost) - dataflow.most_gamma()

    def met(self, omega: float) -> bool:
        """Whether a relative throughput is enough, within the tolerance."""
        return omega >= self.omega - self.tolerance - 1e-9
