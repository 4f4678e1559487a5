"""Fragmentation and its cure: how far jobs are from the fewest that would do, what moves, and in which regions.

The target is worked out from the running graph alone. Running DAGs stay whole as far as one job can hold them, and the
busiest are packed first. One that no job can hold is cut in topological order, and no two such cuts meet in a job, so
that the graph of jobs stays acyclic. Packing is a rule of thumb, so whole jobs, merged where they fit together, may be
as good; those that need no company then stay as they are. Hosts are chosen last, for what really opens. Each root has a
target of its own; running DAGs on several roots take part if that tears no stream and makes no cycle.

If a target is to be planned, all tasks are cut anew, as one grouping problem: the fewest batches, bridges and hops.
What the rule of thumb found stands where the model cannot judge it, as with shards, or costs no more; so do the jobs as
they are.

Regions are parts of what runs that can be consolidated one at a time, while all the others run on. Running DAGs that
read one source make a body, which moves as one or not at all. A region is made of jobs to be emptied, with all the
bodies that run something there: as many as may stand still at the same time, the dearest jobs first.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx
from networkx.utils import UnionFind

from merge.capacity import Costs
from merge.consolidation.bundles import bundled, holds, pieces, regrouped
from merge.grouping import GROUPING_STRATEGIES, Effort, GroupingProblem, NoGrouping, cost_of, problems_of
from merge.grouping.evaluation import arranged
from merge.grouping.problem import Group as TaskGroup
from merge.jobs import Assignment, Bridge, Job, JobId, Jobs, crossings, parents
from merge.placement.board import Group, PlacementBoard, root_of, tags_of
from merge.placement.hosts import Host
from merge.placement.planned import SECONDS, costs_of, grouped_streams, grouped_tasks, images_of
from merge.running_graph import DagId, RunningGraph
from merge.tasks import Instance, RunningTask, downwards

_MOST = 500
"""For more tasks planning takes longer than others can wait."""
_ROUNDING = 1e-9


def planned_groups(ground: PlacementBoard, present: list[Group], ruled: list[Group]) -> list[Group]:
    """The cheapest of the present groups, those of the rule, and planned ones; of equals the first."""
    tasks = {task.instance: task for group in ruled for task in group}
    if not tasks or len(tasks) > _MOST:
        return ruled
    problem = problem_anew(ground, tasks.values())
    if _cost(problem, ruled) is None:
        return ruled
    try:
        grouping = GROUPING_STRATEGIES["plan"](problem, Effort(seconds=SECONDS))
    except NoGrouping:
        return ruled
    planned = [downwards(tasks[Instance(int(task))] for task in group.tasks) for group in grouping.groups]
    costs = [(cost, groups) for groups in (present, ruled, planned) if (cost := _cost(problem, groups)) is not None]
    least = min(cost for cost, _ in costs)
    return next(groups for cost, groups in costs if cost <= least + _ROUNDING)


def problem_anew(ground: PlacementBoard, tasks: Iterable[RunningTask]) -> GroupingProblem:
    """The problem of cutting running tasks as if no job ran; they take nothing from others."""
    tasks, images = tuple(tasks), images_of(ground)
    return GroupingProblem(
        tasks=grouped_tasks(ground, tasks),
        streams=tuple(dict.fromkeys(grouped_streams(ground, tasks))),
        images=images,
        costs=costs_of(ground.costs, images),
    )


def as_grouped(problem: GroupingProblem, groups: Sequence[Group]) -> tuple[TaskGroup, ...] | None:
    """Running tasks in groups as an answer to a problem; None if no image offers the tags of one."""
    grouped = []
    for group in groups:
        image = next((image.name for image in problem.images if tags_of(group) <= image.tags), None)
        if image is None:
            return None
        grouped.append(TaskGroup(image=image, tasks=tuple(sorted(task.instance for task in group))))
    return arranged(problem, grouped)


def _cost(problem: GroupingProblem, groups: Sequence[Group]) -> float | None:
    """What groups cost; None if they are no answer to the problem."""
    grouped = as_grouped(problem, groups)
    if grouped is None or problems_of(problem, grouped):
        return None
    return cost_of(problem, grouped).total


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """The cost of scattered jobs, against consolidated ones."""

    jobs: int
    fewest: int
    """How many would do: those that consolidation would leave, unless it needs more to keep running DAGs whole."""
    bridges: int
    """Those that a job sends over; raw streams are read from their spools wherever they are needed."""
    paused: int
    hops: int
    """The most bridges in a row."""
    cores: float
    """Taken by the jobs beyond the fewest, by bridges and by paused tasks."""
    latency: float
    """Seconds that the longest row of bridges adds at most: a pace for each."""


def fragmentation(
    running: RunningGraph, jobs: Jobs, hosts: Iterable[Host], costs: Costs, apart: Container[JobId] = frozenset()
) -> Fragmentation:
    """Measure it; every running task has a home. Jobs that are apart count among those that are needed."""
    target = jobs.apply(consolidate(running, jobs, hosts, costs, apart))
    bridges = len(forwarded(running, jobs))
    paused = sum(len(job.paused) for job in jobs.jobs.values())
    fewest = min(len(jobs.jobs), len(target.jobs))
    hops = hops_of(running, jobs)
    return Fragmentation(
        jobs=len(jobs.jobs),
        fewest=fewest,
        bridges=bridges,
        paused=paused,
        hops=hops,
        cores=(len(jobs.jobs) - fewest) * costs.cores(0.0) + bridges * costs.bridge + paused * costs.paused,
        latency=hops * costs.pace,
    )


def consolidate(  # noqa: PLR0913 - what runs, where, on what, at which cost, and who takes no part, are six things
    running: RunningGraph,
    jobs: Jobs,
    hosts: Iterable[Host],
    costs: Costs,
    apart: Container[JobId] = frozenset(),
    *,
    shared: Container[JobId] = frozenset(),
    planned: bool = False,
) -> Assignment:
    """The target of a defragmentation: which instances move to which new jobs, and which jobs stop.

    Every running task has a home. A job that is as it should be, with nothing paused and its host there, is left alone.
    So is one that is apart, whatever it holds: it stands elsewhere in its streams than the others do. A job that is
    shared runs something else as well, which is not shown here: all that is shown leaves it, and it goes on.

    If it is to be planned, tasks run together as planning finds it where that costs less; not with several roots.
    """
    ground = PlacementBoard(running.tasks, jobs, hosts, costs)
    joined = [frozenset(component) for component in nx.weakly_connected_components(jobs.streams_between())]
    # With them are those with parts of the same running DAGs, which bridges join to them.
    apart = frozenset[JobId]().union(*(together for together in joined if any(job in apart for job in together)))
    planned = planned and not ground.roots.several
    assignment = _consolidated(running, ground, apart, shared, planned=planned)
    if ground.roots.keeps(running.tasks, jobs, assignment):
        return assignment
    spanning = frozenset().union(
        *(together for together in joined if len({root_of(ground, job) for job in together}) > 1)
    )
    return _consolidated(running, ground, apart | spanning, shared, planned=planned)


def _consolidated(
    running: RunningGraph,
    ground: PlacementBoard,
    left_out: frozenset[JobId],
    shared: Container[JobId],
    *,
    planned: bool,
) -> Assignment:
    """The target for all jobs but those that are left out."""
    jobs = ground.jobs
    concerned = {job.id: job for _, job in sorted(jobs.jobs.items()) if job.id not in left_out}
    grounds = _by_root(ground, concerned)
    concerned = {job.id: job for _, there in grounds for job in there.values()}
    settled = {
        job.active: job
        for job in concerned.values()
        if not job.paused
        and job.id not in shared
        and ground.offers(job.host, tags_of(running.tasks[instance] for instance in job.active))
    }
    target = {
        frozenset(task.instance for task in group): group
        for own, there in grounds
        for group in _target(running, own, there, settled.keys(), planned=planned)
    }
    stays = {settled[group].id: settled[group] for group in target if group in settled}
    stays |= {
        job: replace(present, active=frozenset(), busy=0.0) for job, present in concerned.items() if job in shared
    }
    return regrouped(
        running,
        ground,
        stays | {job: present for job, present in jobs.jobs.items() if job not in concerned},
        (group for instances, group in target.items() if instances not in settled),
    )


def forwarded(running: RunningGraph, jobs: Jobs) -> tuple[Bridge, ...]:
    """The bridges that a job sends over. Raw streams are not: each job reads them from their spools."""
    return tuple(bridge for bridge in jobs.bridges if running.tasks[bridge.parent].inputs)


def hops_of(running: RunningGraph, jobs: Jobs) -> int:
    """The most bridges in a row: counted along streams, because a job passes on only what its own tasks emit."""
    hops: dict[Instance, int] = {}
    for task in downwards(running.tasks.values()):
        job = jobs.homes[task.instance].job
        hops[task.instance] = max(
            (
                hops[parent] + (bool(running.tasks[parent].inputs) and jobs.homes[parent].job != job)
                for parent in parents(task)
            ),
            default=0,
        )
    return max(hops.values(), default=0)


def _by_root(ground: PlacementBoard, jobs: Mapping[JobId, Job]) -> list[tuple[PlacementBoard, Mapping[JobId, Job]]]:
    """The jobs by root, each with a board that has the hosts of this root only; none where all of them are away."""
    if not ground.roots.several:
        return [(ground, jobs)]
    by_root: defaultdict[str, dict[JobId, Job]] = defaultdict(dict)
    for job in jobs.values():
        by_root[root_of(ground, job.id)][job.id] = job
    return [
        (PlacementBoard(ground.running, ground.jobs, hosts, ground.costs), there)
        for root, there in sorted(by_root.items())
        if (hosts := ground.roots.there(root))
    ]


def _target(
    running: RunningGraph,
    ground: PlacementBoard,
    concerned: Mapping[JobId, Job],
    settled: Container[frozenset[Instance]],
    *,
    planned: bool,
) -> list[Group]:
    """The tasks that shall run together: by whole jobs or packed anew, as is better; of equals the smaller move.

    Or as planned, if that is asked for and better still.
    """
    present = {job: downwards(running.tasks[instance] for instance in concerned[job].active) for job in concerned}
    tasks = [task for group in present.values() for task in group]

    def jobs_and_bridges(groups: list[Group]) -> tuple[int, int]:
        # What is fed from another root is fed over a bridge wherever it is.
        places = {parent: JobId(-1) for task in tasks for parent in parents(task)}
        places |= {task.instance: JobId(place) for place, group in enumerate(groups) for task in group}
        return len(groups), len(crossings(tasks, places))

    def moved(groups: list[Group]) -> int:
        together = (frozenset(task.instance for task in group) for group in groups)
        return sum(len(group) for group in together if group not in settled)

    def does(groups: list[Group]) -> bool:
        """Whether they need neither more jobs nor more bridges than packed anew, and none is too busy."""
        needed = jobs_and_bridges(groups)
        sound = all(holds(group, ground) for group in groups)
        return sound and needed[0] <= fewest[0] and needed[1] <= fewest[1]

    dags: defaultdict[DagId, list[RunningTask]] = defaultdict(list)
    for task, dag in _with_dags(running, tasks):
        dags[dag].append(task)
    packed = bundled((pieces(tuple(group), ground) for group in dags.values()), ground)
    fewest = jobs_and_bridges(packed)
    # Where no two of them fit together these are the jobs as they are.
    merged = bundled(_whole_jobs(ground, present), ground)
    choice = [merged, packed] if does(merged) else [packed]
    ruled = min(choice, key=lambda groups: (*jobs_and_bridges(groups), moved(groups)))
    return planned_groups(ground, [group for group in present.values() if group], ruled) if planned else ruled


def _whole_jobs(ground: PlacementBoard, present: Mapping[JobId, Group]) -> Iterator[tuple[Group, ...]]:
    """The jobs in units: those that bridges join as one, if a job can hold them all, and else as they are."""
    components = nx.weakly_connected_components(ground.jobs.streams_between().subgraph(present))
    for joined in sorted(map(sorted, components)):
        jobs = tuple(present[job] for job in joined)
        whole = downwards(task for job in jobs for task in job)
        yield (whole,) if holds(whole, ground) else jobs


def _with_dags(running: RunningGraph, tasks: Iterable[RunningTask]) -> list[tuple[RunningTask, DagId]]:
    """The tasks in topological order, each with its running DAG."""
    dag_of: dict[Instance, DagId] = {}
    order = downwards(tasks)
    for task in order:
        above = next(parents(task), None)
        dag_of[task.instance] = running.dag_of(task.instance) if above not in dag_of else dag_of[above]
    return [(task, dag_of[task.instance]) for task in order]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Some bodies as if there were no others; what is computed of it holds for all jobs. Made by `regions`."""

    running: RunningGraph
    """With these tasks only."""
    jobs: Jobs
    """With those that run any of them, and of each only what it runs of them."""
    shared: frozenset[JobId]
    """The jobs that run something else as well."""
    hosts: tuple[Host, ...]
    """With the cores that all else leaves."""


