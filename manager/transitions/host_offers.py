"""The check that the jobs of a reconfiguration run on hosts that can run what their tasks become; pure."""

from collections.abc import Iterable, Iterator

from dags import Problem
from dags.problems import listed, pointer
from manager.transitions.reconfiguration_decision import ReconfigurationDecision
from merge import Host


def unoffered(decided: ReconfigurationDecision, hosts: Iterable[Host]) -> Iterator[Problem]:
    """A problem for each task whose new type the host of its job cannot run. A host that is away may offer anything."""
    known = {host.name: host for host in hosts}
    jobs = decided.settled.jobs
    _, new = decided.alteration.swaps[0]
    names = {instance: task for task, instance in new.places.items()}
    for each in decided.tasks:
        kind = each.becomes.type
        host = known.get(jobs.jobs[jobs.homes[each.becomes.instance].job].host)
        if host is None or kind.name == each.was.type.name:
            continue
        at = pointer("tasks", names.get(each.becomes.instance, ""), "type")
        if lacking := kind.tags - host.tags:
            yield Problem(
                pointer=at,
                code="no-host",
                message=f"a task of this type needs a host that offers {listed(sorted(lacking))}; this one runs on "
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
