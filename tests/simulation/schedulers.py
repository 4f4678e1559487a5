"""Schedulers: each decides at which batch of which job a changed task switches.

`Naive` coordinates nothing. `StopAndRestart` stops all jobs at one cut. `Versions` keeps every configuration, and lets
the source of an event choose. The schedulers of `markers.py` let markers travel in the streams.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass

from tests.simulation.world import Event, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguration:
    """Tasks that get a new configuration together."""

    name: str
    changed: frozenset[str]


class Scheduler(ABC):
    """The base: jobs read all there is, and tasks work with the last reconfiguration that they got."""

    def __init__(self, world: World) -> None:
        self.world = world

    @abstractmethod
    def request(self, wanted: Reconfiguration) -> None:
        """Begin a reconfiguration, now or as soon as possible."""

    @abstractmethod
    def between(self, job: str) -> None:
        """Do what is due before a job's next batch."""

    @abstractmethod
    def ended(self) -> bool:
        """Nothing that was requested is still under way."""

    def end(self, _job: str, spool: str) -> int:
        """The place in a spool up to which a job may read."""
        return len(self.world.spools[spool])

    def version(self) -> int:
        """The version of the next event of a source."""
        return 0

    def configuration(self, task: str, _event: Event) -> str | None:
        """The configuration with which a task works on an event."""
        got = self.world.applied[task]
        return got[-1] if got else None

    def switch(self, wanted: Reconfiguration, *jobs: str) -> None:
        """Give the changed tasks of some jobs their new configuration."""
        for task in sorted(wanted.changed):
            if self.world.graph.jobs[task] in jobs:
                self.world.applied[task].append(wanted.name)


class Naive(Scheduler):
    """Each job switches its tasks at its next batch."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._due: defaultdict[str, list[Reconfiguration]] = defaultdict(list)

    def request(self, wanted: Reconfiguration) -> None:
        for job in self.world.jobs:
            self._due[job].append(wanted)

    def between(self, job: str) -> None:
        for wanted in self._due.pop(job, ()):
            self.switch(wanted, job)

    def ended(self) -> bool:
        return not self._due


class StopAndRestart(Scheduler):
    """All jobs read the sources up to one cut, empty the bridges, and switch; then they read on."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._wanted: list[Reconfiguration] = []
        self._cut: dict[str, int] = {}

    def request(self, wanted: Reconfiguration) -> None:
        self._wanted.append(wanted)
        if not self._cut:
            self._cut = {source: len(self.world.spools[source]) for source in self.world.graph.sources}

    def between(self, _job: str) -> None:
        read = all(place == self.end(job, spool) for (job, spool), place in self.world.positions.items())
        if self._wanted and read:
            for wanted in self._wanted:
                self.switch(wanted, *self.world.jobs)
            self._wanted, self._cut = [], {}

    def ended(self) -> bool:
        return not self._wanted

    def end(self, _job: str, spool: str) -> int:
        return self._cut.get(spool, len(self.world.spools[spool]))


class Versions(Scheduler):
    """Tasks keep all configurations; once each job has the new ones, sources ask for them, event by event."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._wanted: list[Reconfiguration] = []
        self._known = dict.fromkeys(world.jobs, 0)

    def request(self, wanted: Reconfiguration) -> None:
        self._wanted.append(wanted)
        self.switch(wanted, *self.world.jobs)

    def between(self, job: str) -> None:
        self._known[job] = len(self._wanted)

    def ended(self) -> bool:
        return self.version() == len(self._wanted)

    def version(self) -> int:
        return min(self._known.values())

    def configuration(self, task: str, event: Event) -> str | None:
        got = [wanted.name for wanted in self._wanted[: event.version] if task in wanted.changed]
        return got[-1] if got else None
