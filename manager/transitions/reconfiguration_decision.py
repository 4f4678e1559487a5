"""The decision of a reconfiguration: what is altered and forked, where, and how the jobs switch; pure."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from manager.transitions.scope import TransitionScope
from manager.transitions.state_fates import ReconfiguredTask, reconfigured_tasks
from merge import Assignment, Home, Instance, JobId, Jobs, RunningGraph
from merge.jobs import crossings
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
    """The tasks that change or are forked."""
    first: Instance
    """The first instance of its forks."""
    earlier: frozenset[Instance]
    """The tasks that were changed a moment ago."""
    scheduler: Scheduler

    @property
    def scope(self) -> TransitionScope:
        """The jobs whose plans change, and all tasks of its dataflows."""
        pairs = self.alteration.swaps
        return TransitionScope(
            jobs=self.settled.touches | self.switches.jobs.keys(),
            instances=frozenset(each for pair in pairs for dataflow in pair for each in dataflow.instances),
        )

    @property
    def watched(self) -> frozenset[Instance]:
        """The changed and copied tasks, and all below them, as they are after the switch."""
        by = self.alteration
        return frozenset(task.instance for task in by.alters) | {fork.task.instance for fork in by.forks}

    @property
    def changed(self) -> frozenset[Instance]:
        """The changed instances, as they are after the switch."""
        return frozenset(each.becomes.instance for each in self.tasks if each.is_changed)


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
    settled = settle(jobs, _placed(jobs, by), by.stops)
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
    )


def _placed(jobs: Jobs, by: Alteration) -> Assignment:
    """Each fork is placed where its origin runs, and a new source where it is read."""
    homes = {fork.task.instance: jobs.homes[fork.origin] for fork in by.forks if fork.origin is not None}
    for task in (*by.alters, *(fork.task for fork in by.forks)):
        for edge in task.inputs:
            parent = Instance(edge.parent)
            if parent not in homes and parent not in jobs.homes:
                homes[parent] = Home((homes.get(task.instance) or jobs.homes[task.instance]).job, 0.0)
    forks = tuple(fork.task for fork in by.forks)
    known: dict[Instance, JobId] = {instance: home.job for instance, home in homes.items()}
    for task in forks:
        for edge in task.inputs:
            known.setdefault(
                Instance(edge.parent), (homes.get(Instance(edge.parent)) or jobs.homes[Instance(edge.parent)]).job
            )
    return Assignment(
        base=jobs.version,
        places=tuple(sorted(homes.items())),
        crossings=crossings(forks, known),
    )
