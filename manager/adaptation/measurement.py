"""The measurement of a dynamic dataflow, and what the adapter remembers of it from look to look. Pure.

Measured is what flows in it and what its tasks cost, from the counters of its jobs. Figures are over some ten seconds,
so that a decision does not go by what was before the last one.
"""

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from adaptation.decision import (
    ChoiceDecision,
    Ground,
    Permission,
    StandingChoice,
    guards_of,
    permission,
    value_guards_of,
)
from adaptation.documents import DynamicDocument, NotAResolution, Policy, Selection, choices_in
from adaptation.flow import ONLY, FlowFigures, TaskMeasure, flow_of
from adaptation.forecast import forecast
from adaptation.guard_states import BEFORE_ANY_LOOK, GuardStates, Observed, advance
from adaptation.guards import MetricKey
from adaptation.service_figures import ProvidedDataflow
from engine.plan import Plan
from manager.observations.reports import InstanceMeasured, JobSeen, Measured
from manager.store.tables import DataflowRow
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
    users: Mapping[str, int] = field(default_factory=dict)
    """How many dataflows use each task, by its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowMeasured:
    """The figures that were measured; made by `flow_measured`."""

    rates: Mapping[str, float]
    """Events a second that arrive for each source task."""
    tasks: Mapping[str, TaskMeasure]
    """By task. A task that is another one's instance too costs nothing more."""
    metrics: Mapping[MetricKey, float]
    cores: float
    """The cores that there are for it."""
    waiting: Mapping[str, float]
    """The events that wait for each source task, beyond those that wait for the next batch in any case."""
    got: float | None
    """The cores that its tasks got in jobs that fall behind: there were no more. None if none falls behind."""
    users: Mapping[str, int] = field(default_factory=dict)
    """How many dataflows use each task; one, if it is not named."""


class _Stretch(NamedTuple):
    base: Measured
    last: Measured
    seconds: float

    def did(self, instance: int) -> InstanceMeasured:
        """Return what an instance did meanwhile."""
        after, before = (counters.instances.get(instance, _NOTHING) for counters in (self.last, self.base))
        return InstanceMeasured(
            cpu_ns=max(0, after.cpu_ns - before.cpu_ns),
            taken=max(0, after.taken - before.taken),
            emitted=max(0, after.emitted - before.emitted),
        )

    def busy(self, instance: int) -> float:
        """The cores that an instance took."""
        return self.did(instance).cpu_ns / 1e9 / self.seconds


def flow_measured(layout: FlowLayout, seen: Mapping[str, JobSeen], now: float) -> FlowMeasured | None:
    """Return the latest figures; None until all jobs of the dataflow have reported for long enough."""
    over = {job: _recent(seen[job].measured, now) for job in layout.plans if job in seen}
    known = {job: stretch for job, stretch in over.items() if stretch is not None}
    if known.keys() < layout.plans.keys():
        return None
    first = {instance: task for task, instance in reversed(list(layout.instances.items()))}
    rates = {task: _arriving(stream, known.values()) for task, stream in layout.streams.items()}
    own = {
        task: known[layout.homes[instance]]
        for task, instance in layout.instances.items()
        if layout.homes[instance] in known
    }
    tasks = {
        task: _task(own[task].did(instance), is_first=first[instance] == task)
        for task, instance in layout.instances.items()
        if task not in layout.streams and task in own
    }
    behind = {job for job, over in known.items() if _falls_behind(layout, job, over)}
    return FlowMeasured(
        rates=rates,
        tasks={task: work for task, work in tasks.items() if work is not None},
        metrics=dict(_metrics(layout, known, rates, own)),
        cores=max(0.0, min(_in_jobs(layout, known), _on_hosts(layout, known))),
        waiting={task: _waiting_in(stream, layout, known) for task, stream in layout.streams.items()},
        got=_got(layout, known, behind) if behind else None,
        users=layout.users,
    )


