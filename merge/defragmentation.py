"""Fragmentation and its cure: how far the jobs are from the fewest that would do, and which those are.

The target is worked out from the running graph alone. Running DAGs stay whole as far as one job can hold them; the
busiest are packed first, each into the first job that has room. One that no job can hold is cut in topological order,
and no two such cuts meet in a job, so that the graph of jobs stays acyclic. Packing is a rule of thumb, so the jobs as
they are may be as good; then nothing moves for the sake of the rule. Hosts are chosen last, for what really opens.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from rpds import HashTrieMap

from merge.jobs import Assignment, Costs, Home, Host, JobId, Jobs, crossings, parents
from merge.placement import Ground, Group, tags_of
from merge.running_dags import DagId
from merge.running_graph import RunningGraph
from merge.task import Instance, RunningTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """What scattered jobs cost, against the consolidated ones."""

    jobs: int
    fewest: int
    """How many would do: those that consolidation would leave, unless it needs more to keep running DAGs whole."""
    bridges: int
    paused: int
    hops: int
    """The most bridges in a row."""
    cores: float
    """Taken by the jobs beyond the fewest, by bridges and by paused tasks."""
    latency: float
    """Seconds that the longest row of bridges adds: a pace for each."""


def fragmentation(running: RunningGraph, jobs: Jobs, hosts: Iterable[Host], costs: Costs) -> Fragmentation:
    """Measure it; every running task has a home."""
    target = jobs.apply(consolidate(running, jobs, hosts, costs))
    paused = sum(len(job.paused) for job in jobs.jobs.values())
    fewest = min(len(jobs.jobs), len(target.jobs))
    hops = _hops(running, jobs)
    return Fragmentation(
        jobs=len(jobs.jobs),
        fewest=fewest,
        bridges=len(jobs.bridges),
        paused=paused,
        hops=hops,
        cores=(len(jobs.jobs) - fewest) * costs.cores(0.0) + len(jobs.bridges) * costs.bridge + paused * costs.paused,
        latency=hops * costs.pace,
    )


def consolidate(running: RunningGraph, jobs: Jobs, hosts: Iterable[Host], costs: Costs) -> Assignment:
    """The target of a defragmentation: which instances move to which new jobs, and which jobs stop.

    Every running task has a home. A job that is as it should be, with nothing paused and its host there, is left alone.
    """
    ground = Ground(jobs, hosts, costs)
    settled = {
        job.active: job
        for job in jobs.jobs.values()
        if not job.paused and ground.offers(job.host, tags_of(running.tasks[instance] for instance in job.active))
    }
    target = {frozenset(task.instance for task in group): group for group in _target(running, ground)}
    stays = HashTrieMap({settled[group].id: settled[group] for group in target if group in settled})
    moves = Ground(replace(jobs, jobs=stays), ground.hosts, costs)
    for instances, group in target.items():
        if instances not in settled:
            moves.open(group)
    bridges = Counter(dict(crossings(running.tasks.values(), {task: moves.job_of(task) for task in running.tasks})))
    bridges.subtract(dict(jobs.bridges.items()))
    return Assignment(
        base=jobs.version,
        opens=tuple(moves.opened.items()),
        places=tuple((task, Home(moves.placed[task], costs.busy[task])) for task in sorted(moves.placed)),
        stops=tuple(sorted(job for job in jobs.jobs if job not in stays)),
        crossings=tuple(sorted((bridge, more) for bridge, more in bridges.items() if more)),
    )


def _target(running: RunningGraph, ground: Ground) -> list[Group]:
    """What shall run together: as packed anew, or as it is where that needs neither more jobs nor more bridges."""
    packed = _packed(running, ground)
    present = [
        tuple(running.tasks[instance] for instance in sorted(job.active)) for _, job in sorted(ground.jobs.jobs.items())
    ]
    places = {task.instance: JobId(place) for place, group in enumerate(packed) for task in group}
    bridges = crossings(running.tasks.values(), places)
    as_good = len(present) <= len(packed) and len(ground.jobs.bridges) <= len(bridges)
    sound = all(len(group) == 1 or ground.suits(ground.work(group), tags_of(group)) for group in present)
    return present if as_good and sound else packed


def _packed(running: RunningGraph, ground: Ground) -> list[Group]:
    bundles: list[_Bundle] = []
    wholes: list[_Bundle] = []
    for dag in _running_dags(running):
        runs = [_Bundle(list(run), ground.work(run), tags_of(run)) for run in ground.runs(dag)]
        (wholes if len(runs) == 1 else bundles).extend(runs)
    for whole in sorted(wholes, key=lambda whole: (-whole.work, whole.tasks[0].instance)):
        for bundle in bundles:
            if ground.suits(bundle.work + whole.work, bundle.tags | whole.tags):
                bundle.tasks += whole.tasks
                bundle.work += whole.work
                bundle.tags |= whole.tags
                break
        else:
            bundles.append(whole)
    return [tuple(bundle.tasks) for bundle in bundles]


@dataclass(slots=True)
class _Bundle:
    """What shall run in one job, while it is being packed."""

    tasks: list[RunningTask]
    work: float
    tags: frozenset[str]


def _running_dags(running: RunningGraph) -> Iterator[Group]:
    """The running DAGs, each with its tasks in topological order."""
    dag_of: dict[Instance, DagId] = {}
    dags: defaultdict[DagId, list[RunningTask]] = defaultdict(list)
    for instance in sorted(running.tasks):
        task = running.tasks[instance]
        above = next(parents(task), None)
        dag_of[instance] = running.dag_of(instance) if above is None else dag_of[above]
        dags[dag_of[instance]].append(task)
    return map(tuple, dags.values())


def _hops(running: RunningGraph, jobs: Jobs) -> int:
    """The most bridges in a row: counted along streams, because a job passes on only what its own tasks emit."""
    hops: dict[Instance, int] = {}
    for instance in sorted(running.tasks):
        job = jobs.homes[instance].job
        hops[instance] = max(
            (hops[parent] + (jobs.homes[parent].job != job) for parent in parents(running.tasks[instance])), default=0
        )
    return max(hops.values(), default=0)
