"""The decision of a reconfiguration: what is altered and forked, where it runs, and what becomes of states. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from dags import Problem, StateFate, fate
from dags.problems import listed, pointer
from dags.vocabulary import Scheduler
from engine.plan import FormerTask, StateChange
from manager.kernel.transitions import TransitionScope
from manager.planner import public_id
from merge import (
    ASSUMED_BUSY,
    Assignment,
    Bridge,
    Home,
    Host,
    Instance,
    JobId,
    Jobs,
    RunningGraph,
    RunningTask,
    TooManyStreams,
)
from merge.jobs import crossings
from merge.placement.board import owner_of, owners_of, trusted
from merge.reconfiguration.alteration import Alteration, Edit, alteration, is_changed
from merge.reconfiguration.switches import Switches, switches
from merge.step import Settled, check_streams, settle


class ReconfiguredTask(NamedTuple):
    """A task that changes, is forked or fed otherwise, and the fate of its state."""

    was: RunningTask
    becomes: RunningTask
    is_forked: bool
    """Whether it gets an instance of its own."""
    is_changed: bool
    """Whether its type, version or config changes."""
    fate: StateFate | None
    """None if its type does not declare it. An undo drops such a state."""
    change: StateChange | None
    """What its plan says of its state; None if that is simply kept."""


def reconfigured_tasks(
    running: RunningGraph, by: Alteration, fresh: AbstractSet[Instance]
) -> Iterator[ReconfiguredTask]:
    """The tasks that change, are forked or fed otherwise; `running` is the graph before.

    Tasks in `fresh` lose their states.
    """
    pairs = [(running.tasks[task.instance], task) for task in by.alters]
    pairs += [(running.tasks[fork.origin], fork.task) for fork in by.forks if fork.origin is not None]
    for was, becomes in pairs:
        instance, differs = becomes.instance, is_changed(was, becomes)
        is_forked = was.instance != instance
        if not (is_forked or differs or instance in by.unfit or instance in by.rewired):
            continue
        kept = None if instance in by.unfit else fate(was.type, was.config, becomes.type, becomes.config)
        if instance in fresh:
            kept = StateFate.FRESH
        change = former = None
        if kept is StateFate.TRANSFORMED:
            config = json.dumps(was.config, separators=(",", ":"))
            former = FormerTask(type=was.type.name, version=was.type.version, config=config)
        if is_forked or kept is not StateFate.KEPT:
            source = was.instance if is_forked else None
            is_dropped = kept in {StateFate.FRESH, None}
            change = StateChange(instance=instance, source=source, former=former, fresh=is_dropped)
        yield ReconfiguredTask(was, becomes, is_forked, differs, kept, change)


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
    # The bridges of what starts, and the difference where a task that goes on is fed otherwise.
    forks, rewired = [fork.task for fork in by.forks], [task for task in by.alters if task.instance in by.rewired]
    before = [running.tasks[task.instance] for task in rewired]
    tasks = (*forks, *rewired, *before)
    named = {Instance(end) for task in tasks for end in (task.instance, *(edge.parent for edge in task.inputs))}
    known = {instance: home(instance).job for instance in named}
    counts: Counter[Bridge] = Counter()
    for changing, sign in ((forks, 1), (rewired, 1), (before, -1)):
        counts.update(dict(crossings(changing, known, sign)))
    return Assignment(
        base=jobs.version,
        places=tuple(sorted(homes.items())),
        crossings=tuple(sorted((bridge, more) for bridge, more in counts.items() if more)),
    )


def scattered(running: RunningGraph, between: Jobs, by: Alteration) -> frozenset[Instance]:
    """The tasks that stay and of which another job would begin or cease to read, because others come or go below them.

    A job would have to begin where the marker lies in the stream, and nobody knows that beforehand. One that ceased
    would have to begin if this were undone.
    """
    parents: set[Instance] = set()
    after = {task.instance: task for task in (*by.alters, *(fork.task for fork in by.forks))}
    for old, new in by.swaps:
        if old.task_ids != new.task_ids:
            was = old.places
            stays = {instance for task, instance in new.places.items() if was.get(task) == instance}
            one = _entering((running.tasks[instance] for instance in old.instances), stays, running, between)
            other = _entering(
                (after.get(instance) or running.tasks[instance] for instance in new.instances), stays, running, between
            )
            parents |= {bridge.parent for bridge in one ^ other}
    return frozenset(parents)


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
    bridges = (
        Bridge(Instance(edge.parent), edge.parent_port, jobs.homes[task.instance].job)
        for task in tasks
        for edge in task.inputs
        if edge.parent in stays
    )
    return frozenset(
        bridge
        for bridge in bridges
        if not running.tasks[bridge.parent].inputs or jobs.homes[bridge.parent].job != bridge.to
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedEdits:
    """The edits and wishes that a reconfiguration is decided by, beside what runs."""

    edits: tuple[Edit, ...]
    fresh: frozenset[str]
    """The tasks whose states are dropped."""
    earlier: frozenset[Instance]
    """The tasks that were changed a moment ago."""
    scheduler: Scheduler = Scheduler.FRIES
    first: Instance | None = None
    """The first instance of its forks, if it is reserved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigurationDecision:
    """All that a reconfiguration does."""

    asked: AskedEdits
    """With what is reserved, so that it can be decided anew."""
    alteration: Alteration
    settled: Settled
    """The jobs after it."""
    switches: Switches
    tasks: tuple[ReconfiguredTask, ...]
    """The tasks that change, are forked or are fed otherwise."""
    scattered: frozenset[Instance]
    """The tasks below which none can come or go, because another job would begin or cease to read their streams."""
    mixed: frozenset[Instance]
    """The tasks that would bring code of an owner into a job with code of another."""
    scope: TransitionScope
    """The jobs whose plans change, and all tasks of its dataflows."""