def _recent(measured: Sequence[Measured], now: float) -> _Stretch | None:
    if len(measured) < 2 or measured[-1].at < now - _STALE:  # noqa: PLR2004 - a stretch has two ends
        return None
    last = measured[-1]
    base = next((sample for sample in reversed(measured) if sample.at <= last.at - _WINDOW), measured[0])
    return _Stretch(base, last, last.at - base.at) if last.at > base.at else None


def _arriving(stream: str, stretches: Iterable[_Stretch]) -> float:
    """Events a second that enter a spool: those that were read, and those by which the backlog grew."""
    fastest = 0.0
    for base, last, seconds in stretches:
        before, after = base.streams.get(stream), last.streams.get(stream)
        if before is not None and after is not None:
            grown = after.entered - before.entered + after.lag_events - before.lag_events
            fastest = max(fastest, grown / seconds)
    return fastest


def _task(did: InstanceMeasured, *, is_first: bool) -> TaskMeasure | None:
    if did.taken < _FEWEST:
        return None
    cost = did.cpu_ns / 1e9 / did.taken if is_first else 0.0
    return TaskMeasure(cost=cost, selectivity=did.emitted / did.taken)


def _metrics(
    layout: FlowLayout, known: Mapping[str, _Stretch], rates: Mapping[str, float], own: Mapping[str, _Stretch]
) -> Iterator[tuple[MetricKey, float]]:
    yield MetricKey("rate", None), sum(rates.values())
    # Another dataflow's job may have the source.
    homes = {instance: job for instance in set(layout.instances.values()) if (job := layout.homes[instance]) in known}
    loads = {instance: known[job].busy(instance) for instance, job in homes.items()}
    yield MetricKey("load", None), sum(loads.values())
    for task, over in own.items():
        did = over.did(layout.instances[task])
        yield MetricKey("rate", task), rates.get(task, did.taken / over.seconds)
        yield MetricKey("load", task), loads[layout.instances[task]]
    lags = [stream.lag_events for over in known.values() for stream in over.last.streams.values()]
    yield MetricKey("backlog", None), float(sum(lags))
    yield MetricKey("throughput", None), min((_omega(layout, job, over) for job, over in known.items()), default=1.0)
    ages = [
        latencies["p50"]
        for over in known.values()
        for latencies in over.last.outputs.get(layout.dataflow, {}).values()
        if "p50" in latencies
    ]
    if ages:
        yield MetricKey("latency", None), max(ages)


def _omega(layout: FlowLayout, job: str, over: _Stretch) -> float:
    """The share of what was there for a job that it has worked off."""
    worked = waiting = 0.0
    for stream, last in over.last.streams.items():
        before = over.base.streams.get(stream)
        worked += last.entered - (before.entered if before else 0)
        waiting += _waiting(stream, layout.plans[job].pace, over)
    return worked / (worked + waiting) if worked + waiting else 1.0


def _waiting(stream: str, pace: float, over: _Stretch) -> float:
    """The events of a stream that wait longer than for the next batch."""
    last, before = over.last.streams[stream], over.base.streams.get(stream)
    entered = last.entered - (before.entered if before else 0)
    return max(0.0, last.lag_events - entered / over.seconds * pace * _PACES)


def _waiting_in(stream: str, layout: FlowLayout, known: Mapping[str, _Stretch]) -> float:
    readers = (job for job, over in known.items() if stream in over.last.streams)
    return max((_waiting(stream, layout.plans[job].pace, known[job]) for job in readers), default=0.0)


def _falls_behind(layout: FlowLayout, job: str, over: _Stretch) -> bool:
    """Tell whether more and more events wait for a job, although it has run all the while."""
    if over.base.streams.keys() < over.last.streams.keys():
        return False
    grown = sum(last.lag_events - over.base.streams[stream].lag_events for stream, last in over.last.streams.items())
    waiting = sum(_waiting(stream, layout.plans[job].pace, over) for stream in over.last.streams)
    return waiting > 0 and grown > 0


def _in_jobs(layout: FlowLayout, known: Mapping[str, _Stretch]) -> float:
    """The cores that a dataflow's jobs have left for its tasks."""
    own = set(layout.instances.values())
    return sum(
        max(0.0, plan.shards * BEARABLE - layout.batch_cores.get(job, 0.0) - _others(plan, known[job], own))
        for job, plan in layout.plans.items()
    )


