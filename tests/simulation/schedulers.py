"""Schedulers: each decides at which batch of which job a changed task switches, by markers or without.

`Naive` coordinates nothing. `StopAndRestart` stops all jobs at one cut. `Versions` keeps every configuration, and lets
the source of an event choose. The schedulers of `markers.py` let markers travel in the streams.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from merge.reconfiguration.covering import Component, components
from tests.simulation.world import Event, Kind, Marker, World


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


@dataclass(slots=True, kw_only=True)
class Alignment:
    """Jobs that switch where one kind of marker lies."""

    marker: Marker
    wanted: Reconfiguration
    awaited: Mapping[str, frozenset[str]]
    """The jobs, each with the streams in which it awaits the marker."""
    left: set[str] = field(init=False)
    """The jobs that have not switched yet."""

    def __post_init__(self) -> None:
        self.left = set(self.awaited)

    def marked(self) -> frozenset[str]:
        """The sources and tasks whose streams carry the marker."""
        return frozenset[str]().union(*self.awaited.values())


class Markers(Scheduler):
    """Jobs switch between two batches, as soon as they have read all streams that they await up to the marker.

    Until then they hold a stream at its marker, and read the others on. Where a job switches it puts the marker into
    those of its own streams in which other jobs await it.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.under_way: list[Alignment] = []

    def start(self, alignment: Alignment) -> None:
        """Put the marker into sources, ahead of all readers, and let jobs switch."""
        self.under_way.append(alignment)
        self._mark(alignment, self.world.graph.sources)

    def between(self, job: str) -> None:
        for alignment in self.under_way:
            if job in alignment.left and self.ready(alignment, job):
                self.switch(alignment.wanted, job)
                alignment.left.remove(job)
                self._mark(alignment, self.world.graph.of(job))
        self.under_way = [alignment for alignment in self.under_way if alignment.left]

    def ready(self, alignment: Alignment, job: str) -> bool:
        """All markers that a job awaits lie directly ahead."""
        return all(self.world.next_entry(job, stream) == alignment.marker for stream in alignment.awaited[job])

    def end(self, job: str, spool: str) -> int:
        waiting = [each for each in self.under_way if job in each.left and spool in each.awaited[job]]
        held = {alignment.marker for alignment in waiting}
        entries = self.world.spools[spool]
        places = range(self.world.positions[job, spool], len(entries))
        return next((place for place in places if entries[place] in held), len(entries))

    def ended(self) -> bool:
        return not self.under_way

    def _mark(self, alignment: Alignment, producers: Iterable[str]) -> None:
        for producer in alignment.marked().intersection(producers):
            self.world.spools[producer].append(alignment.marker)


class Epoch(Markers):
    """The markers of each reconfiguration go from all sources through all streams."""

    def request(self, wanted: Reconfiguration) -> None:
        awaited = {job: frozenset(streams) for job, streams in self.world.inputs.items()}
        self.start(Alignment(marker=Marker(wanted.name, 0), wanted=wanted, awaited=awaited))


@dataclass(slots=True, kw_only=True)
class Planned:
    """A reconfiguration, with an alignment for each component."""

    wanted: Reconfiguration
    alignments: tuple[Alignment, ...]
    started: bool = False
    ended_before: int | None = None
    """The first event that came after it had ended; older ones may have met it half."""

    def jobs(self) -> frozenset[str]:
        """The jobs that switch, or only pass markers on."""
        return frozenset[str]().union(*(alignment.awaited for alignment in self.alignments))


class Fries(Markers):
    """The jobs of a component switch in step, beginning with those that no other one of it feeds.

    Two rules hold between reconfigurations. Those that share a job wait for each other. And a component also covers the
    tasks that earlier reconfigurations changed, until all events are gone that may have met those unchanged.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.planned: list[Planned] = []

    def request(self, wanted: Reconfiguration) -> None:
        parts = [part for part in self.components(self.covered(wanted)) if part.scope & wanted.changed]
        alignments = tuple(
            Alignment(
                marker=Marker(wanted.name, number),
                wanted=replace(wanted, changed=wanted.changed & part.scope),
                awaited=self.awaited(part),
            )
            for number, part in enumerate(parts)
        )
        self.planned.append(Planned(wanted=wanted, alignments=alignments))
        self._go_on()

    def between(self, job: str) -> None:
        super().between(job)
        self._go_on()

    def ended(self) -> bool:
        return all(planned.ended_before is not None for planned in self.planned)

    def covered(self, wanted: Reconfiguration) -> frozenset[str]:
        """The changed tasks, and those of earlier reconfigurations that events may still have met unchanged."""
        oldest = self.world.oldest()
        earlier = [each for each in self.planned if each.ended_before is None or oldest < each.ended_before]
        return wanted.changed.union(*(planned.wanted.changed for planned in earlier))

    def components(self, changed: frozenset[str]) -> tuple[Component, ...]:
        """The components of a change; a stream that several tasks read makes its producer one-to-many."""
        graph = self.world.graph
        splits, duplicating = graph.of_kind(Kind.SPLIT), graph.duplicating()
        return components(
            graph.streams,
            changed,
            one_to_many=splits | duplicating,
            per_edge=duplicating - splits,
            unique=self.unique(),
        )

    def unique(self) -> frozenset[str]:
        """The tasks that emit at most one event for an event of a source; each that reads it gets a copy."""
        return self.world.graph.of_kind(Kind.ONCE)

    def awaited(self, part: Component) -> dict[str, frozenset[str]]:
        """The jobs of a component, each with the streams within it that come from outside the job.

        A source needs a marker only if several jobs read it within the component; a single one begins where it is.
        """
        jobs = self.world.graph.jobs
        within = [stream for stream in self.world.graph.streams if part.scope.issuperset(stream)]
        awaited: dict[str, set[str]] = {jobs[task]: set() for task in part.scope if task in jobs}
        for producer, consumer in within:
            readers = {jobs[task] for known, task in within if known == producer}
            if jobs.get(producer) != jobs[consumer] and (producer in jobs or len(readers) > 1):
                awaited[jobs[consumer]].add(producer)
        return {job: frozenset(streams) for job, streams in awaited.items()}

    def blocked(self, planned: Planned, busy: set[str]) -> bool:
        """An earlier reconfiguration has to end first."""
        return not busy.isdisjoint(planned.jobs())

    def _go_on(self) -> None:
        busy: set[str] = set()
        for planned in self.planned:
            if planned.ended_before is None and not any(alignment.left for alignment in planned.alignments):
                planned.ended_before = self.world.arrived
            if planned.ended_before is None:
                if not planned.started and not self.blocked(planned, busy):
                    planned.started = True
                    for alignment in planned.alignments:
                        self.start(alignment)
                busy |= planned.jobs()
