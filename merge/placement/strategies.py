"""The strategies of placement, the frame that most of them share, and the choice of a root.

The residue is cut into groups. For each the strategy names the jobs it would like, best first, and the first that has
room, offers the tags and keeps the graph of jobs acyclic takes the whole group. Where none does, new jobs are opened:
the group in topological order, cut wherever the capacity or the tags of one host end, so no cycle can arise. A group
that is too much for one core is not cut if it can be divided: its job gets as many shards as it needs. `plan` has a
frame of its own, in `merge/placement/planned.py`.

Where hosts do not share all files, a group is placed on one root: where the streams are that it reads, or most of them.
Only between tasks of several roots do bridges lead from root to root. What reads nothing that runs goes to any root
that offers its tags, whole.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from merge.capacity import Costs
from merge.errors import NoHost, RootsApart
from merge.jobs import Assignment, Home, JobId, Jobs, crossings, parents
from merge.placement.board import (
    Group,
    PlacementBoard,
    connected_parts,
    cores_taken,
    cores_to_spare,
    is_elsewhere,
    read_on,
    root_of,
    streams_into,
    tags_of,
    tears,
)
from merge.placement.hosts import Host
from merge.placement.planned import planned
from merge.tasks import Instance, RunningTask, downwards


class RootChoice(NamedTuple):
    """A root on which a group may run; any if it is None."""

    root: str | None
    opens: bool
    """Whether a new job can run it there."""


def choices(ground: PlacementBoard, group: Group) -> Iterator[RootChoice]:
    """The roots for a group, best first."""
    if not ground.roots.several:
        yield RootChoice(None, opens=True)
    elif roots := _of_streams(ground, group):
        for root in roots:
            yield RootChoice(root, opens=_offers(ground, group, root) and not tears(ground, group, None, root))
    else:
        # Any job may have room for it.
        yield RootChoice(None, opens=False)
        yield from (RootChoice(root, opens=True) for root in _roomiest(ground, group))


def refusal(ground: PlacementBoard, group: Group) -> NoHost:
    """The reason why a group can be on no root."""
    roots = _of_streams(ground, group)
    if offering := [root for root in roots if _offers(ground, group, root)]:
        elsewhere = {stream for stream in streams_into(group) if is_elsewhere(ground, stream, offering[0])}
        reading = [task for task in group if not elsewhere.isdisjoint(streams_into((task,)))]
        return RootsApart(reading[0].type.name, frozenset(task.key for task in reading))
    for task in group:
        if not any(task.tags <= host.tags for host in ground.hosts):
            return NoHost(task.type.name, task.tags)
    if not roots:
        return NoHost(group[0].type.name, tags_of(group), "hosts that share their files")
    lacking = next(task for task in group if not _offers(ground, (task,), roots[0]))
    sharing = ", ".join(ground.roots.hosts_of(roots[0])) or "those that run what it reads"
    return NoHost(lacking.type.name, lacking.tags, f"a host that shares its files with {sharing}")


def _cut(ground: PlacementBoard, group: Group) -> Iterator[Group]:
    """A group cut into what new jobs on one root can run; connected tasks stay together."""
    there: defaultdict[str | None, list[Group]] = defaultdict(list)
    for part in connected_parts(group):
        there[next((root for root, opens in choices(ground, part) if opens), None)].append(part)
    for parts in there.values():
        yield downwards(task for part in parts for task in part)


def _of_streams(ground: PlacementBoard, group: Group) -> tuple[str, ...]:
    """The roots on which a group may run for the streams that it reads, best first; none if it reads none."""
    streams = streams_into(group)
    home = {stream: root_of(ground, ground.job_of(stream[0])) for stream in streams}
    raw = Counter(root for stream, root in home.items() if not ground.running[stream[0]].inputs)
    most = Counter(home.values())
    # Each root receives a raw stream for itself, so of equals that is better where more of these are.
    ranked = sorted(most, key=lambda root: (-most[root], -raw[root], root))
    elsewhere = {root for stream in streams for root in read_on(ground, stream)} - most.keys()
    if len(most) == 1:
        # Only where all its streams are sent anyway.
        elsewhere = {root for root in elsewhere if all(root in read_on(ground, stream) for stream in streams)}
    return (*ranked, *sorted(elsewhere))


def _offers(ground: PlacementBoard, group: Group, root: str) -> bool:
    """Whether each task finds its tags on some host of a root."""
    offered = [host.tags for host in ground.roots.there(root)]
    return all(any(task.tags <= tags for tags in offered) for task in group)


def _roomiest(ground: PlacementBoard, group: Group) -> tuple[str, ...]:
    """The roots that offer what a group needs: where fewest jobs can run it, and then where most cores are to spare."""
    spare, taken, tags = cores_to_spare(ground), cores_taken(ground), tags_of(group)

    def price(root: str) -> tuple[int, float, float, str]:
        hosts = ground.roots.there(root)
        fitting = [host for host in hosts if tags <= host.tags] or hosts
        best = max(fitting, key=lambda host: (spare[host.name], -taken[host.name]))
        return sum(1 for _ in _runs(ground, group, root)), -spare[best.name], taken[best.name], best.name

    roots = {host.root for host in ground.hosts}
    return tuple(sorted((root for root in roots if _offers(ground, group, root)), key=price))


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
    groups = strategy.groups(started)
    for group in chain.from_iterable(_cut(ground, whole) for whole in groups) if ground.roots.several else groups:
        _place(ground, group, strategy.likes)
    return ground


def _place(ground: PlacementBoard, group: Group, likes: Callable[[PlacementBoard, Group], Iterable[JobId]]) -> None:
    """Place a group in the first job that it likes and that can run it, and else in new ones."""
    for root, opens in choices(ground, group):
        if (job := ground.first(likes(ground, group), group, root)) is not None:
            ground.put(group, job)
            return
        if opens:
            for run in _runs(ground, group, root):
                ground.open(run, root)
            return
    raise refusal(ground, group)


def _runs(ground: PlacementBoard, group: Group, root: str | None) -> Iterator[Group]:
    """A group cut so that one new job can take each run; a task too busy for any job gets one to itself."""
    if not ground.costs.fits(ground.work(group)) and ground.splits(group, root):
        return iter((group,))
    return ground.cut(group, lambda work, _busiest, tags: ground.suits(work, tags, root))


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
        "launch": partial(_by, Strategy(lambda residue: [residue] if residue else [], lambda _ground, _group: ())),
        "graft": partial(_by, Strategy(connected_parts, _likes_its_inputs_job)),
        "pack": _pack,
        "plan": partial(planned, pack=_pack),
    }
)