def regions(running: RunningGraph, jobs: Jobs, hosts: Iterable[Host], costs: Costs, *, most: int) -> Iterator[Region]:
    """Cut what runs into regions of so many tasks at most, but for single jobs with larger bodies; the dearest first.

    Every running task has a home.
    """
    hosts = tuple(hosts)
    if len(running.tasks) <= most:
        yield Region(running=running, jobs=jobs, shared=frozenset(), hosts=hosts)
        return
    bodies = _bodies(running)
    in_job: defaultdict[JobId, list[int]] = defaultdict(list)
    for number, body in enumerate(bodies):
        for job in {jobs.homes[task.instance].job for task in body}:
            in_job[job].append(number)
    sizes = [len(body) for body in bodies]
    for numbers in _packed(_dearest(running, jobs, costs, in_job, sizes), in_job, sizes, most):
        inside = {task.instance: task for number in sorted(numbers) for task in bodies[number]}
        yield _region(running, jobs, hosts, costs, inside)


def _bodies(running: RunningGraph) -> list[list[RunningTask]]:
    """The bodies, which are cut together, each task after its parents."""
    together: UnionFind[DagId | str] = UnionFind()
    tasks = _with_dags(running, running.tasks.values())
    for task, dag in tasks:
        if task.type.reads_source:
            together.union(dag, task.config["source"])
    bodies: defaultdict[DagId | str, list[RunningTask]] = defaultdict(list)
    for task, dag in tasks:
        bodies[together[dag]].append(task)
    return list(bodies.values())


