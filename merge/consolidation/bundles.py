"""Bundles of tasks that shall run together, and the assignment that brings them there.

Units are packed into bundles, each a job to be. A unit that one job can hold stays whole, and goes into the first
bundle that has room, the busiest unit first. One that no job can hold comes in pieces, a bundle each, and no two such
units meet in a bundle: so if the pieces of each unit feed each other forwards only, no cycle of jobs can arise.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rpds import HashTrieMap

from merge.jobs import Assignment, Home, Job, JobId, crossings
from merge.placement.board import Group, PlacementBoard, owners_of, root_of, tags_of, trusted
from merge.running_graph import RunningGraph
from merge.tasks import RunningTask


def pieces(group: Group, ground: PlacementBoard) -> tuple[Group, ...]:
    """A group, each task after its parents, in runs that each a job shall hold; in one where one job shall hold all."""
    runs = tuple(ground.cut(group, partial(_held, ground)))
    # One job with shards needs no bridges between them.
    return (group,) if len(runs) > 1 and ground.splits(group) else runs


def holds(group: Group, ground: PlacementBoard) -> bool:
    """Whether one new job shall hold a group, if need be with several shards."""
    if not trusted(owners_of(group)):
        return False
    busiest = max(ground.costs.busy[task.instance] for task in group)
    return _held(ground, ground.work(group), busiest, tags_of(group)) or ground.splits(group)


def _held(ground: PlacementBoard, work: float, busiest: float, tags: frozenset[str]) -> bool:
    return ground.costs.holds(work, busiest) and any(tags <= host.tags for host in ground.hosts)


def bundled(units: Iterable[Sequence[Group]], ground: PlacementBoard) -> list[Group]:
    """The units packed; each is given as its pieces, one where a job can hold it."""
    bundles: list[_Bundle] = []
    wholes: list[_Bundle] = []
    for unit in units:
        pieces = [_Bundle(list(piece), ground.work(piece), tags_of(piece), owners_of(piece)) for piece in unit]
        (wholes if len(pieces) == 1 else bundles).extend(pieces)
    for whole in sorted(wholes, key=lambda whole: (-whole.work, whole.tasks[0].instance)):
        for bundle in bundles:
            if not trusted(bundle.owners | whole.owners):
                continue
            if ground.suits(bundle.work + whole.work, bundle.tags | whole.tags):
                bundle.tasks += whole.tasks
                bundle.work += whole.work
                bundle.tags |= whole.tags
                bundle.owners |= whole.owners
                break
        else:
            bundles.append(whole)
    return [tuple(bundle.tasks) for bundle in bundles]


def regrouped(
    running: RunningGraph, ground: PlacementBoard, stays: Mapping[JobId, Job], moving: Iterable[Group]
) -> Assignment:
    """Each group to a new job, beside the jobs that stay, as they are without what moves; the others stop.

    The tasks of a group come from one root, and stay there.
    """
    jobs = ground.jobs
    moves = PlacementBoard(running.tasks, replace(jobs, jobs=HashTrieMap(stays)), ground.hosts, ground.costs)
    for group in moving:
        moves.open(group, root_of(ground, jobs.homes[group[0].instance].job) if ground.roots.several else None)
    bridges = Counter(dict(crossings(running.tasks.values(), {task: moves.job_of(task) for task in running.tasks})))
    bridges.subtract(dict(jobs.bridges.items()))
    return Assignment(
        base=jobs.version,
        opens=tuple(moves.opened.items()),
        places=tuple((task, Home(moves.placed[task], ground.costs.busy[task])) for task in sorted(moves.placed)),
        stops=tuple(sorted(job for job in jobs.jobs if job not in stays)),
        crossings=tuple(sorted((bridge, more) for bridge, more in bridges.items() if more)),
        shards=tuple((job, shards, ()) for job, shards in moves.shards.items()),
    )


@dataclass(slots=True)
class _Bundle:
    """The tasks of one job to be, while it is being packed."""

    tasks: list[RunningTask]
    work: float
    tags: frozenset[str]
    owners: frozenset[str]
