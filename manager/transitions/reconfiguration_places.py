"""The places of what a reconfiguration starts: of forks, of sources, and of tasks that are inserted; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from merge import ASSUMED_BUSY, Assignment, Bridge, Home, Instance, JobId, Jobs, RunningGraph, RunningTask
from merge.jobs import crossings
from merge.placement.trust import owner_of, owners_of, trusted
from merge.reconfiguration.alteration import Alteration


def placed(running: RunningGraph, jobs: Jobs, by: Alteration) -> Assignment:
    """The assignment of an alteration; `running` and `jobs` are those before it.

    Each fork is placed where its origin runs, a new source where it is read, and an inserted task with those it feeds.
    """
    homes = {fork.task.instance: jobs.homes[fork.origin] for fork in by.forks if fork.origin is not None}
    after = (*by.alters, *(fork.task for fork in by.forks))
    feeds: dict[Instance, list[Instance]] = {}
    for task in after:
        for edge in task.inputs:
            feeds.setdefault(Instance(edge.parent), []).append(task.instance)

    def home(instance: Instance) -> Home:
        return homes.get(instance) or jobs.homes[instance]

    for task in reversed(by.inserted):
        homes[task.instance] = Home(min(home(child).job for child in feeds[task.instance]), ASSUMED_BUSY)
    for task in after:
        for edge in task.inputs:
            parent = Instance(edge.parent)
            if parent not in homes and parent not in jobs.homes:
                homes[parent] = Home(home(task.instance).job, 0.0)
    return Assignment(
        base=jobs.version,
        places=tuple(sorted(homes.items())),
        crossings=_crossed(running, by, {instance: each.job for instance, each in homes.items()}, jobs),
    )


def scattered(running: RunningGraph, between: Jobs, by: Alteration) -> frozenset[Instance]:
    """The tasks that stay and of which another job would begin or cease to read, because others come or go below them.

    A job would have to begin where the marker lies in the stream, and nobody knows that beforehand. One that ceased
    would have to begin if this were undone.
    """
    found: set[Instance] = set()
    after = {task.instance: task for task in (*by.alters, *(fork.task for fork in by.forks))}
    for old, new in by.swaps:
        if old.task_ids != new.task_ids:
            was = old.places
            stays = {instance for task, instance in new.places.items() if was.get(task) == instance}
            one = _entering((running.tasks[each] for each in old.instances), stays, running, between)
            other = _entering(
                (after.get(each) or running.tasks[each] for each in new.instances), stays, running, between
            )
            found |= {bridge.parent for bridge in one ^ other}
    return frozenset(found)


def mixed(running: RunningGraph, after: Jobs, by: Alteration) -> frozenset[Instance]:
    """The tasks that would bring code of an owner into a job with code of another."""
    changed = {task.instance: task for task in (*by.alters, *(fork.task for fork in by.forks))}
    bring = [
        instance
        for instance, task in changed.items()
        if owner_of(task) and (instance not in running.tasks or owner_of(running.tasks[instance]) != owner_of(task))
    ]
    members: dict[JobId, list[RunningTask]] = {after.homes[instance].job: [] for instance in bring}
    for instance, home in after.homes.items() if members else ():
        if home.job in members:
            members[home.job].append(changed.get(instance) or running.tasks[instance])
    return frozenset(instance for instance in bring if not trusted(owners_of(members[after.homes[instance].job])))


def _entering(
    tasks: Iterable[RunningTask], stays: AbstractSet[Instance], running: RunningGraph, jobs: Jobs
) -> frozenset[Bridge]:
    """The streams from tasks that stay into other jobs; raw ones enter wherever they are read."""
    found = (
        Bridge(Instance(edge.parent), edge.parent_port, jobs.homes[task.instance].job)
        for task in tasks
        for edge in task.inputs
        if edge.parent in stays
    )
    return frozenset(
        bridge
        for bridge in found
        if not running.tasks[bridge.parent].inputs or jobs.homes[bridge.parent].job != bridge.to
    )


def _crossed(
    running: RunningGraph, by: Alteration, new: Mapping[Instance, JobId], jobs: Jobs
) -> tuple[tuple[Bridge, int], ...]:
    """The bridges of what starts, and the difference where a task that goes on is fed otherwise."""
    forks = [fork.task for fork in by.forks]
    alters = [task for task in by.alters if task.instance in by.rewired]
    before = [running.tasks[task.instance] for task in alters]
    known = _homes((*forks, *alters, *before), new, jobs)
    found: Counter[Bridge] = Counter()
    for each, sign in ((forks, 1), (alters, 1), (before, -1)):
        found.update(dict(crossings(each, known, sign)))
    return tuple(sorted((bridge, more) for bridge, more in found.items() if more))


def _homes(tasks: Iterable[RunningTask], new: Mapping[Instance, JobId], jobs: Jobs) -> Mapping[Instance, JobId]:
    named = {each for task in tasks for each in (task.instance, *(Instance(edge.parent) for edge in task.inputs))}
    return {instance: new[instance] if instance in new else jobs.homes[instance].job for instance in named}