def _dearest(
    running: RunningGraph, jobs: Jobs, costs: Costs, in_job: Mapping[JobId, Iterable[int]], sizes: list[int]
) -> list[JobId]:
    """The jobs; first those that take most cores for how much stands still where they are emptied."""
    bridges = Counter(bridge.to for bridge in forwarded(running, jobs))

    def price(job: JobId) -> tuple[float, JobId]:
        still = sum(sizes[number] for number in in_job[job])
        paused = len(jobs.jobs[job].paused) * costs.paused
        return -(costs.cores(0.0) + bridges[job] * costs.bridge + paused) / max(1, still), job

    return sorted(in_job, key=price)


def _packed(
    order: Iterable[JobId], in_job: Mapping[JobId, Iterable[int]], sizes: list[int], most: int
) -> Iterator[frozenset[int]]:
    """Bodies together, of one job after the other, as long as they have no more tasks than that."""
    done: set[int] = set()
    together: set[int] = set()
    size = 0
    for job in order:
        new = set(in_job[job]) - together - done
        more = sum(sizes[number] for number in new)
        if more > most:
            done |= new
            yield frozenset(new)
            continue
        if together and size + more > most:
            done |= together
            yield frozenset(together)
            together, size = set(), 0
        together |= new
        size += more
    if together:
        yield frozenset(together)