def decide_reconfiguration(
    running: RunningGraph, jobs: Jobs, asked: AskedEdits, now: datetime
) -> ReconfigurationDecision:
    """Decide a reconfiguration."""
    by = alteration(running, asked.edits, now, first=asked.first)
    settled = settle(jobs, placed(running, jobs, by), by.stops)
    switching = switches(running, jobs, by, earlier=asked.earlier, scheduler=asked.scheduler)
    anew = frozenset(new.places[task] for _, new in by.swaps for task in asked.fresh if task in new.places)
    return ReconfigurationDecision(
        asked=replace(asked, first=running.next_instance if asked.first is None else asked.first),
        alteration=by,
        settled=settled,
        switches=switching,
        tasks=tuple(reconfigured_tasks(running, by, anew)),
        scattered=scattered(running, settled.between, by),
        mixed=mixed(running, settled.jobs, by),
        scope=TransitionScope(
            jobs=settled.touches | switching.jobs.keys(),
            instances=frozenset(task for pair in by.swaps for dataflow in pair for task in dataflow.instances),
            dataflows=frozenset(public_id(old.id) for old, _ in by.swaps),
        ),
    )


_SMALLER = "change fewer tasks at once, or have an operator add a host and replace the document instead"
_PLACED_AGAIN = "replace the document instead; the task then gets another place"


def problems_of(
    decided: ReconfigurationDecision, jobs: Jobs, hosts: Iterable[Host], *, lenient: bool
) -> Iterator[Problem]:
    """A problem for each reason why a decision can't be taken; `jobs` are those before it."""
    by = decided.alteration
    names = {instance: task for _, new in reversed(by.swaps) for task, instance in new.places.items()}
    if not lenient:
        yield from _undeclared(decided, names)
        for task in sorted(names.get(instance, "") for instance in decided.mixed):
            message = f"{task!r} would run your code in a job with code of another tenant"
            yield _problem(task, "type", code="other-code", message=message, remedy=_PLACED_AGAIN)
    changed = {task.becomes.instance for task in decided.tasks}
    for task in sorted(decided.asked.fresh):
        if by.swaps[0][1].places.get(task) not in changed:
            yield Problem(
                pointer=pointer("fresh"),
                code="unchanged-task",
                message=f"the task {task!r} does not change",
                remedy="name changed tasks only; to start others without state, replace the document",
            )
    yield from _unoffered(decided, names, hosts)
    for task in sorted(names.get(instance, "") for instance in decided.scattered):
        message = f"another job would begin or cease to read what {task!r} emits, which it cannot while tasks run"
        remedy = "replace the document instead; tasks below then start without state. Or defragment first"
        yield _problem(task, code="other-jobs", message=message, remedy=remedy)
    try:
        check_streams(jobs, decided.settled)
    except TooManyStreams as error:
        # A host would receive too many, because shared tasks are copied.
        yield Problem(pointer="/tasks", code="too-many-streams", message=str(error), remedy=_SMALLER)


def _problem(task: str, *part: str, code: str, message: str, remedy: str) -> Problem:
    return Problem(pointer=pointer("tasks", task, *part), code=code, message=message, remedy=remedy)


def _undeclared(decided: ReconfigurationDecision, names: Mapping[Instance, str]) -> Iterator[Problem]:
    """A problem for each task of which its type does not declare what becomes of its state."""
    for task in decided.tasks:
        if task.fate is None:
            name = names.get(task.becomes.instance, "")
            message = f"type {task.becomes.type.name!r} does not declare what becomes of the state by this change"
            if task.becomes.instance in decided.alteration.unfit:
                message = f"the state of {name!r} was made from events with other fields"
            remedy = f'begin without state: send {{"fresh": ["{name}"]}} along'
            yield _problem(name, code="undeclared-state", message=message, remedy=remedy)


def _unoffered(
    decided: ReconfigurationDecision, names: Mapping[Instance, str], hosts: Iterable[Host]
) -> Iterator[Problem]:
    """A problem for each task that the host of its job cannot run with its new type or tags.

    A host that is away may offer anything.
    """
    known = {host.name: host for host in hosts if not host.away}
    jobs = decided.settled.jobs
    changed = (
        task.becomes
        for task in decided.tasks
        if task.becomes.type.name != task.was.type.name or not task.becomes.tags <= task.was.tags
    )
    for task in (*changed, *decided.alteration.inserted):
        name, kind = names.get(task.instance, ""), task.type.name
        host = known.get(jobs.jobs[jobs.homes[task.instance].job].host)
        if host is None:
            continue
        if lacking := task.tags - host.tags:
            needed = listed(sorted(lacking))
            message = f"it needs a host that offers {needed}; this one runs on {host.name!r}, which does not"
            yield _problem(name, "type", code="no-host", message=message, remedy=_PLACED_AGAIN)
        elif not host.has(kind):
            message = f"the task runs on host {host.name!r}, which has no implementation of the type {kind!r}"
            yield _problem(
                name, "type", code="no-host", message=message, remedy=f"install it there, or {_PLACED_AGAIN}"
            )
