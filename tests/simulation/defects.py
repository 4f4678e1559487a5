"""Schedulers that each leave out one thing which consistency needs; some schedule must show it."""

from merge import Component, components
from tests.simulation.fries import Fries, Planned
from tests.simulation.graphs import Kind
from tests.simulation.markers import Alignment
from tests.simulation.schedulers import Reconfiguration


class OneToOne(Fries):
    """Takes every task to be one-to-one."""

    def components(self, changed: frozenset[str]) -> tuple[Component, ...]:
        return components(self.world.graph.streams, changed)


class Presuming(Fries):
    """Takes a task for unique that emits one event at most for each that it takes, although several of one may come."""

    def unique(self) -> frozenset[str]:
        return super().unique() | self.world.graph.of_kind(Kind.MAP)


class Unaligned(Fries):
    """Switches at the first marker, not the last."""

    def ready(self, alignment: Alignment, job: str) -> bool:
        streams = alignment.awaited[job]
        return not streams or any(self.world.next_entry(job, stream) == alignment.marker for stream in streams)


class Unmarked(Fries):
    """Puts no markers into sources: each job switches at its own position."""

    def awaited(self, part: Component) -> dict[str, frozenset[str]]:
        sources = self.world.graph.sources
        return {job: streams.difference(sources) for job, streams in super().awaited(part).items()}


class Forgetful(Fries):
    """Covers only the tasks that a reconfiguration itself changes."""

    def covered(self, wanted: Reconfiguration) -> frozenset[str]:
        return wanted.changed


class Impatient(Fries):
    """Waits for no other reconfiguration."""

    def blocked(self, _planned: Planned, _busy: set[str]) -> bool:
        return False
