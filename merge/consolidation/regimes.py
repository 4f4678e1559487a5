"""Regimes: what sharing, packing and defragmenting save, by how much work a batch holds. Pure.

Cores are batches times the cost of one, and the work of the tasks. Sharing saves work, and the batches of jobs that it
spares, at the price of bridges. Packing saves batches and no work. Defragmenting saves the batches of jobs that sharing
left scattered, and their bridges. So the first counts where batches hold much work, and the others where they hold
little.
"""

import math
from dataclasses import dataclass, replace

LEAST = 1e-6
"""Seconds of work in a batch from which on a crossover is looked for, up to the pace."""
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Saves:
    """Cores that each of the three saves; below 0 where it costs more than it saves. Made by `Regime.saves`."""

    sharing: float
    packing: float
    defragmenting: float

    @property
    def most(self) -> str:
        """The one that saves most, by its name; empty where none saves anything.

        >>> Saves(sharing=0.1, packing=0.4, defragmenting=0.0).most
        'packing'
        """
        found = {"sharing": self.sharing, "packing": self.packing, "defragmenting": self.defragmenting}
        name = max(found, key=lambda each: found[each])
        return name if found[name] > 0.0 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """The properties of what runs that decide which of the three saves most."""

    dataflows: float
    """Where nothing is shared or packed each has a job of its own. A float, since it may be a mean."""
    work: float
    """Cores that their tasks take, where each dataflow has its own."""
    shared: float
    """Cores that they take where equal ones are shared."""
    jobs: float
    """Jobs that run what is shared."""
    spared: float = 0.0
    """How many fewer those are than the dataflows, because of sharing alone."""
    bridges: float = 0.0
    pace: float
    """Seconds between two batches of a job."""
    batch: float
    """Seconds of CPU that a batch costs whatever it holds."""
    bridge: float
    """Cores that a bridge takes."""

    @property
    def per_batch(self) -> float:
        """Seconds of work in a batch of a dataflow's own job."""
        return self.work * self.pace / self.dataflows if self.dataflows else 0.0

    @property
    def alone(self) -> float:
        """Cores that the dataflows take in a job each, sharing nothing; without what the host takes."""
        return self.dataflows * self.batch / self.pace + self.work

    @property
    def saves(self) -> Saves:
        """The saving of each of the three."""
        a_job = self.batch / self.pace
        bridged = self.bridges * self.bridge
        return Saves(
            sharing=self.work - self.shared + self.spared * a_job - bridged,
            packing=max(0.0, self.dataflows - self._fewest(self.work)) * a_job,
            defragmenting=max(0.0, self.jobs - self._fewest(self.shared)) * a_job + bridged,
        )

    @property
    def crossover(self) -> float | None:
        """The seconds of work in a batch from which on sharing saves more than packing.

        None where it does not even where a batch holds as much as its pace, beyond which no job keeps up.
        """
        if self.at(self.pace).ahead <= 0.0:
            return None
        low, high = math.log(LEAST), math.log(self.pace)
        # What sharing is ahead grows with the work, so there is one place where it changes sides.
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.at(math.exp(middle)).ahead > 0.0 else (middle, high)
        return math.exp(high)

    def at(self, per_batch: float) -> "Regime":
        """The same dataflows with another amount of work in a batch: more events, or tasks that cost more."""
        times = per_batch / self.per_batch if self.per_batch else 0.0
        return replace(self, work=self.work * times, shared=self.shared * times)

    @property
    def ahead(self) -> float:
        """Cores that sharing saves more than packing does."""
        found = self.saves
        return found.sharing - found.packing

    def _fewest(self, work: float) -> float:
        """The number of jobs for so much work, as each may be busy for half its pace."""
        room = (self.pace / 2 - self.batch) / self.pace
        return max(1.0, math.ceil(work / room)) if room > 0.0 else self.dataflows
