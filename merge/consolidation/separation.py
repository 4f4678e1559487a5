"""Separation: tasks in quarantine leave the jobs that they share with others, for jobs of their own.

All that such a task feeds is in quarantine too, so streams lead from what stays to what leaves and not back, and the
graph of jobs stays acyclic.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from merge.capacity import Costs
from merge.consolidation.bundles import bundled, pieces, regrouped
from merge.jobs import Assignment, Job, JobId, Jobs
from merge.placement.board import Group, PlacementBoard, connected_parts
from merge.placement.hosts import Host
from merge.placement.roots import Roots
from merge.running_graph import RunningGraph
from merge.task import Instance
from merge.task_order import downwards


def separated(  # noqa: PLR0913 - what runs, where, on what, at which cost, and who takes part, are seven things
    running: RunningGraph,
    jobs: Jobs,
    hosts: Iterable[Host],
    costs: Costs,
    *,
    quarantined: Mapping[Instance, str],
    own: Mapping[JobId, str],
    apart: Container[JobId] = frozenset(),
) -> Assignment | None:
    """The assignment that takes tasks in quarantine out of the first job that is not their own; None if there is none.

    `own` are the jobs that are somebody's own. A job that is apart is left alone, until it has caught up.
    """
    hosts = tuple(hosts)
    roots = Roots(hosts)
    for job in sorted({jobs.homes[instance].job for instance in quarantined if instance in jobs.homes}):
        there = jobs.jobs[job]
        leaving = _leaving(running, there, quarantined, own.get(job, ""))
        if not leaving or job in apart:
            continue
        root = roots.of(there.host)
        ground = PlacementBoard(
            running.tasks, jobs, [host for host in hosts if not roots.several or host.root == root], costs
        )
        if not ground.hosts:
            continue
        found = regrouped(running, ground, _staying(running, ground, there, leaving), _groups(running, ground, leaving))
        if not roots.several or roots.keeps(running.tasks, jobs, jobs.apply(found)):
            return found
    return None


def _leaving(running: RunningGraph, job: Job, quarantined: Mapping[Instance, str], own: str) -> Mapping[Instance, str]:
    """The tasks that leave a job, each with the tenant in whose jobs it runs from then on."""
    leaving = {each: quarantined[each] for each in sorted(job.active) if quarantined.get(each, own) != own}
    if not any(running.tasks[each].inputs for each in leaving):
        # Of a source the job has nothing to run.
        return {}
    rest = job.active - leaving.keys()
    if not any(running.tasks[each].inputs for each in rest):
        # What nobody reads there any more goes along, so that the job can stop.
        leaving |= dict.fromkeys(sorted(rest), min(leaving.values()))
    return leaving


def _staying(
    running: RunningGraph, ground: PlacementBoard, job: Job, leaving: Mapping[Instance, str]
) -> Mapping[JobId, Job]:
    """The jobs as they are without what leaves."""
    others = {each: other for each, other in ground.jobs.jobs.items() if each != job.id}
    rest = job.active - leaving.keys()
    if not rest:
        return others
    return others | {job.id: replace(job, active=rest, busy=ground.work(running.tasks[each] for each in sorted(rest)))}


def _groups(running: RunningGraph, ground: PlacementBoard, leaving: Mapping[Instance, str]) -> list[Group]:
    """The tasks that leave, grouped by the job that they get: no two tenants' in one."""
    found: list[Group] = []
    for tenant in sorted(set(leaving.values())):
        tasks = downwards(running.tasks[each] for each, whose in leaving.items() if whose == tenant)
        found += bundled((pieces(part, ground) for part in connected_parts(tasks)), ground)
    return found