def _got(layout: FlowLayout, known: Mapping[str, _Stretch], behind: Collection[str]) -> float:
    """The cores that its tasks got in jobs that fall behind, and have left in the others."""
    others = replace(layout, plans={job: plan for job, plan in layout.plans.items() if job not in behind})
    own = (instance for instance in set(layout.instances.values()) if layout.homes[instance] in behind)
    return _in_jobs(others, known) + sum(known[layout.homes[instance]].busy(instance) for instance in own)


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


BY_HAND = "(by hand)"
"""The rule that fixes what its tenant has chosen."""
_SETTLED = 15.0
"""Seconds that an alternate must have stood before what is measured is its cost, or shows what it can get."""
_RETRY = 300.0
"""Seconds for which an alternate is not chosen again after it went back by itself."""
_BELIEVED = 300.0
"""Seconds for which there are no more cores than its tasks got when they fell behind."""
_WORKED_OFF = 60.0
"""Seconds in which what waits should be worked off."""
_HISTORY = 60
_AHEAD = 12
"""Rates in the history, and steps that are looked ahead; a step is five seconds."""
_STEP = 5.0


class AdaptedRow(NamedTuple):
    """A row of a dynamic dataflow, and what it runs by its policy; made when the row is new or has changed."""

    row: DataflowRow
    policy: Policy
    chosen: Selection | None
    """What its document stands for; None where it was changed otherwise."""

    @property
    def trouble(self) -> str:
        """Why it does not adapt."""
        return "" if self.chosen is not None else "it was changed otherwise; replace it with its document to go on"


