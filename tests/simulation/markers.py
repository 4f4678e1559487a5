"""Markers travel in the streams, and jobs switch where they lie: the base of two schedulers, and the simpler one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.simulation.schedulers import Reconfiguration, Scheduler
from tests.simulation.world import Marker, World


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
