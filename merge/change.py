"""The change of the running graph by a merge or an unmerge, as data. Nothing acts before it is applied."""

from dataclasses import dataclass

from merge.running_dags import RunningDags
from merge.task import Instance, RunningTask, Submitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step of the running graph; made by `merge`, `unmerge` and `swap`, applied by `RunningGraph.advance`."""

    base: int
    """The version of the running graph that it was computed from."""
    submitted: Submitted | None = None
    """The dataflow that arrives."""
    removed: Submitted | None = None
    """The dataflow that goes."""
    starts: tuple[RunningTask, ...] = ()
    """The residue: what nothing running can supply. Each after its parents."""
    reuses: tuple[Instance, ...] = ()
    """What already runs and serves the dataflow too."""
    releases: tuple[Instance, ...] = ()
    """What runs on, for others only."""
    stops: tuple[RunningTask, ...] = ()
    """What nobody needs any more. Each before its parents."""
    running_dags: RunningDags
    """The running DAGs afterwards."""
    next_instance: Instance

    @property
    def residue(self) -> tuple[Instance, ...]:
        """The instances that start."""
        return tuple(task.instance for task in self.starts)
