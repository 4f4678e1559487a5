"""The decision of a reconfiguration: what is altered and forked, where, and how the jobs switch; pure."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from manager.planner import public_id
from manager.transitions.reconfiguration_places import mixed, placed, scattered
from manager.transitions.scope import TransitionScope
from manager.transitions.state_fates import ReconfiguredTask, reconfigured_tasks
from merge import Instance, Jobs, RunningGraph
from merge.reconfiguration.alteration import Alteration, Edit, alteration
from merge.reconfiguration.switches import Scheduler, Switches, switches
from merge.step import Settled, settle


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigurationDecision:
    """All that a reconfiguration does; made by `decide_reconfiguration`."""

    edits: tuple[Edit, ...]
    alteration: Alteration
    settled: Settled
    """The jobs after it."""
    switches: Switches
    tasks: tuple[ReconfiguredTask, ...]
    """The tasks that change, are forked or are fed otherwise."""
    first: Instance
    """The first instance of its forks."""
    earlier: frozenset[Instance]
    """The tasks that were changed a moment ago."""
    scheduler: Scheduler
    scattered: frozenset[Instance]
    """The tasks below which none can come or go, because another job would begin or cease to read their streams."""
    mixed: frozenset[Instance]
    """The tasks that would bring code of an owner into a job with code of another."""

    @property
    def scope(self) -> TransitionScope:
        """The jobs whose plans change, and all tasks of its dataflows."""
        pairs = self.alteration.swaps
        return TransitionScope(
            jobs=self.settled.touches | self.switches.jobs.keys(),
            instances=frozenset(each for pair in pairs for dataflow in pair for each in dataflow.instances),
            dataflows=frozenset(public_id(old.id) for old, _ in pairs),
        )

    @property
    def watched(self) -> frozenset[Instance]:
        """The changed and copied tasks, and all below them, as they are after the switch."""
        by = self.alteration
        return frozenset(task.instance for task in by.alters) | {fork.task.instance for fork in by.forks}

    @property
    def changed(self) -> frozenset[Instance]:
        """The instances that change, are inserted or fed otherwise, as they are after the switch."""
        by = self.alteration
        changed = frozenset(each.becomes.instance for each in self.tasks if each.is_changed)
        return changed | by.rewired | {task.instance for task in by.inserted}


def decide_reconfiguration(  # noqa: PLR0913 - what runs, what is to change, and what is known already
    running: RunningGraph,
    jobs: Jobs,
    edits: Sequence[Edit],
    now: datetime,
    *,
    fresh: AbstractSet[str],
    earlier: AbstractSet[Instance],
    scheduler: Scheduler = Scheduler.FRIES,
    first: Instance | None = None,
) -> ReconfigurationDecision:
    """Decide a reconfiguration. The states of the tasks in `fresh` are dropped, `first` is reserved for its forks.

    `earlier` are the tasks that were changed a moment ago.
    """
    by = alteration(running, edits, now, first=first)
    settled = settle(jobs, placed(running, jobs, by), by.stops)
    anew = frozenset(new.places[task] for _, new in by.swaps for task in fresh if task in new.places)
    return ReconfigurationDecision(
        edits=tuple(edits),
        alteration=by,
        settled=settled,
        switches=switches(running, jobs, by, earlier=earlier, scheduler=scheduler),
        tasks=reconfigured_tasks(running, by, anew),
        first=running.next_instance if first is None else first,
        earlier=frozenset(earlier),
        scheduler=scheduler,
        scattered=scattered(running, settled.between, by),
        mixed=mixed(running, settled.jobs, by),
    )