@dataclass(kw_only=True)
class AdaptedDataflow:
    """One dataflow; one thread's."""

    dynamic: DynamicDocument
    as_of: AdaptedRow
    standing: StandingChoice
    left: Selection | None = None
    """What stood before the last switch."""
    states: GuardStates = BEFORE_ANY_LOOK
    learnt: dict[tuple[str, str], TaskMeasure] = field(default_factory=dict)
    failed: dict[tuple[str, str], float] = field(default_factory=dict)
    """Until when each alternate that went back by itself is not chosen."""
    behind: float | None = None
    """Since when it has fallen behind, if it does."""
    got: tuple[float, float] | None = None
    """When it fell behind last, and the cores that its tasks got then."""
    rates: dict[str, deque[float]] = field(default_factory=dict)
    measured: FlowMeasured | None = None
    decision: ChoiceDecision | None = None
    """The last one."""
    looked: float = 0.0
    """When it was looked at last."""
    stepped: float = 0.0
    """When the last rates were added."""

    def settle(self, now: float) -> None:
        """Go by what runs, now that nothing is under way: a switch may have gone back by itself."""
        there, sent = self.as_of.chosen, self.standing.choice
        if there is None or there == sent:
            return
        changed = [task for task, name in there.alternates.items() if sent.alternates[task] != name]
        if there == self.left:
            self.failed |= {(task, sent.alternates[task]): now + _RETRY for task in changed}
        since = {**self.standing.since, **dict.fromkeys(changed, now)}
        self.standing, self.left = StandingChoice(choice=there, since=since), None

    def go(self, decision: ChoiceDecision) -> None:
        """Note that what was decided is on its way."""
        self.left, self.standing = self.standing.choice, decision.standing

    def look(self, observed: Observed, measured: FlowMeasured | None, now: float) -> None:
        """Take what was observed."""
        self.measured, self.looked = measured, now
        guards, values = guards_of(self.dynamic, self.as_of.policy), value_guards_of(self.dynamic)
        self.states = advance(guards, values, self.states, observed)
        self._fall_behind(None if measured is None else measured.got, now)
        if measured is None:
            return
        for task, measurement in measured.tasks.items():
            since = self.standing.since.get(task)
            if since is None or now - since >= _SETTLED:
                self.learnt[task, self.standing.choice.alternates.get(task, ONLY)] = measurement
        if now - self.stepped >= _STEP:
            self.stepped = now
            for task, rate in measured.rates.items():
                self.rates.setdefault(task, deque(maxlen=_HISTORY)).append(rate)

    def _fall_behind(self, got: float | None, now: float) -> None:
        """Note what it got, once that was so for long enough: a burst of events lets it fall behind for a moment."""
        self.behind = None if got is None else self.behind or now
        if got is not None and now - max([self.behind or now, *self.standing.since.values()]) >= _SETTLED:
            self.got = now, got

    def ground(self, now: float, price: float = 0.0) -> Ground | None:
        """Return what a decision rests on, at a price of a core; None as long as too little was measured."""
        if self.measured is None:
            return None
        waiting = self.measured.waiting
        rates = {
            task: max(rate, self._expected(task)) + waiting.get(task, 0.0) / _WORKED_OFF
            for task, rate in self.measured.rates.items()
        }
        got = [self.got[1]] if self.got is not None and now - self.got[0] < _BELIEVED else []
        flow = flow_of(self.dynamic, FlowFigures(rates=rates, measured=self.learnt, numbers=self.states.numbers))
        return Ground(
            flow=flow,
            price=price * flow.part_of_need(self.standing.choice, self.measured.users),
            permission=self.permission(now),
            policy=self.as_of.policy,
            cores=min([self.measured.cores, *got]),
            now=now,
        )

    def permission(self, now: float) -> Permission:
        """Return what guards, rules and hands permit, without what went back by itself a while ago."""
        permitted = permission(self.dynamic, self.as_of.policy, self.states, self.standing.choice)
        alternates = {
            task: frozenset(name for name in names if self.failed.get((task, name), now) <= now) or names
            for task, names in permitted.alternates.items()
        }
        pinned: Mapping[str, str | bool] = self.as_of.row.pinned or {}
        for name, chosen in pinned.items():
            if name in alternates:
                alternates[name] = frozenset({str(chosen)})
        opened = {name: bool(pinned.get(name, is_open)) for name, is_open in permitted.opened.items()}
        rules = {**permitted.rules, **dict.fromkeys(pinned, BY_HAND)}
        return replace(permitted, alternates=alternates, opened=opened, rules=rules)

    def _expected(self, task: str) -> float:
        history = self.rates.get(task)
        return forecast(tuple(history), _AHEAD).highest if history else 0.0


class AdaptationBoard:
    """The board of the dynamic dataflows that run: the adapter keeps it, and any thread reads it."""

    def __init__(self) -> None:
        self.known: Mapping[str, AdaptedDataflow] = {}
        """By dataflow; replaced as a whole."""
        self.costs: Mapping[str, float] | None = None
        """What the dataflows of each tenant cost a day; None where that is not known."""
        self.provided: Sequence[ProvidedDataflow] = ()
        """The dataflows of which the service may choose the alternates now."""
        self.planned: Mapping[str, Mapping[str, str]] = {}
        """By dataflow the alternates that the plan of all machines has; the scaler keeps it."""
        self.core_price: float | None = None
        """What an hour of a core costs by the classes of machines; the scaler keeps it."""

    def clear(self) -> None:
        """Forget what the adapter knows, since it does not look any more; what the scaler keeps stays."""
        self.known, self.costs, self.provided = {}, None, ()


def adapted_dataflow(dynamic: DynamicDocument, as_of: AdaptedRow) -> AdaptedDataflow:
    """A dataflow that was not known so far."""
    return AdaptedDataflow(dynamic=dynamic, as_of=as_of, standing=StandingChoice(choice=as_of.chosen or dynamic.first))


def adapted_row(row: DataflowRow, dynamic: DynamicDocument) -> AdaptedRow:
    """A row as it is now."""
    policy = dynamic.policy if row.policy is None else Policy.model_validate_json(row.policy)
    try:
        chosen = choices_in(json.loads(row.document), dynamic)
    except NotAResolution:
        chosen = None
    return AdaptedRow(row, policy, chosen)
