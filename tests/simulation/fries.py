"""The scheduler of Fries between jobs: markers stay within the components of a reconfiguration."""

from dataclasses import dataclass, replace

from merge.reconfiguration.covering import Component, components
from tests.simulation.graphs import Kind
from tests.simulation.markers import Alignment, Markers
from tests.simulation.schedulers import Reconfiguration
from tests.simulation.world import Marker, World


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
