"""Greedy tails: tasks that serve one tenant alone, and hold up others although events of their part wait.

A part of a plan that takes too long waits in its streams, see `engine/kernel/early_end.py`. In two cases that does not
help others. They read the same stream, and the part falls further and further behind; one that catches up after an
outage does not. Or what cannot wait takes much longer than a batch may. Then the costly tasks of the tail are stopped.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from engine.plan import Plan, PlanPart
from engine.records.record_header import Header

GREEDY = "it took more than its part of the CPU of its batches, and others waited"
"""The reason for which a greedy task is stopped; it begins like others for which a task was stopped for its CPU."""
_BEHIND = 2.0
"""Seconds by which a part has to fall behind before a tail is greedy that others share a stream with."""
_GREEDY_SHARE = 0.5
"""The share of its part's CPU that such a tail takes at least."""
_LONG_SECONDS, _LONG_BATCHES = 3.0, 2.0
"""A tail takes too long beyond so many seconds of CPU, or so many times what a batch may take if that is more."""
_UNKNOWN = ""
"""Stands for whom another job serves."""


class GreedyTasks(NamedTuple):
    """The costly tasks of greedy tails."""

    behind: frozenset[int] = frozenset()
    """Others that read the same stream have fallen behind."""
    too_long: frozenset[int] = frozenset()
    """A batch took too long, which may happen once, for instance while a library is loaded."""


class GreedyTails:
    """The greedy tails of one job; asked after each batch."""

    def __init__(self) -> None:
        self._lags: dict[frozenset[str], float] = {}
        """The lag that each part had when it began to wait, in seconds of no particular clock."""

    def after(self, header: Header, plan: Plan, now: float) -> GreedyTasks:
        """The tasks that were greedy in a batch of a plan."""
        too_long = math.inf if plan.shards > 1 else max(_LONG_SECONDS, _LONG_BATCHES * plan.batch_seconds) * 1e9
        if not header.waiting and sum(meter.cpu_ns for meter in header.meters.values()) < too_long:
            # As nearly always; all that follows costs more than most batches.
            self._lags = {}
            return GreedyTasks()
        parts, served = plan.parts(), _served(plan)
        lags, behind, long = dict[frozenset[str], float](), set[int](), set[int]()
        for part in parts:
            cpu = {instance: header.meters[instance].cpu_ns for instance in part.instances & header.meters.keys()}
            if len(parts) > 1:
                long.update(_costly(cpu, served, too_long))
            if waiting := part.streams & header.waiting.keys():
                lag = now - min(header.waiting[stream] for stream in waiting) / 1_000
                lags[part.streams] = self._lags.get(part.streams, lag)
                if lag - lags[part.streams] > _BEHIND and len(_tenants(part, served)) > 1:
                    behind.update(_costly(cpu, served, _GREEDY_SHARE * sum(cpu.values())))
        self._lags = lags
        return GreedyTasks(frozenset(behind), frozenset(long))


def _costly(cpu: Mapping[int, int], served: Mapping[int, set[str]], bound: float) -> Iterator[int]:
    """The costly tasks of each tail that took more than a bound; `cpu` is what each task of the part took, in ns."""
    tails: dict[str, dict[int, int]] = {}
    for instance, ns in cpu.items():
        if len(served[instance]) == 1:
            tails.setdefault(min(served[instance]), {})[instance] = ns
    for tenant, tail in tails.items():
        if tenant != _UNKNOWN and (total := sum(tail.values())) > bound:
            yield from (instance for instance, ns in tail.items() if 2 * ns * len(tail) >= total)


def _tenants(part: PlanPart, served: Mapping[int, set[str]]) -> frozenset[str]:
    """The tenants that a part is known to serve."""
    return frozenset[str]().union(*(served[instance] for instance in part.instances)) - {_UNKNOWN}


def _served(plan: Plan) -> dict[int, set[str]]:
    """The tenants that each instance serves in this job."""
    served: dict[int, set[str]] = {instance: set() for instance in plan.instances}
    for delivery in plan.deliveries:
        served[delivery.instance].add(delivery.tenant)
    for forward in plan.forwards:
        served[forward.instance].add(_UNKNOWN)
    for slot in reversed(plan.active):
        for edge in slot.inputs:
            served.setdefault(edge.parent, set()).update(served[slot.instance])
    return served
