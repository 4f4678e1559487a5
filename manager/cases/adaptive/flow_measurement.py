"""The measurement of a dynamic dataflow: what flows in it and what its tasks cost, from the counters of its jobs; pure.

Figures are over some ten seconds, so that a decision does not go by what was before the last one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from adaptation.flow import TaskMeasure
from adaptation.guards.cases import MetricKey
from engine.plan import Plan
from manager.observations.reports import InstanceMeasured, JobSeen, Measured
from merge.capacity import BEARABLE

_WINDOW = 10.0
"""Seconds that a figure covers at least; samples are some five seconds apart."""
_STALE = 30.0
"""Seconds after which a job's last report says nothing of now."""
_FEWEST = 20
"""Events from which on a cost is believed."""
_PACES = 1.5
"""The paces whose events wait in any case: no backlog."""
_NOTHING = InstanceMeasured()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLayout:
    """Where a dataflow runs; made from what is committed."""

    dataflow: str
    instances: Mapping[str, int]
    """The instance of each task, by its id."""
    homes: Mapping[int, str]
    """The job of each instance."""
    streams: Mapping[str, str]
    """The raw stream of each source task."""
    plans: Mapping[str, Plan]
    """Of its jobs, by job."""
    host_cores: Mapping[str, float] = field(default_factory=dict)
    batch_cores: Mapping[str, float] = field(default_factory=dict)
    """The cores that a job's batches take whatever they hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowMeasured:
    """What was measured; made by `flow_measured`."""

    rates: Mapping[str, float]
    """Events a second that arrive for each source task."""
    tasks: Mapping[str, TaskMeasure]
    """By task. A task that is another one's instance too costs nothing more."""
    metrics: Mapping[MetricKey, float]
    cores: float
    """The cores that there are for it."""


class _Stretch(NamedTuple):
    base: Measured
    last: Measured
    seconds: float

    def did(self, instance: int) -> InstanceMeasured:
        """What an instance did meanwhile."""
        after, before = (each.instances.get(instance, _NOTHING) for each in (self.last, self.base))
        return InstanceMeasured(
            cpu_ns=max(0, after.cpu_ns - before.cpu_ns),
            taken=max(0, after.taken - before.taken),
            emitted=max(0, after.emitted - before.emitted),
        )

    def busy(self, instance: int) -> float:
        """The cores that an instance took."""
        return self.did(instance).cpu_ns / 1e9 / self.seconds


def flow_measured(layout: FlowLayout, seen: Mapping[str, JobSeen], now: float) -> FlowMeasured | None:
    """What was measured lately; None until all jobs of the dataflow have reported for long enough."""
    over = {job: _recent(seen[job].measured, now) for job in layout.plans if job in seen}
    known = {job: each for job, each in over.items() if each is not None}
    if known.keys() < layout.plans.keys():
        return None
    first = {instance: task for task, instance in reversed(list(layout.instances.items()))}
    rates = {task: _arriving(stream, known.values()) for task, stream in layout.streams.items()}
    own = {task: known[layout.homes[each]] for task, each in layout.instances.items() if layout.homes[each] in known}
    tasks = {
        task: _task(own[task].did(instance), is_first=first[instance] == task)
        for task, instance in layout.instances.items()
        if task not in layout.streams and task in own
    }
    return FlowMeasured(
        rates=rates,
        tasks={task: each for task, each in tasks.items() if each is not None},
        metrics=dict(_metrics(layout, known, rates, own)),
        cores=max(0.0, min(_in_jobs(layout, known), _on_hosts(layout, known))),
    )


def _recent(measured: Sequence[Measured], now: float) -> _Stretch | None:
    if len(measured) < 2 or measured[-1].at < now - _STALE:  # noqa: PLR2004 - a stretch has two ends
        return None
    last = measured[-1]
    base = next((each for each in reversed(measured) if each.at <= last.at - _WINDOW), measured[0])
    return _Stretch(base, last, last.at - base.at) if last.at > base.at else None


def _arriving(stream: str, stretches: Iterable[_Stretch]) -> float:
    """Events a second that enter a spool: those that were read, and those by which the backlog grew."""
    found = 0.0
    for base, last, seconds in stretches:
        before, after = base.streams.get(stream), last.streams.get(stream)
        if before is not None and after is not None:
            grown = after.entered - before.entered + after.lag_events - before.lag_events
            found = max(found, grown / seconds)
    return found


def _task(did: InstanceMeasured, *, is_first: bool) -> TaskMeasure | None:
    if did.taken < _FEWEST:
        return None
    cost = did.cpu_ns / 1e9 / did.taken if is_first else 0.0
    return TaskMeasure(cost=cost, selectivity=did.emitted / did.taken)


def _metrics(
    layout: FlowLayout, known: Mapping[str, _Stretch], rates: Mapping[str, float], own: Mapping[str, _Stretch]
) -> Iterator[tuple[MetricKey, float]]:
    yield MetricKey("rate", None), sum(rates.values())
    loads = {instance: known[layout.homes[instance]].busy(instance) for instance in set(layout.instances.values())}
    yield MetricKey("load", None), sum(loads.values())
    for task, over in own.items():
        did = over.did(layout.instances[task])
        yield MetricKey("rate", task), rates.get(task, did.taken / over.seconds)
        yield MetricKey("load", task), loads[layout.instances[task]]
    lags = [stream.lag_events for over in known.values() for stream in over.last.streams.values()]
    yield MetricKey("backlog", None), float(sum(lags))
    yield MetricKey("throughput", None), min((_omega(layout, job, over) for job, over in known.items()), default=1.0)
    ages = [
        each["p50"]
        for over in known.values()
        for each in over.last.outputs.get(layout.dataflow, {}).values()
        if "p50" in each
    ]
    if ages:
        yield MetricKey("latency", None), max(ages)


def _omega(layout: FlowLayout, job: str, over: _Stretch) -> float:
    """The share of what was there for a job that it has worked off."""
    worked = waiting = 0.0
    for stream, last in over.last.streams.items():
        before = over.base.streams.get(stream)
        entered = last.entered - (before.entered if before else 0)
        worked += entered
        waiting += max(0.0, last.lag_events - entered / over.seconds * layout.plans[job].pace * _PACES)
    return worked / (worked + waiting) if worked + waiting else 1.0


def _in_jobs(layout: FlowLayout, known: Mapping[str, _Stretch]) -> float:
    """The cores that a dataflow's jobs have left for its tasks."""
    own = set(layout.instances.values())
    return sum(
        max(0.0, plan.shards * BEARABLE - layout.batch_cores.get(job, 0.0) - _others(plan, known[job], own))
        for job, plan in layout.plans.items()
    )


def _on_hosts(layout: FlowLayout, known: Mapping[str, _Stretch]) -> float:
    """The cores that the hosts of these jobs have."""
    hosts = {plan.host for plan in layout.plans.values()}
    if not hosts <= layout.host_cores.keys():
        return float("inf")
    own = set(layout.instances.values())
    taken = sum(layout.batch_cores.get(job, 0.0) + _others(plan, known[job], own) for job, plan in layout.plans.items())
    return sum(layout.host_cores[host] for host in hosts) - taken


def _others(plan: Plan, over: _Stretch, own: set[int]) -> float:
    """The cores that tasks of other dataflows take in a job."""
    return sum(over.busy(slot.instance) for slot in plan.slots if slot.instance not in own)