def _region(
    running: RunningGraph, jobs: Jobs, hosts: Iterable[Host], costs: Costs, inside: dict[Instance, RunningTask]
) -> Region:
    homes = {instance: jobs.homes[instance] for instance in inside}
    active: defaultdict[JobId, list[Instance]] = defaultdict(list)
    for instance, home in homes.items():
        active[home.job].append(instance)
    shared = frozenset(job for job, ran in active.items() if len(ran) < len(jobs.jobs[job].active))
    here = {job: jobs.jobs[job] for job in sorted(active)}
    for job in shared:
        # What is paused there stays with whatever else it runs.
        busy = sum(homes[instance].busy for instance in active[job])
        here[job] = replace(here[job], active=frozenset(active[job]), paused=frozenset(), busy=busy)
    bridges = {
        bridge: jobs.bridges[bridge] for job in here for bridge in jobs.entering.get(job, ()) if bridge.parent in inside
    }
    return Region(
        running=replace(running, tasks=inside),
        jobs=replace(Jobs.of(here.values(), homes, bridges, jobs.next_job), version=jobs.version),
        shared=shared,
        hosts=tuple(_left(hosts, jobs, costs, here)),
    )


def _left(hosts: Iterable[Host], jobs: Jobs, costs: Costs, here: Mapping[JobId, Job]) -> Iterator[Host]:
    """The hosts, less what all takes that is not in a region."""
    taken: defaultdict[str, float] = defaultdict(float)
    # In order, because a sum's last digit depends on it and may not decide between two hosts.
    for name, job in sorted(jobs.jobs.items()):
        taken[job.host] += job.busy - here[name].busy if name in here else costs.cores(job.busy)
    for host in hosts:
        yield replace(host, cores=host.cores - taken[host.name])
