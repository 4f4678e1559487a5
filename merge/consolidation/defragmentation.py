"""Fragmentation and its cure: how far the jobs are from the fewest that would do, and which those are.

The target is worked out from the running graph alone. Running DAGs stay whole as far as one job can hold them; the
busiest are packed first, each into the first job that has room. One that no job can hold is cut in topological order,
and no two such cuts meet in a job, so that the graph of jobs stays acyclic. Packing is a rule of thumb, so whole jobs,
merged with each other where they fit together, may be as good; then those that need no company stay as they are, and
nothing moves for the sake of the rule. Hosts are chosen last, for what really opens.

Where hosts do not share all files, each root has a target of its own. Running DAGs that are on several roots take part
if that tears no stream and makes no cycle.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import networkx as nx

from merge.capacity import Costs
from merge.consolidation.bundles import bundled, holds, pieces, regrouped
from merge.consolidation.planned_groups import planned_groups
from merge.jobs import Assignment, Bridge, Job, JobId, Jobs, crossings, parents
from merge.placement.board import Group, PlacementBoard, root_of, tags_of
from merge.placement.hosts import Host
from merge.running_dags import DagId
from merge.running_graph import RunningGraph
from merge.task import Instance, RunningTask
from merge.task_order import downwards


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
    joined = [frozenset(each) for each in nx.weakly_connected_components(jobs.streams_between())]
    apart = _with_joined(joined, apart)
    planned = planned and not ground.roots.several
    found = _consolidated(running, ground, apart, shared, planned=planned)
    if not ground.roots.several or ground.roots.keeps(running.tasks, jobs, jobs.apply(found)):
        return found
    spanning = frozenset().union(*(each for each in joined if len({root_of(ground, job) for job in each}) > 1))
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
    stays |= {job: replace(each, active=frozenset(), busy=0.0) for job, each in concerned.items() if job in shared}
    return regrouped(
        running,
        ground,
        stays | {job: each for job, each in jobs.jobs.items() if job not in concerned},
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


def _with_joined(joined: Iterable[frozenset[JobId]], apart: Container[JobId]) -> frozenset[JobId]:
    """The jobs that are apart, and those with parts of the same running DAGs, which bridges join to them."""
    return frozenset(job for component in joined if any(job in apart for job in component) for job in component)


def _by_root(ground: PlacementBoard, jobs: Mapping[JobId, Job]) -> list[tuple[PlacementBoard, Mapping[JobId, Job]]]:
    """The jobs by root, each with a board that has the hosts of this root only; none where all of them are away."""
    if not ground.roots.several:
        return [(ground, jobs)]
    found: defaultdict[str, dict[JobId, Job]] = defaultdict(dict)
    for job in jobs.values():
        found[root_of(ground, job.id)][job.id] = job
    return [
        (PlacementBoard(ground.running, ground.jobs, hosts, ground.costs), there)
        for root, there in sorted(found.items())
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

    packed = bundled((pieces(dag, ground) for dag in _running_dags(running, tasks)), ground)
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


def _running_dags(running: RunningGraph, tasks: Iterable[RunningTask]) -> Iterator[Group]:
    """The running DAGs that these tasks are, each in topological order."""
    dag_of: dict[Instance, DagId] = {}
    dags: defaultdict[DagId, list[RunningTask]] = defaultdict(list)
    for task in downwards(tasks):
        above = next(parents(task), None)
        dag_of[task.instance] = running.dag_of(task.instance) if above not in dag_of else dag_of[above]
        dags[dag_of[task.instance]].append(task)
    return map(tuple, dags.values())
