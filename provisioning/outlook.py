"""The outlook: what an algorithm knows at the start of an interval, of now, before and after.

Predictions are clamped where they enter: no rate is below 0, and no machine slower than a tenth of its rated speed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from provisioning.dataflow_figures import DataflowFigures
from provisioning.deployment import Deployment
from provisioning.machine_class import MachineClass
from provisioning.profit import ProfitGoal

Rates = Mapping[str, float]
"""Events a second at each task that takes from outside."""
Speeds = Mapping[int, float]
"""The speed of a core of each rental, by its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is known when the next interval begins."""

    dataflow: DataflowFigures
    goal: ProfitGoal
    classes: tuple[MachineClass, ...]
    deployment: Deployment
    now: float
    step: int
    """Counts the intervals."""
    interval: float
    """Seconds."""
    omega: float
    """The relative throughput of the last interval."""
    mean_omega: float
    """The mean relative throughput of all intervals before."""
    past_rates: tuple[Rates, ...]
    """What was seen in the last intervals, the newest last."""
    past_speeds: tuple[Speeds, ...]
    coming_rates: tuple[Rates, ...]
    """What is predicted for the coming intervals, the next first."""
    coming_speeds: tuple[Speeds, ...]

    @property
    def rates(self) -> Rates:
        """The rates that were seen last."""
        return self.past_rates[-1]

    @property
    def speeds(self) -> Speeds:
        """The speeds that were seen last."""
        return self.past_speeds[-1]

    def below(self, omega: float) -> bool:
        """Whether a relative throughput is too low, tolerance considered."""
        return omega <= self.goal.omega - self.goal.tolerance

    def above(self, omega: float) -> bool:
        """Whether a relative throughput is higher than needed, tolerance considered."""
        return omega >= self.goal.omega + self.goal.tolerance


Adaptation = Callable[[Outlook], Deployment]
"""An algorithm at run time: the deployment for the next interval."""


def unchanged(outlook: Outlook) -> Deployment:
    """What runs, whatever comes: a static deployment."""
    return outlook.deployment
