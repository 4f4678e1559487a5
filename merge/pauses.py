"""Pauses: a task that nobody needs any more stays in the plan of its job, and stops with the job."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from merge.jobs import Assignment, JobId, Jobs, crossings, parents
from merge.task import RunningTask

MOST_PAUSED = 100
"""The paused tasks that a job keeps, the newest; one that dataflows come to and leave would gather ever more."""


def release(stops: Iterable[RunningTask], jobs: Jobs) -> Assignment:
    """The assignment after an unmerge: pause each stopped task; a job left without active tasks stops."""
    gone = tuple(stops)
    concerned = {instance for task in gone for instance in (task.instance, *parents(task))}
    homes = {instance: jobs.homes[instance].job for instance in concerned}
    left = Counter(homes[task.instance] for task in gone)
    return Assignment(
        base=jobs.version,
        pauses=tuple(task.instance for task in gone),
        stops=tuple(sorted(job for job, count in left.items() if count == len(jobs.jobs[job].active))),
        crossings=crossings(gone, homes, -1),
    )


def trimmed(jobs: Jobs, pausing: Iterable[JobId], stops: Iterable[RunningTask]) -> Jobs:
    """The jobs without the paused tasks that no plan keeps: sources, which have no slot, and all but the newest."""
    sources = {task.instance for task in stops if not task.inputs}
    left = jobs.jobs
    for job in pausing:
        if (placed := left.get(job)) is not None:
            left = left.insert(job, replace(placed, paused=frozenset(sorted(placed.paused - sources)[-MOST_PAUSED:])))
    return replace(jobs, jobs=left)
