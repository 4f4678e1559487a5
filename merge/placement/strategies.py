"""The strategies of placement, and the frame that most share; `plan` has one of its own.

The residue is cut into groups; for each the strategy names the jobs it would like,
best first, and the first that has room, offers the tags and keeps the graph of jobs acyclic takes the whole group.
Where none does, new jobs are opened: the group in topological order, cut wherever the capacity or the tags of one host
end. Streams lead only forwards across such cuts and nothing leads out of a new job yet, so no cycle can arise.

A group that is too much for one core is not cut if it can be divided: its job gets as many shards as it needs.

Where hosts do not share all files, a group is placed on one root, and `merge.placement.root_choice` says on which.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from merge.capacity import Costs
from merge.jobs import Assignment, Home, JobId, Jobs, crossings, parents
from merge.placement.board import Group, PlacementBoard, connected_parts
from merge.placement.hosts import Host
from merge.placement.planned import planned
from merge.placement.root_choice import by_root, choices, refusal
from merge.task import Instance, RunningTask
from merge.task_order import downwards


class Strategy(NamedTuple):
    """The difference between one placement, group by group, and another."""

    groups: Callable[[Group], Iterable[Group]]
    """How a residue is cut into groups."""
    likes: Callable[[PlacementBoard, Group], Iterable[JobId]]
    """The jobs that a group would join, best first."""


def place(  # noqa: PLR0913 - what starts, what runs, and the ground it is placed on are seven things
    strategy: str,
    *,
    residue: Iterable[Instance],
    running: Mapping[Instance, RunningTask],
    jobs: Jobs,
    hosts: Iterable[Host],
    costs: Costs,
    apart: Container[JobId] = frozenset(),
) -> Assignment:
    """Place the residue; `running` are all tasks that run, with it already. Jobs that are apart take none."""
    started = downwards(running[instance] for instance in residue)
    ground = STRATEGIES[strategy](PlacementBoard(running, jobs, hosts, costs, apart), started)
    homes = {parent: ground.job_of(parent) for task in started for parent in parents(task)}
    return Assignment(
        base=jobs.version,
        opens=tuple(ground.opened.items()),
        places=tuple(
            (task.instance, Home(ground.placed[task.instance], costs.busy[task.instance])) for task in started
        ),
        crossings=crossings(started, homes | ground.placed),
        shards=tuple((job, shards, ()) for job, shards in ground.shards.items()),
    )


def _by(strategy: Strategy, ground: PlacementBoard, started: Group) -> PlacementBoard:
    """The board with a residue on it, placed group by group."""
    for group in by_root(ground, strategy.groups(started)):
        _place(ground, group, strategy.likes)
    return ground


def _place(ground: PlacementBoard, group: Group, likes: Callable[[PlacementBoard, Group], Iterable[JobId]]) -> None:
    """Place a group in the first job that it likes and that can run it, and else in new ones."""
    for root, opens in choices(ground, group):
        if (job := ground.first(likes(ground, group), group, root)) is not None:
            ground.put(group, job)
            return
        if opens:
            for run in ground.runs(group, root):
                ground.open(run, root)
            return
    raise refusal(ground, group)


def _whole(residue: Group) -> Iterable[Group]:
    return [residue] if residue else []


def _likes_new(_ground: PlacementBoard, _group: Group) -> Iterable[JobId]:
    return ()


def _likes_its_inputs_job(ground: PlacementBoard, group: Group) -> Iterable[JobId]:
    jobs = list(ground.entering(group))
    return jobs if len(jobs) == 1 else ()


def _likes_company(ground: PlacementBoard, group: Group) -> Iterable[JobId]:
    entering = ground.entering(group)
    yield from sorted(entering, key=lambda job: (-entering[job], job))
    # Most jobs are full, and need no order.
    work, fits = ground.work(group), ground.costs.fits
    roomy = [(-busy, job) for job, busy in ground.loads.items() if fits(busy + work) and job not in entering]
    yield from (job for _, job in sorted(roomy))


_pack = partial(_by, Strategy(connected_parts, _likes_company))
STRATEGIES: Mapping[str, Callable[[PlacementBoard, Group], PlacementBoard]] = MappingProxyType(
    {
        "launch": partial(_by, Strategy(_whole, _likes_new)),
        "graft": partial(_by, Strategy(connected_parts, _likes_its_inputs_job)),
        "pack": _pack,
        "plan": partial(planned, pack=_pack),
    }
)
