"""The choice of a root for a group of tasks, where hosts do not share all files.

A group goes where the streams are that it reads, so that what is connected stays on one root. One that joins tasks of
several roots goes to that with most of these streams, and only then do bridges lead from root to root. What reads
nothing that runs goes to any root that offers its tags, whole.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from merge.errors import NoHost, RootsApart
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
from merge.task_order import downwards


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
            yield RootChoice(root, opens=_opens(ground, group, root))
    else:
        # Any job may have room for it.
        yield RootChoice(None, opens=False)
        yield from (RootChoice(root, opens=True) for root in _roomiest(ground, group))


def by_root(ground: PlacementBoard, groups: Iterable[Group]) -> Iterable[Group]:
    """The groups, each cut into what new jobs on one root can run; connected tasks stay together."""
    return chain.from_iterable(_cut(ground, group) for group in groups) if ground.roots.several else groups


def refusal(ground: PlacementBoard, group: Group) -> NoHost:
    """The reason why a group can be on no root."""
    roots = _of_streams(ground, group)
    offering = [root for root in roots if _offers(ground, group, root)]
    if not offering:
        return _unoffered(ground, group, roots)
    elsewhere = {stream for stream in streams_into(group) if is_elsewhere(ground, stream, offering[0])}
    reading = [task for task in group if not elsewhere.isdisjoint(streams_into((task,)))]
    return RootsApart(reading[0].type.name, frozenset(task.key for task in reading))


def _unoffered(ground: PlacementBoard, group: Group, roots: tuple[str, ...]) -> NoHost:
    for task in group:
        if not any(task.tags <= host.tags for host in ground.hosts):
            return NoHost(task.type.name, task.tags)
    if not roots:
        return NoHost(group[0].type.name, tags_of(group), "hosts that share their files")
    lacking = next(task for task in group if not _offers(ground, (task,), roots[0]))
    sharing = ", ".join(ground.roots.hosts_of(roots[0])) or "those that run what it reads"
    return NoHost(lacking.type.name, lacking.tags, f"a host that shares its files with {sharing}")


def _cut(ground: PlacementBoard, group: Group) -> Iterator[Group]:
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
    found = sorted(most, key=lambda root: (-most[root], -raw[root], root))
    elsewhere = {root for stream in streams for root in read_on(ground, stream)} - most.keys()
    if len(most) == 1:
        # Only where all its streams are sent anyway.
        elsewhere = {root for root in elsewhere if all(root in read_on(ground, stream) for stream in streams)}
    return (*found, *sorted(elsewhere))


def _opens(ground: PlacementBoard, group: Group, root: str) -> bool:
    """Whether new jobs on a root can run a group."""
    return _offers(ground, group, root) and not tears(ground, group, None, root)


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
        return sum(1 for _ in ground.runs(group, root)), -spare[best.name], taken[best.name], best.name

    roots = {host.root for host in ground.hosts}
    return tuple(sorted((root for root in roots if _offers(ground, group, root)), key=price))
