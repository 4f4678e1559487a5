"""The strategy `plan`: groups of tasks that are planned together, in place of one part after the other.

The residue becomes a grouping problem: with the jobs that its inputs come from, those that `pack` would have it join,
and some with room. The images of the problem are the sets of tags that hosts offer. The answer is placed on a board, by
the same rules as any other, so whatever it says, capacity, tags, and the order of jobs are kept.

Where hosts do not share all files, what `pack` has on one root is planned among the hosts and jobs of that root. What
`pack` does stands where it costs no more by the same costs, where the board does not take the answer, and where there
is something to decide that groups know nothing of: shards, and streams from another root.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from graphlib import TopologicalSorter

from dags.vocabulary import MOST_FIGURE
from merge.capacity import Costs
from merge.errors import NoHost
from merge.grouping import (
    GROUPING_STRATEGIES,
    Effort,
    GroupedStream,
    GroupedTask,
    GroupId,
    GroupingCosts,
    GroupingProblem,
    NoGrouping,
    PresentGroup,
    cost_of,
    problems_of,
)
from merge.grouping.problem import Group as TaskGroup
from merge.grouping.problem import Image
from merge.jobs import JobId
from merge.placement.board import (
    Group,
    PlacementBoard,
    anew,
    connected_parts,
    owner_of,
    owners_of,
    root_of,
    streams_into,
    tears,
    trusted,
)
from merge.placement.hosts import Host
from merge.tasks import Instance, RunningTask, downwards

MOST_ROOMY = 8
"""The jobs with room that a residue may join although nothing that it reads is there."""
SECONDS = 0.5
"""How long the search may take; others wait for it."""
ASSUMED_BRIDGE = 0.005
"""Cores that a bridge takes, where that was not measured."""
HOP = 0.01
"""What one more bridge on the slowest path is worth, in cores."""
_HOUR = 3_600.0
_ROUNDING = 1e-9


def planned(
    ground: PlacementBoard, started: Group, pack: Callable[[PlacementBoard, Group], PlacementBoard]
) -> PlacementBoard:
    """The board with a residue on it: as planned, or as packed where that is as good."""
    packed = pack(anew(ground), started)
    fixed, parts = _parts(ground, started, packed)
    better = {root: _better(ground, part, packed, root, SECONDS / len(parts)) for root, part in parts.items()}
    if not any(better.values()):
        return packed
    board = anew(ground)
    try:
        pack(board, fixed)
        for root, part in parts.items():
            groups = better[root]
            if groups is None:
                pack(board, part)
            elif _placed(board, part, groups, root) is None:
                return packed
    except NoHost:
        return packed
    return board


def _parts(ground: PlacementBoard, started: Group, packed: PlacementBoard) -> tuple[Group, dict[str | None, Group]]:
    """What of a residue stays as packed, and the rest by the root on which it is planned: None if all share files."""
    fixed: list[RunningTask] = []
    parts: defaultdict[str | None, list[RunningTask]] = defaultdict(list)
    for part in connected_parts(started):
        jobs = {packed.placed[task.instance] for task in part}
        near = jobs | {job for job, _ in _streams_from_jobs(ground, part)}
        roots = {root_of(packed, job) if ground.roots.several else None for job in near}
        is_planned = len(roots) == 1 and jobs.isdisjoint(packed.shards)
        (parts[roots.pop()] if is_planned else fixed).extend(part)
    return downwards(fixed), {root: downwards(part) for root, part in parts.items()}


def _better(
    ground: PlacementBoard, started: Group, packed: PlacementBoard, root: str | None, seconds: float
) -> tuple[TaskGroup, ...] | None:
    """The groups of a part of a residue that cost less than those in which it was packed, if some were found."""
    problem = problem_of(ground, started, packed, root)
    before = groups_on(packed, started, problem)
    is_sound = not problems_of(problem, before)
    if is_sound and cost_of(problem, before).total <= _ROUNDING:
        return None
    try:
        grouping = GROUPING_STRATEGIES["plan"](problem, Effort(seconds=seconds))
    except NoGrouping:
        return None
    if is_sound and grouping.cost.total >= cost_of(problem, before).total - _ROUNDING:
        return None
    return grouping.groups


def problem_of(
    ground: PlacementBoard, started: Group, packed: PlacementBoard, root: str | None = None
) -> GroupingProblem:
    """The problem that a residue is, given where `pack` would have it; on one root, if one is given."""
    there = {job for job in ground.jobs.jobs if root is None or root_of(ground, job) == root}
    feeding = {job for job, _ in _streams_from_jobs(ground, started)}
    joined = {packed.placed[task.instance] for task in started} - packed.opened.keys()
    others = there - feeding - joined
    # The fullest first, as `pack` likes them.
    roomy = sorted((-busy, job) for job, busy in ground.loads.items() if ground.costs.fits(busy) and job in others)
    present = sorted({*feeding, *joined, *(job for _, job in roomy[:MOST_ROOMY])})
    streams = [*grouped_streams(ground, started)]
    upstream = {job: ground.upstream((job,)) for job in present}
    # Where jobs feed each other, if over other jobs, groups must not make a cycle of it.
    streams += [
        GroupedStream(parent=_standing(one), child=_standing(other), raw=True)
        for other in present
        for one in present
        if one != other and one in upstream[other]
    ]
    parents: defaultdict[JobId, set[Instance]] = defaultdict(set)
    for job, instance in _streams_from_jobs(ground, started):
        parents[job].add(instance)
    costs, images = ground.costs, images_of(ground, root)
    return GroupingProblem(
        tasks=grouped_tasks(ground, started),
        streams=tuple(dict.fromkeys(streams)),
        images=images,
        costs=costs_of(costs, images),
        present=(
            *(_present(ground, job, parents[job]) for job in present),
            *_all_else(ground, images, there.difference(present)),
        ),
    )


def grouped_tasks(ground: PlacementBoard, tasks: Iterable[RunningTask]) -> tuple[GroupedTask, ...]:
    """Running tasks as those of a problem."""
    busy = ground.costs.busy
    return tuple(
        GroupedTask(id=task.instance, tags=task.tags, work=busy[task.instance], owner=owner_of(task)) for task in tasks
    )


def grouped_streams(ground: PlacementBoard, tasks: Iterable[RunningTask]) -> Iterator[GroupedStream]:
    """The streams into running tasks as those of a problem; what a source emits is raw."""
    for task in tasks:
        for edge in task.inputs:
            raw = not ground.running[Instance(edge.parent)].inputs
            yield GroupedStream(parent=edge.parent, child=task.instance, port=edge.parent_port, raw=raw)


def groups_on(board: PlacementBoard, started: Group, problem: GroupingProblem) -> tuple[TaskGroup, ...]:
    """The groups as which a residue stands on a board, each after those that feed it."""
    tasks: defaultdict[JobId, list[Instance]] = defaultdict(list)
    for task in started:
        tasks[board.placed[task.instance]].append(task.instance)
    there = {group.id: group.image for group in problem.present}
    homes = {task: group.id for group in problem.present for task in group.tasks}
    homes |= {instance: job for job, instances in tasks.items() for instance in instances}
    order: TopologicalSorter[GroupId] = TopologicalSorter(dict.fromkeys(tasks, ()))
    for stream in problem.streams:
        if homes[stream.parent] != homes[stream.child]:
            order.add(homes[stream.child], homes[stream.parent])
    return tuple(
        TaskGroup(
            image=_name(_offered(board, board.host_of(job))),
            tasks=tuple(sorted(tasks[job])),
            present=job if job in there else None,
        )
        for job in map(_job, order.static_order())
        if job in tasks
    )


def images_of(ground: PlacementBoard, root: str | None = None) -> tuple[Image, ...]:
    """The sets of tags that hosts offer, as images; where a job begins among them, the board decides.

    Only the hosts of a root count, if one is given.
    """
    hosts: defaultdict[frozenset[str], list[Host]] = defaultdict(list)
    for host in ground.roots.there(root):
        hosts[host.tags].append(host)
    # A job may also run where nothing is opened any more.
    for job in ground.jobs.jobs.values():
        if root is None or ground.roots.of(job.host) == root:
            hosts.setdefault(_offered(ground, job.host), [])
    return tuple(_image(tags, alike) for tags, alike in sorted(hosts.items(), key=lambda item: sorted(item[0])))


def costs_of(costs: Costs, images: Iterable[Image]) -> GroupingCosts:
    """The costs of groups on images.

    What a price is worth follows from the image that has most cores for it. A new host is missed for a part of an hour.
    """
    return GroupingCosts(
        pace=costs.pace,
        batch=costs.batch,
        bridge=costs.bridge or ASSUMED_BRIDGE,
        hop=HOP,
        start=1 / _HOUR,
        price=min(MOST_FIGURE, max((image.cores / image.price for image in images if image.price), default=0.0)),
    )


def _image(tags: frozenset[str], hosts: list[Host]) -> Image:
    """The image of hosts with equal tags; where one has none that is registered, there may be any number of them."""
    known = [host.registered for host in hosts if host.registered is not None]
    limits = [image.most for image in {image.name: image for image in known}.values() if image.most is not None]
    is_limited = bool(limits) and len(known) == len(hosts) and len(limits) == len({image.name for image in known})
    return Image(
        name=_name(tags),
        tags=tags,
        cores=max((host.cores for host in hosts), default=1.0),
        start=min((image.start for image in known), default=0.0),
        price=min((image.price for image in known), default=0.0),
        most=sum(limits) if is_limited else None,
        there=len(hosts),
    )


def _placed(
    board: PlacementBoard, started: Group, groups: Iterable[TaskGroup], root: str | None
) -> PlacementBoard | None:
    """A board with planned groups on it; None if one of them cannot be there."""
    order = {task.instance: (at, task) for at, task in enumerate(started)}
    for planned_group in groups:
        group = tuple(
            task for _, task in sorted((order[Instance(int(id_))] for id_ in planned_group.tasks), key=lambda e: e[0])
        )
        if planned_group.present is None:
            if root is not None and tears(board, group, None, root):
                return None
            board.open(group, root)
            continue
        job = _job(planned_group.present)
        if board.first((job,), group, root) is None:
            return None
        board.put(group, job)
    return board


def _present(ground: PlacementBoard, job: JobId, parents: Iterable[Instance]) -> PresentGroup:
    there = ground.jobs.jobs[job]
    owners = owners_of(ground.running[instance] for instance in there.active)
    offered = _offered(ground, there.host)
    return PresentGroup(
        id=job,
        image=_name(offered),
        tasks=frozenset({*parents, _standing(job)}),
        work=there.busy,
        owner=min(owners, default=""),
        takes_more=trusted(owners) and job not in ground.apart and ground.offers(there.host, frozenset()),
    )


def _all_else(ground: PlacementBoard, images: Iterable[Image], others: Iterable[JobId]) -> Iterator[PresentGroup]:
    """What all other jobs take of each image of which a new host would cost something, or there may be so many."""
    taken: defaultdict[str, float] = defaultdict(float)
    for job in sorted(others):
        taken[_name(_offered(ground, ground.host_of(job)))] += ground.costs.cores(ground.busy(job))
    for image in images:
        if taken[image.name] and (image.start or image.price or image.most is not None):
            work = max(0.0, taken[image.name] - ground.costs.cores(0.0))
            yield PresentGroup(id=f"all else on {image.name}", image=image.name, work=work, takes_more=False)


def _streams_from_jobs(ground: PlacementBoard, started: Group) -> list[tuple[JobId, Instance]]:
    """The jobs and tasks that a residue reads from."""
    return [(ground.job_of(instance), instance) for instance, _ in streams_into(started)]


def _job(group: GroupId) -> JobId:
    return JobId(int(group))


def _standing(job: JobId) -> str:
    return f"job {job}"


def _offered(ground: PlacementBoard, host: str) -> frozenset[str]:
    """The tags of a host; none of one that is not there."""
    return ground.tags_of_hosts.get(host, frozenset())


def _name(tags: frozenset[str]) -> str:
    return " ".join(sorted(tags)) or "no tags"
