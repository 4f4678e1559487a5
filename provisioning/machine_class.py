"""Machines: the classes that can be rented, and those that are.

A rental is paid by started hours from the moment it is ordered, and works once it has started.
"""

import math
from dataclasses import dataclass

from provisioning.figures import SMALLEST, refuse, wrong_figure

HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineClass:
    """One kind of machine that can be rented. Raises `ValueError` for figures that no machine can have."""

    name: str
    cores: int
    speed: float = 1.0
    """How fast a core is, by the reference core."""
    price: float
    """For a started hour."""
    bandwidth: float = math.inf
    """Bytes a second to and from other machines."""
    start_seconds: float = 0.0
    """How long a machine takes from the order until it works."""
    tags: frozenset[str] = frozenset()
    """What it offers."""

    def __post_init__(self) -> None:
        """Refuse figures that no machine can have; its network alone may be without a limit."""
        wrong = [
            *wrong_figure("cores", self.cores, least=1),
            *wrong_figure("speed", self.speed, least=SMALLEST),
        ]
        wrong += [*wrong_figure("price", self.price), *wrong_figure("start_seconds", self.start_seconds)]
        wrong += wrong_figure("bandwidth", self.bandwidth, least=SMALLEST, most=math.inf)
        refuse(f"no machine class {self.name!r} can be", wrong)

    @property
    def power(self) -> float:
        """All its cores, as reference cores."""
        return self.cores * self.speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rental:
    """A machine since it was ordered."""

    number: int
    """Never used again."""
    machine_class: MachineClass
    since: float = 0.0

    @property
    def ready_at(self) -> float:
        """The moment from which it works."""
        return self.since + self.machine_class.start_seconds

    def cost(self, until: float) -> float:
        """What it costs if it ends then: each started hour."""
        return started_hours(until - self.since) * self.machine_class.price

    def paid_left(self, now: float) -> float:
        """Seconds until another hour is to be paid; an hour that just ended leaves none."""
        return started_hours(now - self.since) * HOUR - (now - self.since)


def started_hours(seconds: float) -> int:
    """The hours that are paid for so long a time, at least one."""
    # A clock adds up in floats, so the hour has ended a little earlier or later.
    return max(1, math.ceil(seconds / HOUR - 1e-9))
