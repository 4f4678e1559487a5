"""The checks that jobs of a reconfiguration can run what their tasks become, and where tasks come and go; pure."""

from collections.abc import Iterable, Iterator

from dags import Problem
from dags.problems import listed, pointer
from manager.transitions.reconfiguration_decision import ReconfigurationDecision
from merge import Host, Jobs, TooManyStreams
from merge.step import check_streams

_SMALLER = "change fewer tasks at once, or have an operator add a host and replace the document instead"


def unoffered(decided: ReconfigurationDecision, hosts: Iterable[Host]) -> Iterator[Problem]:
    """A problem for each task that the host of its job cannot run with its new type or tags.

    A host that is away may offer anything.
    """
    known = {host.name: host for host in hosts if not host.away}
    jobs = decided.settled.jobs
    _, new = decided.alteration.swaps[0]
    names = {instance: task for task, instance in new.places.items()}
    changed = (
        each.becomes
        for each in decided.tasks
        if each.becomes.type.name != each.was.type.name or not each.becomes.tags <= each.was.tags
    )
    for task in (*changed, *decided.alteration.inserted):
        kind = task.type
        host = known.get(jobs.jobs[jobs.homes[task.instance].job].host)
        if host is None:
            continue
        at = pointer("tasks", names.get(task.instance, ""), "type")
        if lacking := task.tags - host.tags:
            yield Problem(
                pointer=at,
                code="no-host",
                message=f"it needs a host that offers {listed(sorted(lacking))}; this one runs on "
                f"{host.name!r}, which does not",
                remedy="replace the document instead; the task is then placed anew",
            )
        elif not host.has(kind.name):
            yield Problem(
                pointer=at,
                code="no-host",
                message=f"the task runs on host {host.name!r}, which has no implementation of the type {kind.name!r}",
                remedy="install it there, or replace the document instead; the task is then placed anew",
            )


def overfilled(decided: ReconfigurationDecision, before: Jobs) -> Iterator[Problem]:
    """A problem if a host would receive too many streams between jobs, because shared tasks are copied."""
    try:
        check_streams(before, decided.settled)
    except TooManyStreams as error:
        yield Problem(pointer="/tasks", code="too-many-streams", message=str(error), remedy=_SMALLER)


def untrusted(decided: ReconfigurationDecision) -> Iterator[Problem]:
    """A problem for each task that would bring code into a job in which that of others runs."""
    names = {instance: task for _, new in decided.alteration.swaps for task, instance in new.places.items()}
    for task in sorted(names.get(instance, "") for instance in decided.mixed):
        yield Problem(
            pointer=pointer("tasks", task, "type"),
            code="other-code",
            message=f"{task!r} would run your code in a job with code of another tenant",
            remedy="replace the document instead; the task is then placed anew",
        )


def unplaceable(decided: ReconfigurationDecision) -> Iterator[Problem]:
    """A problem for each task below which others come or go, but not within one job."""
    _, new = decided.alteration.swaps[0]
    names = {instance: task for task, instance in new.places.items()}
    for task in sorted(names.get(instance, "") for instance in decided.scattered):
        yield Problem(
            pointer=pointer("tasks", task),
            code="other-jobs",
            message=f"another job would begin or cease to read what {task!r} emits, which it cannot while tasks run",
            remedy="replace the document instead; tasks below then begin anew. Or defragment first",
        )
