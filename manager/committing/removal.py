"""What removing a dataflow would do, by the same decisions as removing it, and nothing of it done."""

from dataclasses import dataclass

from bridge.emitted import Stream
from manager.committing.state import State
from merge import Instance, release, unmerge


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What a removal would do; made by `foretell_removal`."""

    stops: frozenset[Instance]
    """What nobody else needs."""
    streams: tuple[Stream, ...]
    """What would not be forwarded between jobs any more."""


def foretell_removal(state: State, dataflow: str) -> Removal:
    """What removing a dataflow would stop, by the id that the running graph has."""
    stops = unmerge(state.running, dataflow).stops
    released = release(stops, state.jobs)
    after = state.jobs.apply(released).leaving
    fewer = {bridge for bridge, _ in released.crossings}
    left = {bridge for parent in {bridge.parent for bridge in fewer} for bridge in after.get(parent, ())}
    ending = {bridge[:2] for bridge in fewer} - {bridge[:2] for bridge in left}
    return Removal(
        stops=frozenset(task.instance for task in stops),
        # Raw events come to every job that reads them; nobody forwards them.
        streams=tuple(sorted(Stream(*each) for each in ending if state.running.tasks[Instance(each[0])].inputs)),
    )
