"""A preview of a removal, by the same decisions; nothing is changed."""

from dataclasses import dataclass

from bridge.emitted import Stream
from manager.committed.state import CommittedState
from merge import Instance, release, unmerge


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPreview:
    """The outcome of a removal; made by `preview_removal`."""

    stops: frozenset[Instance]
    """The tasks that nobody else needs."""
    streams: tuple[Stream, ...]
    """The streams that would not be forwarded between jobs any more."""


def preview_removal(state: CommittedState, dataflow: str) -> RemovalPreview:
    """The tasks and streams that end with a dataflow, given by the running graph's id."""
    stops = unmerge(state.running, dataflow).stops
    released = release(stops, state.jobs)
    after = state.jobs.apply(released).leaving
    fewer = {bridge for bridge, _ in released.crossings}
    left = {bridge for parent in {bridge.parent for bridge in fewer} for bridge in after.get(parent, ())}
    ending = {bridge[:2] for bridge in fewer} - {bridge[:2] for bridge in left}
    return RemovalPreview(
        stops=frozenset(task.instance for task in stops),
        # Raw events come to every job that reads them; nobody forwards them.
        streams=tuple(sorted(Stream(*each) for each in ending if state.running.tasks[Instance(each[0])].inputs)),
    )
