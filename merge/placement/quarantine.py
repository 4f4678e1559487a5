"""Quarantine: the tasks of a tenant whose tasks were stopped again and again share no worker with those of others.

A task is in quarantine while nobody needs it but tenants that are. With it are all tasks that it feeds, because a task
serves all dataflows that the tasks below it serve.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from merge.jobs import JobId
from merge.running_graph import RunningGraph
from merge.task import Instance


def quarantine_of(tenants: Iterable[str], quarantined: Container[str]) -> str:
    """The tenant in whose jobs a task of these tenants runs; empty if one of them is not in quarantine.

    >>> quarantine_of(["eve"], {"eve"}), quarantine_of(["ann", "eve"], {"eve"})
    ('eve', '')
    """
    names = frozenset(tenants)
    return min(names, default="") if all(name in quarantined for name in names) else ""


def in_quarantine(running: RunningGraph, quarantined: Container[str]) -> Mapping[Instance, str]:
    """The tasks in quarantine, each with the tenant in whose jobs it runs."""
    return {each: min(running.tenants_of(each)) for each in running.only_for(quarantined)}


@dataclass(frozen=True, slots=True)
class AllBut:
    """The jobs that run, but for some.

    >>> JobId(1) in AllBut(frozenset({JobId(2)}), JobId(3)), JobId(2) in AllBut(frozenset({JobId(2)}), JobId(3))
    (True, False)
    """

    excepted: frozenset[JobId]
    next_job: JobId
    """The first that does not run yet."""

    def __contains__(self, job: object) -> bool:
        return isinstance(job, int) and job < self.next_job and job not in self.excepted
